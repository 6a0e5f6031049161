//! Bodies that come compressed: gzip and zstd, whole, within a bound.
//!
//! A body may be several members (gzip, RFC 1952 section 2.2) or frames (zstd, RFC 8878 section 3.1) one after the
//! other, as senders make them that append; all are read. What follows the last and is none is an error: half of a body
//! must never pass for the whole.

use std::io::{self, Read};

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header::CONTENT_ENCODING;

use super::extract::read_body;
use super::problem::Failure;
use crate::wire::problem::Code;

/// The whole body, decoded by its `Content-Encoding`: 415 for one that is not known, 413 beyond the bound, packed or not,
/// 400 for what is not whole.
pub(super) async fn read_packed(request: Request, bytes_max: usize) -> Result<Bytes, Failure> {
    let encoding = request.headers().get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes().to_ascii_lowercase());
    let inflate = match encoding.as_deref() {
        None | Some(b"identity") => return read_body(request, bytes_max).await,
        Some(b"gzip" | b"x-gzip") => gzip,
        Some(b"zstd") => zstd,
        Some(_) => {
            return Err(Failure::new(Code::UnsupportedMediaType, "send Content-Encoding: gzip or zstd, or none"));
        }
    };
    let packed = read_body(request, bytes_max).await?;
    let bytes = inflate(&packed, bytes_max)
        .map_err(|_| Failure::new(Code::NotJson, "the body can't be decompressed: send it again, whole"))?;
    if bytes.len() > bytes_max {
        return Err(Failure::new(Code::PayloadTooLarge, "send fewer items in one request"));
    }
    Ok(bytes.into())
}

fn gzip(packed: &[u8], bytes_max: usize) -> io::Result<Vec<u8>> {
    bounded(flate2::bufread::MultiGzDecoder::new(packed), bytes_max)
}

fn zstd(packed: &[u8], bytes_max: usize) -> io::Result<Vec<u8>> {
    bounded(zstd::stream::read::Decoder::with_buffer(packed)?, bytes_max)
}

/// All of it, or one byte more than the bound.
fn bounded(reader: impl Read, bytes_max: usize) -> io::Result<Vec<u8>> {
    let most = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    reader.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{gzip, zstd};

    fn gzipped(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn all_members_and_frames_are_read() {
        let text = [gzipped(b"one "), gzipped(b"two")].concat();
        assert_eq!(gzip(&text, 100).unwrap(), b"one two");
        let frame = |text: &[u8]| zstd::stream::encode_all(text, 1).unwrap();
        assert_eq!(zstd(&[frame(b"one "), frame(b"two")].concat(), 100).unwrap(), b"one two");
    }

    #[test]
    fn what_is_not_whole_is_an_error() {
        let text = gzipped(b"a body of samples");
        assert!(gzip(&text[..text.len() - 1], 100).is_err());
        assert!(gzip(&[&text[..], b"more"].concat(), 100).is_err());
        let frame = zstd::stream::encode_all(&b"a body of samples"[..], 1).unwrap();
        assert!(zstd(&frame[..frame.len() - 1], 100).is_err());
        assert!(zstd(&[&frame[..], b"more"].concat(), 100).is_err());
    }

    #[test]
    fn no_more_than_the_bound_is_inflated() {
        assert_eq!(gzip(&gzipped(&[b' '; 10_000]), 100).unwrap().len(), 101);
        assert_eq!(zstd(&zstd::stream::encode_all(&[b' '; 10_000][..], 1).unwrap(), 100).unwrap().len(), 101);
    }
}
