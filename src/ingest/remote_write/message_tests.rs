//! Messages of both versions, written field by field.

use bytes::Bytes;
use prost::Message;

use super::{BadBody, LabelV1, Point, Series, SeriesV1, SeriesV2, Version, inflate, keeps_its_promises, read};

/// A field of bytes.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2];
    prost::encoding::encode_varint(u64::try_from(bytes.len()).unwrap(), &mut out);
    [out, bytes.to_vec()].concat()
}

fn all(version: Version, message: Vec<u8>) -> Result<Vec<Series>, BadBody> {
    let mut found = Vec::new();
    read(version, Bytes::from(message), |series| found.push(series)).map(|()| found)
}

fn point(value: f64, at_ms: i64) -> Point {
    Point { bits: value.to_bits(), at_ms }
}

fn label(name: &'static str, value: &'static str) -> LabelV1 {
    LabelV1 { name: name.into(), value: value.into() }
}

#[test]
fn a_request_of_1_0_is_read() {
    let series = SeriesV1 {
        labels: vec![label("__name__", "up"), label("job", "ä")],
        samples: vec![point(1.5, 7), point(2.0, 8)],
        exemplars: vec![],
        histograms: vec![],
    };
    let metadata = field(3, &field(2, b"up"));
    let lone_exemplar =
        field(1, &[field(1, &label("__name__", "x").encode_to_vec()), field(3, &field(1, b""))].concat());
    let message =
        [field(1, &series.encode_to_vec()), metadata.clone(), lone_exemplar, field(1, &series.encode_to_vec())];
    let found = all(Version::V1, message.concat()).unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!((found[0].label("job"), found[0].label("none")), (Some("ä"), None));
    assert_eq!(found[0].points, series.samples);
    assert_eq!((found[1].points.len(), found[1].exemplars), (0, 1));
    assert_eq!(found[2], found[0], "the same labels again are a series again");
    assert_eq!(all(Version::V1, metadata), Ok(vec![]), "metadata alone is a request");
}

#[test]
fn a_request_of_2_0_is_read() {
    let series = SeriesV2 { labels: vec![1, 2], samples: vec![point(-0.0, 7)], histograms: vec![], exemplars: vec![] };
    let symbols = ["", "__name__", "up"].map(|symbol| field(4, symbol.as_bytes())).concat();
    let one = field(5, &series.encode_to_vec());
    for message in [[symbols.clone(), one.clone()].concat(), [one, symbols.clone()].concat()] {
        let found = all(Version::V2, message).unwrap();
        assert_eq!((found[0].label("__name__"), found[0].points[0].bits), (Some("up"), 1 << 63));
    }
    for labels in [vec![1], vec![1, 3], vec![u32::MAX, 0]] {
        let bad = SeriesV2 { labels, ..series.clone() };
        let found = all(Version::V2, [symbols.clone(), field(5, &bad.encode_to_vec())].concat()).unwrap();
        assert_eq!((found[0].labels.clone(), found[0].points.len()), (None, 1));
    }
}

#[test]
fn what_is_no_message_is_refused() {
    for bytes in [vec![0x0a], vec![0x0a, 5, 1], vec![0x08, 1], field(1, &[0xff]), vec![0xff; 20]] {
        assert_eq!(all(Version::V1, bytes.clone()), Err(BadBody::NotTheMessage), "{bytes:?}");
    }
    assert_eq!(all(Version::V1, field(1, &vec![0; super::SERIES_BYTES_MAX + 1])), Err(BadBody::TooLarge));
}

#[test]
fn a_block_that_would_be_too_large_is_not_inflated() {
    let body = snap::raw::Encoder::new().compress_vec(&[7; 1_000]).unwrap();
    assert_eq!(inflate(&body, 1_000).unwrap(), vec![7; 1_000]);
    assert_eq!(inflate(&body, 999), Err(BadBody::TooLarge));
    // It says four gigabytes and has none.
    assert_eq!(inflate(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0], 8_388_608), Err(BadBody::TooLarge));
    for bytes in [&b""[..], &[0xff; 12], &body[..body.len() - 1]] {
        assert_eq!(inflate(bytes, 8_388_608), Err(BadBody::NotSnappy), "{bytes:?}");
    }
}

#[test]
fn the_content_type_tells_the_version() {
    for (text, version) in [
        ("application/x-protobuf", Some(Version::V1)),
        ("application/x-protobuf;proto=prometheus.WriteRequest", Some(Version::V1)),
        ("Application/X-Protobuf ; proto=io.prometheus.write.v2.Request", Some(Version::V2)),
        ("application/x-protobuf; charset=utf-8; proto=\"io.prometheus.write.v2.Request\"", Some(Version::V2)),
        ("application/x-protobuf;proto=io.prometheus.write.v3.Request", None),
        ("application/json", None),
        ("", None),
    ] {
        assert_eq!(Version::of_content_type(text), version, "{text}");
    }
}

#[test]
fn promises_are_kept_on_some_bytes() {
    for bytes in [&b""[..], &[0], &[1, 2, 3], &[2, 0x0a, 0], &[3, 0x22, 0, 0x2a, 2, 0x0a, 0]] {
        assert!(keeps_its_promises(bytes));
    }
}
