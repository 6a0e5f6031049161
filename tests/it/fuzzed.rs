//! The corpus of the fuzz targets (`fuzz/`), and every truncation and some mutations of it, as a plain test.

use std::path::Path;

use runtab::agent::sandbox;
use runtab::agent::spool::record;
use runtab::ingest::remote_write::message;

use crate::crash::random::Random;

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).expect("a corpus").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> =
        entries.map(|path| (path.display().to_string(), std::fs::read(&path).expect("a file"))).collect();
    files.sort();
    assert!(files.len() > 10, "a corpus of {} files", files.len());
    files
}

fn holds(target: &str, promise: impl Fn(&[u8]) -> bool) {
    let mut random = Random::new(7);
    for (name, bytes) in corpus(target) {
        for end in 0..=bytes.len() {
            assert!(promise(&bytes[..end]), "{name} cut at {end}");
        }
        for round in 0..500 {
            let mut changed = bytes.clone();
            for _ in 0..=random.below(3) {
                if changed.is_empty() {
                    break;
                }
                let place = random.index(changed.len());
                match random.below(3) {
                    0 => changed[place] = u8::try_from(random.below(256)).expect("a byte"),
                    1 => changed[place] ^= 1 << random.below(8),
                    _ => drop(changed.remove(place)),
                }
            }
            assert!(promise(&changed), "{name} changed, round {round}: {changed:?}");
        }
    }
}

#[test]
fn the_spool_reader_keeps_its_promises_on_any_bytes() {
    holds("spool", record::keeps_its_promises);
}

#[test]
fn the_reader_of_documents_keeps_its_promises_on_any_bytes() {
    holds("sandbox", sandbox::keeps_its_promises);
}

#[test]
fn the_reader_of_remote_write_keeps_its_promises_on_any_bytes() {
    holds("remote_write", message::keeps_its_promises);
}
