//! A page of samples: the evidence, delta-encoded.
//!
//! Shape: a format version, then each sample as one byte of flags and what changed since the sample before it: the
//! instant always (milliseconds, rising), the counter always (of a lease), epoch, memory and storage where they did.
//! Numbers are little-endian base-128 varints, signed ones in zigzag. A typical sample takes 6 to 9 bytes.
//!
//! Canonical: one sequence of samples has one encoding, and [`decode`] takes no other bytes, so equal evidence is equal
//! bytes. No samples are no bytes.
//!
//! Ordering: instants rise within a page. A sample that comes late makes a page of its own, so a page only grows.
//!
//! All samples of a page were accepted while one month was the earliest open one: what a month's invoice was made from
//! is told by whole pages.
//!
//! Limits: [`PAGE_SAMPLES_MAX`] samples, all of one UTC hour: who looks for an instant's neighbours knows by a page's
//! first and last instant what is in it.

use std::error::Error;
use std::fmt;

use super::sample::{COUNTER_MAX, Reading, StorageReport};
use super::time::{Month, Timestamp};
use super::units::MebiBytes;

/// Most samples in a page.
pub const PAGE_SAMPLES_MAX: usize = 64;

/// The first byte of every page.
const FORMAT_VERSION: u8 = 1;
/// Most bytes of a varint of 64 bits.
const VARINT_BYTES_MAX: usize = 10;

const HAS_CPU: u8 = 0b00_0001;
const NEW_EPOCH: u8 = 0b00_0010;
const HAS_MEMORY: u8 = 0b00_0100;
const NEW_MEMORY: u8 = 0b00_1000;
const HAS_STORAGE: u8 = 0b01_0000;
const NEW_STORAGE: u8 = 0b10_0000;
const ALL_FLAGS: u8 = 0b11_1111;

/// A sample as evidence keeps it: of a lease (`cpu` is there) or at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSample {
    /// When.
    pub at: Timestamp,
    /// Epoch and counter in microseconds; `None` at rest.
    pub cpu: Option<(i64, i64)>,
    /// Memory, if it was reported.
    pub memory: Option<MebiBytes>,
    /// Storage, if it was reported.
    pub storage: Option<MebiBytes>,
}

impl PageSample {
    /// As a reading; `None` when it is of a sandbox at rest.
    #[must_use]
    pub fn reading(&self) -> Option<Reading> {
        let (epoch, cpu_usage_us) = self.cpu?;
        Some(Reading { at: self.at, epoch, cpu_usage_us, memory: self.memory, storage: self.storage })
    }

    /// What it says of the disk, running or at rest; `None` when it says nothing.
    #[must_use]
    pub fn storage_report(&self) -> Option<StorageReport> {
        self.storage.map(|storage| StorageReport { at: self.at, storage })
    }
}

impl From<Reading> for PageSample {
    fn from(reading: Reading) -> Self {
        let Reading { at, epoch, cpu_usage_us, memory, storage } = reading;
        Self { at, cpu: Some((epoch, cpu_usage_us)), memory, storage }
    }
}

impl From<StorageReport> for PageSample {
    fn from(report: StorageReport) -> Self {
        Self { at: report.at, cpu: None, memory: None, storage: Some(report.storage) }
    }
}

/// Bytes that are no page: kept evidence is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptPage;

impl fmt::Display for CorruptPage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a page of samples does not read; the stored evidence is damaged")
    }
}

impl Error for CorruptPage {}

/// Why a sample can't be added to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    /// What is in the page does not read.
    Corrupt,
    /// It is not later than the page's last sample: it is a late one, see [`OpenPage::late`].
    OutOfOrder,
}

impl fmt::Display for PageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt => CorruptPage.fmt(out),
            Self::OutOfOrder => out.write_str("a sample is not later than the last one of the open page"),
        }
    }
}

impl Error for PageError {}

impl From<CorruptPage> for PageError {
    fn from(CorruptPage: CorruptPage) -> Self {
        Self::Corrupt
    }
}

/// The page that is still being written: in the row of its lease or sandbox; it only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenPage {
    /// The encoded samples.
    pub bytes: Vec<u8>,
    /// How many pages have been closed or begun late so far: the number of the next page.
    pub next_number: i64,
    /// The earliest open month when its samples were accepted; `None`: it is empty, or from before this was kept.
    pub accepted_in: Option<Month>,
}

