//! The bytes of a segment: a header, then records, each with a checksum. Pure, and safe on any bytes.
//!
//! A record is a part of one round of readings: rows as NDJSON, as a gzip member of its own. Several of them are sent as
//! one member again, since not every server reads on behind the first.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `runtabsp` |
//! | 4 | version, 1, little-endian as all numbers |
//! | then of each record: 4 | length of the payload |
//! | 4 | rows in it |
//! | 8 | sequence number |
//! | 8 | label of the round, in milliseconds since 1970 |
//! | 4 | CRC-32 of the 24 bytes before it and the payload |
//! | | the payload |

use crc32fast::Hasher;

/// What a segment begins with.
pub const HEADER: [u8; 12] = *b"runtabsp\x01\0\0\0";
/// Bytes before a record's payload.
pub const RECORD_HEAD_BYTES: usize = 28;
/// Longest payload taken for one: a few hundred rows have a thousandth of it.
pub const PAYLOAD_BYTES_MAX: usize = 4 * 1_024 * 1_024;
/// Most rows of a record: one record always fits into a request of the smallest body that a server can be set to take.
pub const ROWS_MAX: usize = 200;

/// A record, its payload borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number: one more than the record's before it.
    pub seq: u64,
    /// Rows in it.
    pub rows: u32,
    /// The label of its round, in milliseconds since 1970.
    pub at_ms: i64,
    /// Its rows: a gzip member.
    pub payload: &'a [u8],
}

impl Record<'_> {
    /// Bytes on disk.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.payload.len().saturating_add(RECORD_HEAD_BYTES)
    }

    /// Appends its bytes; `None` (and nothing appended) when the payload is too long.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        let length = u32::try_from(self.payload.len()).ok().filter(|_| self.payload.len() <= PAYLOAD_BYTES_MAX)?;
        let mut head = Vec::with_capacity(RECORD_HEAD_BYTES);
        head.extend_from_slice(&length.to_le_bytes());
        head.extend_from_slice(&self.rows.to_le_bytes());
        head.extend_from_slice(&self.seq.to_le_bytes());
        head.extend_from_slice(&self.at_ms.to_le_bytes());
        head.extend_from_slice(&checksum(&head, self.payload).to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(self.payload);
        Some(())
    }
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

/// Why the records of a segment end before its bytes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin as a segment of this version.
    Header,
    /// The bytes end within a record: a write that was cut off.
    Torn,
    /// A checksum, a length or a number is wrong.
    Corrupt,
}

/// The records at the beginning of some bytes.
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    bytes: &'a [u8],
    place: usize,
    next: u64,
    fault: Option<Fault>,
}

/// Reads the records of a segment whose first record has the number `first`.
#[must_use]
pub fn scan(bytes: &[u8], first: u64) -> Scan<'_> {
    let known = bytes.starts_with(&HEADER);
    let fault = match (known, HEADER.starts_with(bytes)) {
        (true, _) => None,
        (false, true) => Some(Fault::Torn),
        (false, false) => Some(Fault::Header),
    };
    Scan { bytes, place: if known { HEADER.len() } else { 0 }, next: first, fault }
}

impl<'a> Scan<'a> {
    /// Up to which byte everything was read and right.
    #[must_use]
    pub fn good_bytes(&self) -> usize {
        self.place
    }

    /// What stopped it, once it has stopped; `None`: the bytes end with the last record.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The number that the next record must have.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next
    }

    fn record(&self) -> Result<Option<Record<'a>>, Fault> {
        let rest = self.bytes.get(self.place..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let (head, rest) = rest.split_at_checked(RECORD_HEAD_BYTES).ok_or(Fault::Torn)?;
        let (covered, sum) = head.split_at_checked(24).ok_or(Fault::Torn)?;
        let field = |from: usize| covered.get(from..).unwrap_or_default();
        let number =
            |from: usize| field(from).first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).unwrap_or_default();
        let length = usize::try_from(number(0)).unwrap_or(usize::MAX);
        if length > PAYLOAD_BYTES_MAX {
            return Err(Fault::Corrupt);
        }
        let payload = rest.get(..length).ok_or(Fault::Torn)?;
        let rows = number(4);
        let seq = field(8).first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).unwrap_or_default();
        let at_ms = field(16).first_chunk().map(|bytes| i64::from_le_bytes(*bytes)).unwrap_or_default();
        let right = sum.first_chunk().is_some_and(|sum| u32::from_le_bytes(*sum) == checksum(covered, payload));
        // The last number of all has none after it.
        if right && seq == self.next && seq < u64::MAX {
            Ok(Some(Record { seq, rows, at_ms, payload }))
        } else {
            Err(Fault::Corrupt)
        }
    }
}

