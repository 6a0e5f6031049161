//! The spool: what was read and no server has answered yet, on disk, in order.
//!
//! - **Durable**: [`Spool::append`] returns when the rows are on disk (fsync); what it could not write it cuts off again.
//! - **Ordered**: one request at a time, records in the order of their numbers. What was sent and not answered is chosen
//!   again exactly so, over restarts too: its end is in the cursor before it is sent.
//! - **Bounded** in bytes and in age. For room the oldest *answered* segments go, then appending fails: unanswered rows are
//!   never dropped for room. What is given up for its age, or can't be read any more, is counted.
//! - **Single**: one process at a time; the directory is locked.
//!
//! Reading order: `record.rs` (the bytes of a segment), `segments.rs` (the files), `cursor.rs` (how far it was
//! answered), this file; `rejected.rs` is where refused rows go.

mod cursor;
pub mod record;
mod rejected;
mod segments;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use record::Record;
use rustix::fs::FlockOperation;

use cursor::Cursor;
pub use rejected::Rejected;
use segments::Segments;

/// The bounds of a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes on disk.
    pub bytes_max: u64,
    /// Bytes from which on a segment is closed.
    pub segment_bytes_max: u64,
    /// Age from which on unanswered rows are given up, in milliseconds.
    pub unanswered_ms_max: i64,
    /// How long answered rows are kept, in milliseconds.
    pub answered_ms: i64,
}

/// Rows of one round to be appended: at most [`record::ROWS_MAX`].
#[derive(Clone, Debug)]
pub struct Part {
    /// Rows in it.
    pub rows: u32,
    /// The label of the round, in milliseconds since 1970.
    pub at_ms: i64,
    /// The rows, as a gzip member.
    pub payload: Vec<u8>,
}

/// Why rows were not appended; nothing of them is on disk.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The spool is full of what is not answered yet.
    #[error("the spool is full of unanswered samples")]
    Full,
    /// The disk does not take them.
    #[error("the spool can't be written: {0}")]
    Io(#[from] io::Error),
}

/// What is sent in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The number of its first record.
    pub first: u64,
    /// The number after its last record.
    pub next: u64,
    /// Rows in it.
    pub rows: u64,
    /// The label of its oldest round, in milliseconds since 1970.
    pub oldest_ms: i64,
    /// The request's body, gzip.
    pub body: Vec<u8>,
}

/// What happened to a spool since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of torn writes that were cut off.
    pub torn_bytes: u64,
    /// Bytes that could not be read any more; they are kept in `*.damaged`.
    pub damaged_bytes: u64,
    /// Unanswered rows that were given up for their age.
    pub given_up_rows: u64,
}

/// An open spool.
#[derive(Debug)]
pub struct Spool {
    limits: Limits,
    segments: Segments,
    cursor: Cursor,
    /// Rows that are not answered.
    unanswered_rows: u64,
    counts: Counts,
    _lock: File,
}