/// A page that is complete: never changed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedPage {
    /// Its number, unique within its lease or sandbox life.
    pub number: i64,
    /// The instant of its first sample.
    pub first_at: Timestamp,
    /// The instant of its last sample.
    pub last_at: Timestamp,
    /// First and last sample in it that carries storage.
    pub storage_span: Option<(Timestamp, Timestamp)>,
    /// The encoded samples.
    pub bytes: Vec<u8>,
    /// The earliest open month when its samples were accepted; `None`: from before this was kept.
    pub accepted_in: Option<Month>,
}

impl OpenPage {
    /// Adds a sample later than all in the page, accepted while `open_month` is the earliest open month. The page that
    /// it no longer fits in (full, of another UTC hour, or accepted in another month) is closed first and answered.
    pub fn push(&mut self, sample: PageSample, open_month: Month) -> Result<Option<ClosedPage>, PageError> {
        let (mut count, mut last) = (0_usize, None);
        let mut state = walk(&self.bytes, |earlier| {
            count = count.saturating_add(1);
            last = Some(earlier.at);
        })?;
        let Some(last) = last else {
            self.begin(sample, open_month);
            return Ok(None);
        };
        if sample.at <= last {
            return Err(PageError::OutOfOrder);
        }
        let same = sample.at.hour() == last.hour() && self.accepted_in == Some(open_month);
        if count < PAGE_SAMPLES_MAX && same {
            state.write(&mut self.bytes, &sample);
            return Ok(None);
        }
        let closed = self.close()?;
        self.begin(sample, open_month);
        Ok(closed)
    }

    fn begin(&mut self, sample: PageSample, open_month: Month) {
        self.bytes = encode(&[sample]);
        self.accepted_in = Some(open_month);
    }

    /// Closes the page, when a lease settles or a sandbox is deleted; `None` when it is empty.
    pub fn close(&mut self) -> Result<Option<ClosedPage>, CorruptPage> {
        let samples = self.samples()?;
        let bytes = std::mem::take(&mut self.bytes);
        let accepted_in = self.accepted_in.take();
        Ok(self.number(&samples, bytes, accepted_in))
    }

    /// Makes a page of its own for one late sample.
    pub fn late(&mut self, sample: PageSample, open_month: Month) -> ClosedPage {
        let storage_span = sample.storage.map(|_| (sample.at, sample.at));
        let bytes = encode(&[sample]);
        let accepted_in = Some(open_month);
        ClosedPage {
            number: self.take_number(),
            first_at: sample.at,
            last_at: sample.at,
            storage_span,
            bytes,
            accepted_in,
        }
    }

    /// The samples in it, ascending.
    pub fn samples(&self) -> Result<Vec<PageSample>, CorruptPage> {
        decode(&self.bytes)
    }

    fn number(&mut self, samples: &[PageSample], bytes: Vec<u8>, accepted_in: Option<Month>) -> Option<ClosedPage> {
        let (first_at, last_at) = (samples.first()?.at, samples.last()?.at);
        let mut with_storage = samples.iter().filter(|sample| sample.storage.is_some()).map(|sample| sample.at);
        let storage_span = with_storage.next().map(|first| (first, with_storage.next_back().unwrap_or(first)));
        Some(ClosedPage { number: self.take_number(), first_at, last_at, storage_span, bytes, accepted_in })
    }

    fn take_number(&mut self) -> i64 {
        let number = self.next_number;
        // A lease has at most a page a millisecond: far from the end.
        self.next_number = number.saturating_add(1);
        number
    }
}

/// Encodes samples whose instants rise; no samples are no bytes. Whoever needs the limits of a page goes through
/// [`OpenPage`].
#[must_use]
pub fn encode(samples: &[PageSample]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut state = State::default();
    for sample in samples {
        if bytes.is_empty() {
            bytes.push(FORMAT_VERSION);
        }
        state.write(&mut bytes, sample);
    }
    bytes
}

/// Reads a page. Any bytes are safe to read: [`CorruptPage`] tells of all that [`OpenPage`] can't have written.
pub fn decode(bytes: &[u8]) -> Result<Vec<PageSample>, CorruptPage> {
    let mut samples = Vec::new();
    walk(bytes, |sample| samples.push(sample))?;
    Ok(samples)
}

