//! Any bytes as a sandbox's document: what is read is written as a document that reads the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| assert!(runtab::agent::sandbox::keeps_its_promises(bytes)));
