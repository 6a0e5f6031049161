//! The messages of Prometheus remote write 1.0 and 2.0, read series by series.
//!
//! Only what is needed is read: labels, samples, and how many exemplars and histograms there are. A float is taken as its
//! 64 bits, never as a float. A body is inflated only when what it says of its length is within bounds; then one series
//! is in memory at a time, so that a small body can't unfold into many structures.

use bytes::Bytes;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// Most bytes of one series: thousands of samples and labels of many kilobytes fit.
pub const SERIES_BYTES_MAX: usize = 1_048_576;
/// Most symbols of a request of 2.0.
pub const SYMBOLS_MAX: usize = 500_000;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `prometheus.WriteRequest`.
    V1,
    /// `io.prometheus.write.v2.Request`.
    V2,
}

impl Version {
    /// The version of a content type; `None` where it is of neither.
    #[must_use]
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        let mut parts = content_type.split(';').map(str::trim);
        if !parts.next()?.eq_ignore_ascii_case("application/x-protobuf") {
            return None;
        }
        let mut message = None;
        for part in parts {
            let (name, value) = part.split_once('=')?;
            if name.trim().eq_ignore_ascii_case("proto") {
                message = Some(value.trim().trim_matches('"'));
            }
        }
        match message {
            None | Some("prometheus.WriteRequest") => Some(Self::V1),
            Some("io.prometheus.write.v2.Request") => Some(Self::V2),
            Some(_) => None,
        }
    }
}

/// Why a body can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBody {
    /// It is not the snappy block that it should be.
    NotSnappy,
    /// It would be larger than is taken when it is inflated.
    TooLarge,
    /// It is not the message that it should be.
    NotTheMessage,
}

/// Inflates a snappy block to at most `bytes_max` bytes.
pub fn inflate(body: &[u8], bytes_max: usize) -> Result<Bytes, BadBody> {
    let length = snap::raw::decompress_len(body).map_err(|_| BadBody::NotSnappy)?;
    if length > bytes_max {
        return Err(BadBody::TooLarge);
    }
    snap::raw::Decoder::new().decompress_vec(body).map(Bytes::from).map_err(|_| BadBody::NotSnappy)
}

/// A label of 1.0.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LabelV1 {
    /// Its name.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// Its value.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// A sample, of both versions: a double is eight bytes as a fixed64 is.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Point {
    /// The bits of the value.
    #[prost(fixed64, tag = "1")]
    pub bits: u64,
    /// Milliseconds since the epoch.
    #[prost(int64, tag = "2")]
    pub at_ms: i64,
}

/// Something that is only counted.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Counted {}

/// A series of 1.0.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct SeriesV1 {
    /// Its labels.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<LabelV1>,
    /// Its samples.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Point>,
    /// Its exemplars.
    #[prost(message, repeated, tag = "3")]
    pub exemplars: Vec<Counted>,
    /// Its histograms.
    #[prost(message, repeated, tag = "4")]
    pub histograms: Vec<Counted>,
}

/// A series of 2.0.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct SeriesV2 {
    /// Places of symbols: name, value, name, value.
    #[prost(uint32, repeated, tag = "1")]
    pub labels: Vec<u32>,
    /// Its samples.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Point>,
    /// Its histograms.
    #[prost(message, repeated, tag = "3")]
    pub histograms: Vec<Counted>,
    /// Its exemplars.
    #[prost(message, repeated, tag = "4")]
    pub exemplars: Vec<Counted>,
}

/// A series of either version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Names and values of its labels; `None` where they refer to symbols that are not there.
    pub labels: Option<Vec<(Bytes, Bytes)>>,
    /// Its samples.
    pub points: Vec<Point>,
    /// How many exemplars it has.
    pub exemplars: usize,
    /// How many histograms it has.
    pub histograms: usize,
}

impl Series {
    /// A label's value; `None` where it is missing, empty, or no text.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let (_, value) = self.labels.as_ref()?.iter().find(|(known, _)| known == name.as_bytes())?;
        std::str::from_utf8(value).ok().filter(|value| !value.is_empty())
    }
}

