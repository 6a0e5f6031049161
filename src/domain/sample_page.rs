//! A page of samples: the evidence, delta-encoded.

use super::time::Timestamp;
use super::units::MebiBytes;

/// Most samples in a page.
pub const PAGE_SAMPLES_MAX: usize = 64;

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

/// The page that is still being written: in the row of its lease or sandbox; it only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenPage {
    /// The encoded samples.
    pub bytes: Vec<u8>,
    /// How many pages have been closed or begun late so far: the number of the next page.
    pub next_number: i64,
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
}
