//! Remote write as a sender writes it, byte by byte: an independent counterpart of what the engine reads with.

use serde_json::Value;

use crate::harness::{Api, Raw, Time};

/// The value that says: unknown from here.
pub(super) const STALE: u64 = 0x7ff0_0000_0000_0002;

/// A series of a request.
#[derive(Clone, Default)]
pub(super) struct Series {
    labels: Vec<(String, String)>,
    points: Vec<(i64, u64)>,
    exemplars: usize,
}

impl Series {
    /// A metric of the lease `id` of the sandbox `s-ID` of `acme`.
    pub(super) fn of(metric: &str, id: &str) -> Self {
        Self::default()
            .label("__name__", metric)
            .label("container_label_runtab_account", "acme")
            .label("container_label_runtab_lease", id)
            .label("container_label_runtab_sandbox", &format!("s-{id}"))
    }

    pub(super) fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.retain(|(known, _)| known != name);
        self.labels.push((name.to_owned(), value.to_owned()));
        self.labels.sort();
        self
    }

    pub(super) fn at(self, at: Time, value: f64) -> Self {
        self.bits(at, value.to_bits())
    }

    pub(super) fn bits(mut self, at: Time, bits: u64) -> Self {
        self.points.push((at.0, bits));
        self
    }

    pub(super) fn without_points(mut self) -> Self {
        self.points.clear();
        self
    }

    pub(super) fn exemplar(mut self) -> Self {
        self.exemplars += 1;
        self
    }
}

/// The CPU counter of a lease, in seconds.
pub(super) fn cpu(id: &str, at: Time, seconds: f64) -> Series {
    Series::of("container_cpu_usage_seconds_total", id).label("cpu", "total").at(at, seconds)
}

/// When its counter began.
pub(super) fn start(id: &str, at: Time, began: Time) -> Series {
    #[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "as an exporter does")]
    let seconds = began.0 as f64 / 1_000.0;
    Series::of("container_start_time_seconds", id).at(at, seconds)
}

/// Its memory, in bytes.
pub(super) fn memory(id: &str, at: Time, bytes: f64) -> Series {
    Series::of("container_spec_memory_limit_bytes", id).at(at, bytes)
}

/// Its disk, in bytes.
pub(super) fn disk(id: &str, device: &str, at: Time, bytes: f64) -> Series {
    Series::of("container_fs_usage_bytes", id).label("device", device).at(at, bytes)
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

pub(super) fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2];
    varint(u64::try_from(bytes.len()).expect("short"), &mut out);
    out.extend(bytes);
    out
}

fn points(tag: u8, series: &Series) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, bits) in &series.points {
        let mut point = vec![0x09];
        point.extend(bits.to_le_bytes());
        point.push(0x10);
        varint(u64::from_le_bytes(at.to_le_bytes()), &mut point);
        out.extend(field(tag, &point));
    }
    out
}

/// A message of 1.0, not yet compressed.
pub(super) fn v1(all: &[Series]) -> Vec<u8> {
    let series = all.iter().map(|series| {
        let labels = series.labels.iter().map(|(name, value)| {
            let label = [field(1, name.as_bytes()), field(2, value.as_bytes())].concat();
            field(1, &label)
        });
        let exemplars = field(3, &[0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]).repeat(series.exemplars);
        field(1, &[labels.collect::<Vec<_>>().concat(), points(2, series), exemplars].concat())
    });
    series.collect::<Vec<_>>().concat()
}

/// A message of 2.0, not yet compressed.
pub(super) fn v2(all: &[Series]) -> Vec<u8> {
    let mut symbols = vec![String::new()];
    let mut place = |text: &str| {
        let known = symbols.iter().position(|symbol| symbol == text);
        u64::try_from(known.unwrap_or_else(|| {
            symbols.push(text.to_owned());
            symbols.len() - 1
        }))
        .expect("few")
    };
    let mut series = Vec::new();
    for one in all {
        let mut labels = Vec::new();
        for (name, value) in &one.labels {
            varint(place(name), &mut labels);
            varint(place(value), &mut labels);
        }
        let exemplars = field(4, &[0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]).repeat(one.exemplars);
        let metadata = field(5, &[0x08, 1]);
        series.extend(field(5, &[field(1, &labels), points(2, one), exemplars, metadata].concat()));
    }
    let symbols = symbols.iter().map(|symbol| field(4, symbol.as_bytes())).collect::<Vec<_>>().concat();
    [symbols, series].concat()
}

pub(super) const TYPE_V1: &str = "application/x-protobuf";
pub(super) const TYPE_V2: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";

pub(super) fn snappy(message: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(message).expect("a block")
}

/// Posts a message as a content type.
pub(super) async fn post(api: &Api, content_type: &str, body: Vec<u8>) -> Raw {
    let headers = [("content-type", content_type), ("content-encoding", "snappy")];
    api.raw("POST", "/v1/remote-write", &headers, body).await
}

/// Sends series as 1.0: they are taken.
pub(super) async fn send_v1(api: &Api, all: &[Series]) {
    let raw = post(api, TYPE_V1, snappy(&v1(all))).await;
    assert_eq!((raw.status, &raw.written), (204, &None), "{}", String::from_utf8_lossy(&raw.body));
}

/// Sends series as 2.0: they are taken. How many samples the engine says that it has written.
pub(super) async fn send_v2(api: &Api, all: &[Series]) -> usize {
    let raw = post(api, TYPE_V2, snappy(&v2(all))).await;
    assert_eq!(raw.status, 204, "{}", String::from_utf8_lossy(&raw.body));
    let written = raw.written.expect("what was written");
    let [samples, histograms, exemplars] = written.each_ref().map(|count| count.parse::<usize>().expect("a count"));
    assert_eq!((histograms, exemplars), (0, 0));
    samples
}

/// (code, sandbox, detail) of what was set aside, the latest first.
pub(super) async fn rejected(api: &Api, query: &str) -> Vec<(String, String, String)> {
    let list = crate::harness::done(api.get(&format!("/v1/rejected{query}")).await);
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let rows = list["items"].as_array().expect("items").iter();
    rows.map(|row| (text(row, "code"), text(row, "sandbox"), text(row, "detail"))).collect()
}