/// Numbers of the fields of a request that are read.
const SERIES_V1: u32 = 1;
const SYMBOLS_V2: u32 = 4;
const SERIES_V2: u32 = 5;

/// Hands each series of a message to `each`. What it was handed before an error stays handed.
pub fn read(version: Version, message: Bytes, mut each: impl FnMut(Series)) -> Result<(), BadBody> {
    match version {
        Version::V1 => fields(message, &[SERIES_V1], |_, bytes| {
            let series = SeriesV1::decode(bytes).map_err(|_| BadBody::NotTheMessage)?;
            let labels = series.labels.into_iter().map(|label| (label.name, label.value)).collect();
            each(Series {
                labels: Some(labels),
                points: series.samples,
                exemplars: series.exemplars.len(),
                histograms: series.histograms.len(),
            });
            Ok(())
        }),
        Version::V2 => {
            // Symbols may come after the series that refer to them.
            let mut symbols: Vec<Bytes> = Vec::new();
            fields(message.clone(), &[SYMBOLS_V2], |_, bytes| {
                symbols.push(bytes);
                if symbols.len() > SYMBOLS_MAX { Err(BadBody::TooLarge) } else { Ok(()) }
            })?;
            fields(message, &[SERIES_V2], |_, bytes| {
                let series = SeriesV2::decode(bytes).map_err(|_| BadBody::NotTheMessage)?;
                each(Series {
                    labels: resolved(&series.labels, &symbols),
                    points: series.samples,
                    exemplars: series.exemplars.len(),
                    histograms: series.histograms.len(),
                });
                Ok(())
            })
        }
    }
}

fn resolved(places: &[u32], symbols: &[Bytes]) -> Option<Vec<(Bytes, Bytes)>> {
    let symbol = |place: &u32| symbols.get(usize::try_from(*place).ok()?).cloned();
    let (pairs, []) = places.as_chunks::<2>() else { return None };
    pairs.iter().map(|[name, value]| Some((symbol(name)?, symbol(value)?))).collect()
}

/// Hands the bytes of the wanted fields of a message to `each`, and passes over the others.
fn fields(
    mut message: Bytes,
    wanted: &[u32],
    mut each: impl FnMut(u32, Bytes) -> Result<(), BadBody>,
) -> Result<(), BadBody> {
    while !message.is_empty() {
        let (tag, wire_type) = decode_key(&mut message).map_err(|_| BadBody::NotTheMessage)?;
        if !wanted.contains(&tag) {
            skip_field(wire_type, tag, &mut message, DecodeContext::default()).map_err(|_| BadBody::NotTheMessage)?;
            continue;
        }
        if wire_type != WireType::LengthDelimited {
            return Err(BadBody::NotTheMessage);
        }
        let length = decode_varint(&mut message).map_err(|_| BadBody::NotTheMessage)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= message.len());
        let length = length.ok_or(BadBody::NotTheMessage)?;
        if length > SERIES_BYTES_MAX {
            return Err(BadBody::TooLarge);
        }
        each(tag, message.split_to(length))?;
    }
    Ok(())
}

/// For fuzzing: any bytes are read or refused, with bounded work, and reading them twice gives the same. The first byte
/// says as what.
#[must_use]
pub fn keeps_its_promises(bytes: &[u8]) -> bool {
    const BYTES_MAX: usize = 65_536;
    let Some((kind, body)) = bytes.split_first() else { return true };
    let version = if kind & 1 == 0 { Version::V1 } else { Version::V2 };
    let message = if kind & 2 == 0 { inflate(body, BYTES_MAX) } else { Ok(Bytes::copy_from_slice(body)) };
    let Ok(message) = message else { return true };
    if kind & 2 == 0 && message.len() > BYTES_MAX {
        return false;
    }
    let collect = || {
        let mut all = Vec::new();
        let outcome = read(version, message.clone(), |series| all.push(series));
        (outcome, all)
    };
    // Nothing comes out that did not go in.
    let (outcome, all) = collect();
    let points: usize = all.iter().map(|series| series.points.len()).sum();
    points <= message.len() && collect() == (outcome, all)
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
