//! Any bytes as a segment of the spool: records that are read are whole, and reading them again from the good bytes alone
//! gives the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| assert!(runtab::agent::spool::record::keeps_its_promises(bytes)));
