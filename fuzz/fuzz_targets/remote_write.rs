//! Any bytes as a body of remote write, of either version, compressed or not: it is read or refused, within its bounds, and
//! reading it again gives the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| assert!(runtab::ingest::remote_write::message::keeps_its_promises(bytes)));
