//! How far the spool was answered, and how far a request went that was not: twenty bytes, written in place.
//!
//! When they are lost or torn, everything that is still there is sent again: duplicates, which a server ignores.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of the file: two numbers and a checksum.
const BYTES: usize = 20;

/// The cursor.
#[derive(Debug)]
pub(super) struct Cursor {
    file: File,
    /// All records before this number are answered.
    answered: u64,
    /// The number after the last record of the request that is not answered; none: `answered`.
    pending: u64,
}

impl Cursor {
    /// Reads it; from the beginning when there is none.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join("cursor");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = [0; BYTES];
        let read = file.read_at(&mut bytes, 0)?;
        let (answered, pending) = decode(bytes.get(..read).unwrap_or_default()).unwrap_or((0, 0));
        Ok(Self { file, answered, pending })
    }

    /// All records before this number are answered.
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    /// The end of the request that was sent and not answered.
    pub(super) fn pending(&self) -> Option<u64> {
        (self.pending > self.answered).then_some(self.pending)
    }

    /// Moves it to the records that are there: `first` is the oldest one's number, `next` the one after the newest.
    pub(super) fn hold_to(&mut self, first: u64, next: u64) {
        self.answered = self.answered.clamp(first, next);
        self.pending = self.pending.clamp(self.answered, next);
    }

    /// Records up to `next` are about to be sent.
    pub(super) fn send(&mut self, next: u64) -> io::Result<()> {
        self.pending = next;
        self.write()
    }

    /// All records before `next` are answered.
    pub(super) fn answer(&mut self, next: u64) -> io::Result<()> {
        self.answered = next;
        self.pending = next;
        self.write()?;
        self.file.sync_data()
    }

    fn write(&self) -> io::Result<()> {
        self.file.write_all_at(&encode(self.answered, self.pending), 0)
    }
}

fn encode(answered: u64, pending: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend_from_slice(&answered.to_le_bytes());
    bytes.extend_from_slice(&pending.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<(u64, u64)> {
    let answered = u64::from_le_bytes(*bytes.first_chunk()?);
    let pending = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    (encode(answered, pending) == bytes).then_some((answered, pending))
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    #[test]
    fn it_is_kept_and_a_broken_one_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut cursor = Cursor::open(folder.path()).unwrap();
        assert_eq!((cursor.answered(), cursor.pending()), (0, None));
        cursor.answer(7).unwrap();
        cursor.send(9).unwrap();
        let cursor = Cursor::open(folder.path()).unwrap();
        assert_eq!((cursor.answered(), cursor.pending()), (7, Some(9)));
        let mut bytes = std::fs::read(folder.path().join("cursor")).unwrap();
        bytes[3] ^= 1;
        for broken in [&bytes[..], &bytes[..12], &[]] {
            std::fs::write(folder.path().join("cursor"), broken).unwrap();
            assert_eq!(Cursor::open(folder.path()).unwrap().answered(), 0);
        }
    }

    #[test]
    fn it_stays_within_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let mut cursor = Cursor::open(folder.path()).unwrap();
        cursor.answer(50).unwrap();
        cursor.send(60).unwrap();
        cursor.hold_to(0, 40);
        assert_eq!((cursor.answered(), cursor.pending()), (40, None));
        cursor.hold_to(45, 70);
        assert_eq!((cursor.answered(), cursor.pending()), (45, None));
    }
}