impl<'a> Iterator for Scan<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        if self.fault.is_some() {
            return None;
        }
        match self.record() {
            Ok(Some(record)) => {
                self.place = self.place.saturating_add(record.bytes());
                self.next = record.seq.saturating_add(1);
                Some(record)
            }
            Ok(None) => None,
            Err(fault) => {
                self.fault = Some(fault);
                None
            }
        }
    }
}

/// Whether reading any bytes keeps its promises: what is read lies within the bytes, is as long as it says, and is read
/// again the same from the good bytes alone, which have no fault. For fuzzing and its corpus.
#[must_use]
pub fn keeps_its_promises(bytes: &[u8]) -> bool {
    let first = bytes.get(20..).and_then(|rest| rest.first_chunk()).map_or(0, |seq| u64::from_le_bytes(*seq));
    let mut read = scan(bytes, first);
    let records: Vec<Record<'_>> = read.by_ref().collect();
    let good = bytes.get(..read.good_bytes()).unwrap_or_default();
    let mut again = scan(good, first);
    let same = again.by_ref().eq(records.iter().copied());
    let mut written = HEADER.to_vec();
    let all_written = records.iter().all(|record| record.write(&mut written).is_some());
    let whole = again.fault().is_none() || good.is_empty();
    same && whole && all_written && (records.is_empty() || written == good)
}

#[cfg(test)]
mod tests {
    use super::{Fault, HEADER, PAYLOAD_BYTES_MAX, Record, scan};

    fn segment(first: u64, payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = HEADER.to_vec();
        for (seq, payload) in (first..).zip(payloads) {
            Record { seq, rows: 3, at_ms: -7, payload }.write(&mut bytes).unwrap();
        }
        bytes
    }

    fn read(bytes: &[u8], first: u64) -> (usize, usize, Option<Fault>) {
        let mut scan = scan(bytes, first);
        let count = scan.by_ref().count();
        (count, scan.good_bytes(), scan.fault())
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = segment(9, &[b"one", b"", b"three"]);
        let records: Vec<Record<'_>> = scan(&bytes, 9).collect();
        assert_eq!(records[2], Record { seq: 11, rows: 3, at_ms: -7, payload: b"three" });
        assert_eq!(read(&bytes, 9), (3, bytes.len(), None));
        assert_eq!(read(&HEADER, 0), (0, HEADER.len(), None));
    }

    #[test]
    fn a_cut_at_any_byte_keeps_the_whole_records_before_it() {
        let bytes = segment(0, &[b"one", b"two"]);
        let ends = [HEADER.len(), HEADER.len() + 31, bytes.len()];
        for cut in 0..bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let good = ends.iter().rev().find(|end| **end <= cut).copied().unwrap_or(0);
            let fault = (!ends.contains(&cut)).then_some(Fault::Torn);
            assert_eq!(read(&bytes[..cut], 0), (whole.saturating_sub(1), good, fault), "{cut}");
        }
    }

    #[test]
    fn any_bit_that_turned_is_found() {
        let bytes = segment(0, &[b"one", b"two"]);
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut turned = bytes.clone();
                turned[place] ^= 1 << bit;
                let (count, good, fault) = read(&turned, 0);
                assert!(fault.is_some() && count < 2 && good <= place, "{place} {bit}: {count} {good} {fault:?}");
            }
        }
        assert_eq!(read(&bytes, 1), (0, HEADER.len(), Some(Fault::Corrupt)), "numbers go on");
        assert_eq!(read(b"something else", 0).2, Some(Fault::Header));
    }

    #[test]
    fn a_payload_too_long_is_not_written() {
        let mut out = Vec::new();
        let payload = vec![0; PAYLOAD_BYTES_MAX + 1];
        assert!(Record { seq: 0, rows: 0, at_ms: 0, payload: &payload }.write(&mut out).is_none());
        assert!(out.is_empty());
    }
}