/// Reads a page sample by sample; answers what the delta of one more would be taken from.
fn walk(bytes: &[u8], mut each: impl FnMut(PageSample)) -> Result<State, CorruptPage> {
    let mut state = State::default();
    let Some((version, mut rest)) = bytes.split_first() else {
        return Ok(state);
    };
    if *version != FORMAT_VERSION || rest.is_empty() {
        return Err(CorruptPage);
    }
    let (mut count, mut last) = (0_usize, None::<Timestamp>);
    while !rest.is_empty() {
        let sample = state.read(&mut rest).ok_or(CorruptPage)?;
        let misplaced = last.is_some_and(|last| sample.at <= last || sample.at.hour() != last.hour());
        if misplaced || count >= PAGE_SAMPLES_MAX {
            return Err(CorruptPage);
        }
        (count, last) = (count.saturating_add(1), Some(sample.at));
        each(sample);
    }
    Ok(state)
}

/// What deltas are taken from: the values last seen in the page. All begin at 0, so the first sample is written whole.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    at_ms: i64,
    epoch: i64,
    cpu_usage_us: i64,
    memory_mib: i64,
    storage_mib: i64,
}

impl State {
    fn pass(&mut self, sample: &PageSample) {
        self.at_ms = sample.at.ms();
        if let Some((epoch, cpu_usage_us)) = sample.cpu {
            (self.epoch, self.cpu_usage_us) = (epoch, cpu_usage_us);
        }
        self.memory_mib = sample.memory.map_or(self.memory_mib, MebiBytes::mib);
        self.storage_mib = sample.storage.map_or(self.storage_mib, MebiBytes::mib);
    }

    /// Appends a sample. All values are within 2^53, so no difference saturates.
    fn write(&mut self, bytes: &mut Vec<u8>, sample: &PageSample) {
        let (epoch, cpu_usage_us) = sample.cpu.unwrap_or((self.epoch, self.cpu_usage_us));
        let memory_mib = sample.memory.map_or(self.memory_mib, MebiBytes::mib);
        let storage_mib = sample.storage.map_or(self.storage_mib, MebiBytes::mib);
        let flags = [
            (HAS_CPU, sample.cpu.is_some()),
            (NEW_EPOCH, epoch != self.epoch),
            (HAS_MEMORY, sample.memory.is_some()),
            (NEW_MEMORY, memory_mib != self.memory_mib),
            (HAS_STORAGE, sample.storage.is_some()),
            (NEW_STORAGE, storage_mib != self.storage_mib),
        ];
        bytes.push(flags.iter().filter(|(_, set)| *set).fold(0, |all, (flag, _)| all | flag));
        write_delta(bytes, self.at_ms, sample.at.ms());
        if sample.cpu.is_some() {
            if epoch != self.epoch {
                write_delta(bytes, self.epoch, epoch);
            }
            write_delta(bytes, self.cpu_usage_us, cpu_usage_us);
        }
        if memory_mib != self.memory_mib {
            write_delta(bytes, self.memory_mib, memory_mib);
        }
        if storage_mib != self.storage_mib {
            write_delta(bytes, self.storage_mib, storage_mib);
        }
        self.pass(sample);
    }

    fn read(&mut self, rest: &mut &[u8]) -> Option<PageSample> {
        let (flags, after) = rest.split_first()?;
        *rest = after;
        let has = |flag: u8| flags & flag != 0;
        let orphan = |value: u8, presence: u8| has(value) && !has(presence);
        let orphaned = orphan(NEW_EPOCH, HAS_CPU) || orphan(NEW_MEMORY, HAS_MEMORY) || orphan(NEW_STORAGE, HAS_STORAGE);
        if orphaned || flags & !ALL_FLAGS != 0 {
            return None;
        }
        let at = Timestamp::from_ms(read_delta(rest, self.at_ms)?)?;
        let cpu = if has(HAS_CPU) {
            let epoch = read_changed(rest, has(NEW_EPOCH), self.epoch)?;
            let cpu_usage_us = read_delta(rest, self.cpu_usage_us)?;
            let bounds = 0..=COUNTER_MAX;
            (bounds.contains(&epoch) && bounds.contains(&cpu_usage_us)).then_some(Some((epoch, cpu_usage_us)))?
        } else {
            None
        };
        let memory = read_size(rest, has(NEW_MEMORY), self.memory_mib)?;
        let storage = read_size(rest, has(NEW_STORAGE), self.storage_mib)?;
        let (memory, storage) = (has(HAS_MEMORY).then_some(memory), has(HAS_STORAGE).then_some(storage));
        let sample = PageSample { at, cpu, memory, storage };
        self.pass(&sample);
        Some(sample)
    }
}

