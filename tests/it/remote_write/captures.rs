//! Requests that a real Prometheus sent, decoded as an independent reader decoded them: those that the repository carries
//! and, where it lies beside the checkout, a folder of more.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::read::GzDecoder;
use runtab::ingest::remote_write::message::{Series, Version, inflate, read};
use serde_json::{Value, json};

const BYTES_MAX: usize = 8_388_608;

fn decoded(version: Version, body: &[u8]) -> Value {
    let message: Bytes = inflate(body, BYTES_MAX).expect("a block");
    let mut all = Vec::new();
    read(version, message, |series| all.push(shown(&series))).expect("a message");
    Value::Array(all)
}

fn shown(series: &Series) -> Value {
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).expect("text");
    let labels = series.labels.as_ref().expect("labels");
    let labels: serde_json::Map<_, _> = labels.iter().map(|(name, value)| (text(name), text(value).into())).collect();
    let points = series.points.iter().map(|point| json!([point.at_ms, format!("{:016x}", point.bits)]));
    json!({"l": labels, "s": points.collect::<Vec<_>>(), "ex": series.exemplars, "h": series.histograms})
}

/// Every request of a folder is as its independent decode; how many there are.
fn agree(folder: &Path) -> usize {
    let mut text = String::new();
    let file = std::fs::File::open(folder.join("decoded.jsonl.gz")).expect("a decode");
    GzDecoder::new(file).read_to_string(&mut text).expect("text");
    for line in text.lines() {
        let expected: Value = serde_json::from_str(line).expect("JSON");
        let version = if expected["proto"] == 1 { Version::V1 } else { Version::V2 };
        let name = format!("{:05}.bin", expected["seq"].as_u64().expect("a number"));
        let body = std::fs::read(folder.join(&name)).expect("a body");
        assert_eq!(decoded(version, &body), expected["ts"], "{} {name}", folder.display());
    }
    text.lines().count()
}

#[test]
fn our_own_payloads_decode_as_an_independent_reader_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/remote_write/payloads");
    for version in ["v1", "v2"] {
        assert!(agree(&folder.join(version)) >= 5);
    }
}

#[test]
fn captured_payloads_decode_as_an_independent_reader_says() {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let beside = std::env::var_os("RUNTAB_TEST_DATA").map_or_else(beside, PathBuf::from).join("remote-write");
    let folders = std::fs::read_dir(&beside).map_or_else(
        |_| Vec::new(),
        |entries| {
            let paths = entries.map(|entry| entry.expect("an entry").path());
            paths.filter(|path| path.join("decoded.jsonl.gz").exists()).collect::<Vec<PathBuf>>()
        },
    );
    let count: usize = folders.iter().map(|folder| agree(folder)).sum();
    #[expect(clippy::print_stdout, reason = "says what was not tested")]
    if count == 0 {
        println!("skipped: there are no captures beside the checkout");
    }
}