impl Spool {
    /// Opens the spool in a directory, which is made if it is missing; torn ends are cut. An error when another process
    /// has it, or the directory can't be used.
    pub fn open(directory: &Path, limits: Limits) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let lock = File::create(directory.join("lock"))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| io::Error::other(format!("{}: another agent has it ({error})", directory.display())))?;
        let mut counts = Counts::default();
        let mut cursor = Cursor::open(directory)?;
        let (segments, unanswered_rows) = Segments::open(directory, cursor.answered(), &mut counts)?;
        cursor.hold_to(segments.first(), segments.next());
        Ok(Self { limits, segments, cursor, unanswered_rows, counts, _lock: lock })
    }

    /// Appends parts, all or none, and returns when they are on disk.
    pub fn append(&mut self, parts: &[Part]) -> Result<(), AppendError> {
        let mut bytes = Vec::new();
        let mut rows: u64 = 0;
        let mut newest_ms = i64::MIN;
        for (part, seq) in parts.iter().zip(self.segments.next()..) {
            let record = Record { seq, rows: part.rows, at_ms: part.at_ms, payload: &part.payload };
            record.write(&mut bytes).ok_or_else(|| io::Error::other("rows that are too long for a record"))?;
            rows = rows.saturating_add(u64::from(part.rows));
            newest_ms = newest_ms.max(part.at_ms);
        }
        if parts.is_empty() {
            return Ok(());
        }
        let needed = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        while self.segments.bytes().saturating_add(needed) > self.limits.bytes_max {
            if !self.segments.drop_answered(self.cursor.answered())? {
                return Err(AppendError::Full);
            }
        }
        let records = u64::try_from(parts.len()).unwrap_or(u64::MAX);
        let batch = segments::Appended { records, rows, newest_ms };
        while let Err(error) = self.segments.append(&bytes, batch, self.limits.segment_bytes_max) {
            // A full disk: what is answered makes room.
            if error.kind() != io::ErrorKind::StorageFull || !self.segments.drop_answered(self.cursor.answered())? {
                return Err(error.into());
            }
        }
        self.unanswered_rows = self.unanswered_rows.saturating_add(rows);
        Ok(())
    }

    /// What is to be sent next: what was sent last and not answered, as it was; else the oldest records, of at most
    /// `rows_max` rows (but at least one record). `None`: everything is answered.
    pub fn next_batch(&mut self, rows_max: u64) -> io::Result<Option<Batch>> {
        loop {
            let answered = self.cursor.answered();
            let Some(segment) = self.segments.of(answered) else { return Ok(None) };
            let pending = self.cursor.pending();
            let read = self.segments.read(segment, answered, pending, rows_max)?;
            if let Some(mut batch) = read.batch {
                batch.body = one_member(batch.body, batch.next.saturating_sub(batch.first))?;
                if pending != Some(batch.next) {
                    self.cursor.send(batch.next)?;
                }
                return Ok(Some(batch));
            }
            // Nothing of it can be read: the rest of the segment is lost, kept for people, and counted.
            self.counts.damaged_bytes = self.counts.damaged_bytes.saturating_add(read.damaged_bytes);
            self.unanswered_rows = self.unanswered_rows.saturating_sub(read.damaged_rows);
            self.segments.set_aside(segment)?;
            self.cursor.answer(segment.next)?;
        }
    }

    /// Forgets what was chosen to be sent, so that another choice can be made: only where a server has answered that it
    /// takes nothing of it.
    pub fn choose_again(&mut self) -> io::Result<()> {
        let answered = self.cursor.answered();
        self.cursor.answer(answered)
    }

    /// A batch was answered: it is not sent again.
    pub fn answered(&mut self, batch: &Batch) -> io::Result<()> {
        self.unanswered_rows = self.unanswered_rows.saturating_sub(batch.rows);
        self.cursor.answer(batch.next)
    }

    /// Lets go what is too old: answered segments, and (counted) unanswered ones. Call it now and then.
    pub fn tidy(&mut self, now_ms: i64) -> io::Result<()> {
        while self.segments.drop_older(now_ms.saturating_sub(self.limits.answered_ms), self.cursor.answered())? {}
        let too_old = now_ms.saturating_sub(self.limits.unanswered_ms_max);
        while let Some(rows) = self.segments.give_up_older(too_old, self.cursor.answered())? {
            self.counts.given_up_rows = self.counts.given_up_rows.saturating_add(rows);
            self.unanswered_rows = self.unanswered_rows.saturating_sub(rows);
            let first = self.segments.first();
            if first > self.cursor.answered() {
                self.cursor.answer(first)?;
            }
        }
        Ok(())
    }

    /// Gives every row that was appended after a label to `take`, in order, as its JSON text.
    pub fn rows_after(&self, at_ms: i64, take: &mut dyn FnMut(&str)) -> io::Result<()> {
        self.segments.rows_after(at_ms, take)
    }

    /// Rows that no server has answered.
    #[must_use]
    pub fn unanswered_rows(&self) -> u64 {
        self.unanswered_rows
    }

    /// Bytes on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.bytes()
    }

    /// How full it is of what is not answered, in thousandths.
    #[must_use]
    pub fn filled_permille(&self) -> i64 {
        let unanswered = self.segments.bytes_from(self.cursor.answered());
        let filled = unanswered.saturating_mul(1_000).checked_div(self.limits.bytes_max.max(1));
        i64::try_from(filled.unwrap_or(1_000)).unwrap_or(1_000)
    }

    /// What happened since it was opened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// Rows, one JSON text a line, as parts of a round: gzip members of at most [`record::ROWS_MAX`] rows.
pub fn parts(lines: &[String], at_ms: i64) -> io::Result<Vec<Part>> {
    use std::io::Write as _;
    let mut parts = Vec::new();
    for chunk in lines.chunks(record::ROWS_MAX) {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        for line in chunk {
            encoder.write_all(line.as_bytes())?;
            encoder.write_all(b"\n")?;
        }
        let rows = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
        parts.push(Part { rows, at_ms, payload: encoder.finish()? });
    }
    Ok(parts)
}

/// Gzip members as one, the same bytes each time: some servers take only the first of several.
fn one_member(members: Vec<u8>, count: u64) -> io::Result<Vec<u8>> {
    if count <= 1 {
        return Ok(members);
    }
    let mut decoder = flate2::read::MultiGzDecoder::new(&*members);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::copy(&mut decoder, &mut encoder)?;
    encoder.finish()
}

/// The rows of a request's body, in its order; an error when it is no gzip or longer than `bytes_max` when inflated.
pub fn lines(body: &[u8], bytes_max: u64) -> io::Result<Vec<String>> {
    Ok(text(body, bytes_max)?.lines().map(str::to_owned).collect())
}

/// The same as one text, a row a line: for many rows it takes less memory.
pub fn text(body: &[u8], bytes_max: u64) -> io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(body).take(bytes_max.saturating_add(1));
    decoder.read_to_string(&mut text)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(io::Error::other("the rows are longer than they may be"));
    }
    Ok(text)
}

/// Where the spool and its companions are under the state directory.
#[must_use]
pub fn directory(state: &Path) -> PathBuf {
    state.join("spool")
}

#[cfg(test)]
mod tests;