/// A size as it is now; unchanged where it was not reported.
fn read_size(rest: &mut &[u8], changed: bool, last: i64) -> Option<MebiBytes> {
    MebiBytes::new(read_changed(rest, changed, last)?)
}

/// A value that is written only where it changed; one that is written and did not is not canonical.
fn read_changed(rest: &mut &[u8], changed: bool, last: i64) -> Option<i64> {
    if changed { read_delta(rest, last).filter(|value| *value != last) } else { Some(last) }
}

fn write_delta(bytes: &mut Vec<u8>, from: i64, to: i64) {
    let delta = to.saturating_sub(from);
    // Zigzag: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
    let mut left = delta.wrapping_shl(1).cast_unsigned() ^ delta.wrapping_shr(63).cast_unsigned();
    loop {
        let [low, ..] = left.to_le_bytes();
        left = left.wrapping_shr(7);
        if left == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

fn read_delta(rest: &mut &[u8], from: i64) -> Option<i64> {
    let mut zigzag: u64 = 0;
    for index in 0..VARINT_BYTES_MAX {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        let shift = u32::try_from(index).ok()?.checked_mul(7)?;
        let bits = u64::from(byte & 0x7f);
        let placed = bits.checked_shl(shift)?;
        // Bits beyond 64 would be lost, and a last byte of nothing would be a second way to write the number.
        if placed.wrapping_shr(shift) != bits || (*byte == 0 && index > 0) {
            return None;
        }
        zigzag |= placed;
        if byte & 0x80 == 0 {
            let sign = (zigzag & 1).cast_signed().checked_neg()?;
            return from.checked_add(zigzag.wrapping_shr(1).cast_signed() ^ sign);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{CorruptPage, PAGE_SAMPLES_MAX, PageSample, decode, encode, read_delta, write_delta};
    use crate::domain::time::Timestamp;

    #[test]
    fn numbers_go_round_and_have_one_encoding() {
        for (from, to) in [(0, 0), (5, 4), (0, 63), (0, 64), (0, -64), (0, i64::MAX), (0, i64::MIN)] {
            let mut bytes = Vec::new();
            write_delta(&mut bytes, from, to);
            assert_eq!(read_delta(&mut &bytes[..], from), Some(to));
        }
        for overlong in [&[0x80, 0x00][..], &[0x82, 0x80, 0x00], &[0xff; 11], &[0x80]] {
            assert_eq!(read_delta(&mut &overlong[..], 0), None);
        }
        assert_eq!(read_delta(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02][..], 0), None);
        assert_eq!(read_delta(&mut &[0x02][..], i64::MAX), None);
    }

    #[test]
    fn no_samples_are_no_bytes() {
        assert_eq!((encode(&[]), decode(&[])), (Vec::new(), Ok(Vec::new())));
        assert_eq!((decode(&[1]), decode(&[2, 0, 0])), (Err(CorruptPage), Err(CorruptPage)));
    }

    #[test]
    fn a_page_beyond_its_limits_does_not_read() {
        let at =
            |ms| PageSample { at: Timestamp::from_ms(ms).unwrap(), cpu: Some((0, 0)), memory: None, storage: None };
        let many: Vec<_> = (0..65).map(at).collect();
        assert_eq!(decode(&encode(&many)), Err(CorruptPage));
        assert_eq!(decode(&encode(&many[..PAGE_SAMPLES_MAX])).unwrap(), many[..PAGE_SAMPLES_MAX]);
        assert_eq!(decode(&encode(&[at(3_599_999), at(3_600_000)])), Err(CorruptPage));
        assert_eq!(decode(&encode(&[at(7), at(7)])), Err(CorruptPage));
    }
}
