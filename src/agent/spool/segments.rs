//! The segment files of a spool: made, appended to, read, cut and let go; oldest first.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::record::{Fault, HEADER, Scan, scan};
use super::{Batch, Counts, lines};

/// Most bytes of one record's rows when inflated; far more than a record has.
const INFLATED_BYTES_MAX: u64 = 64 * 1_024 * 1_024;

/// One segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The number of its first record.
    pub(super) first: u64,
    /// The number after its last record.
    pub(super) next: u64,
    bytes: u64,
    rows: u64,
    /// The newest label in it, in milliseconds since 1970.
    newest_ms: i64,
}

/// What is appended at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appended {
    pub(super) records: u64,
    pub(super) rows: u64,
    pub(super) newest_ms: i64,
}

/// What was read of a segment to be sent.
#[derive(Debug)]
pub(super) struct ToSend {
    /// `None`: nothing of it can be read.
    pub(super) batch: Option<Batch>,
    /// Bytes that can't be read, when there is no batch.
    pub(super) damaged_bytes: u64,
    /// Unanswered rows in them.
    pub(super) damaged_rows: u64,
}

/// All segments.
#[derive(Debug)]
pub(super) struct Segments {
    directory: PathBuf,
    list: VecDeque<Segment>,
    /// The number of the next record.
    next: u64,
    /// The last segment, when it is open for more.
    active: Option<File>,
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

impl Segments {
    /// Reads what is there; what is torn or damaged is cut off and counted. Also how many rows are not answered.
    pub(super) fn open(directory: &Path, answered: u64, counts: &mut Counts) -> io::Result<(Self, u64)> {
        let mut segments =
            Self { directory: directory.to_owned(), list: VecDeque::new(), next: answered, active: None };
        let mut firsts = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let name = entry?.file_name();
            let number: Option<u64> = name.to_str().and_then(|name| name.strip_suffix(".seg")?.parse().ok());
            firsts.extend(number);
        }
        firsts.sort_unstable();
        let mut unanswered: u64 = 0;
        for first in firsts {
            let bytes = std::fs::read(segments.path(first))?;
            let mut read = scan(&bytes, first);
            let mut segment = Segment { first, next: first, bytes: 0, rows: 0, newest_ms: i64::MIN };
            for record in read.by_ref() {
                let rows = u64::from(record.rows);
                segment.rows = segment.rows.saturating_add(rows);
                segment.newest_ms = segment.newest_ms.max(record.at_ms);
                if record.seq >= answered {
                    unanswered = unanswered.saturating_add(rows);
                }
            }
            segment.next = read.next_seq();
            segment.bytes = u64::try_from(read.good_bytes()).unwrap_or(u64::MAX);
            segments.mend(first, &bytes, &read, counts)?;
            if segment.next > first {
                segments.next = segment.next;
                segments.list.push_back(segment);
            } else if segments.path(first).exists() {
                std::fs::remove_file(segments.path(first))?;
            }
        }
        Ok((segments, unanswered))
    }

    /// Cuts off what could not be read; of what is damaged, and not only torn, a copy is kept.
    fn mend(&self, first: u64, bytes: &[u8], read: &Scan<'_>, counts: &mut Counts) -> io::Result<()> {
        let Some(fault) = read.fault() else { return Ok(()) };
        let rest = bytes.get(read.good_bytes()..).unwrap_or_default();
        match fault {
            Fault::Torn => counts.torn_bytes = counts.torn_bytes.saturating_add(length(rest)),
            Fault::Corrupt | Fault::Header => {
                counts.damaged_bytes = counts.damaged_bytes.saturating_add(length(rest));
                std::fs::write(self.path(first).with_extension("damaged"), bytes)?;
            }
        }
        let file = OpenOptions::new().write(true).open(self.path(first))?;
        file.set_len(u64::try_from(read.good_bytes()).unwrap_or(u64::MAX))?;
        file.sync_all()
    }

    fn path(&self, first: u64) -> PathBuf {
        self.directory.join(format!("{first:020}.seg"))
    }

    /// The number of the oldest record that is there.
    pub(super) fn first(&self) -> u64 {
        self.list.front().map_or(self.next, |segment| segment.first)
    }

    /// The number of the next record.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes of all segments.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes_from(0)
    }

    /// Bytes of the segments that have a record from this number on.
    pub(super) fn bytes_from(&self, seq: u64) -> u64 {
        let from = self.list.iter().filter(|segment| segment.next > seq);
        from.fold(0, |sum, segment| sum.saturating_add(segment.bytes))
    }

    /// The segment of the first record from this number on.
    pub(super) fn of(&self, seq: u64) -> Option<Segment> {
        self.list.iter().find(|segment| segment.next > seq).copied()
    }

    /// Writes records, and returns when they are on disk; on an error nothing of them is kept.
    pub(super) fn append(&mut self, bytes: &[u8], batch: Appended, segment_bytes_max: u64) -> io::Result<()> {
        let full = |segment: &Segment| segment.bytes.saturating_add(length(bytes)) > segment_bytes_max;
        if self.active.is_none() || self.list.back().is_none_or(full) {
            self.begin()?;
        }
        let Some((file, segment)) = self.active.as_mut().zip(self.list.back_mut()) else {
            return Err(io::Error::other("no segment is open"));
        };
        match file.write_all(bytes).and_then(|()| file.sync_data()) {
            Ok(()) => {
                segment.bytes = segment.bytes.saturating_add(length(bytes));
                segment.rows = segment.rows.saturating_add(batch.rows);
                segment.newest_ms = segment.newest_ms.max(batch.newest_ms);
                segment.next = segment.next.saturating_add(batch.records);
                self.next = segment.next;
                Ok(())
            }
            Err(error) => {
                // What was half written is cut off; should that fail too, the next start does it. After a failed write
                // nobody knows what is on disk behind it, so nothing more goes into this file.
                drop(file.set_len(segment.bytes));
                self.active = None;
                if segment.next == segment.first {
                    let empty = segment.first;
                    self.list.pop_back();
                    drop(std::fs::remove_file(self.path(empty)));
                }
                Err(error)
            }
        }
    }

    /// Begins a segment.
    fn begin(&mut self) -> io::Result<()> {
        let path = self.path(self.next);
        self.active = None;
        let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
        file.set_len(0)?;
        if let Err(error) = file.write_all(&HEADER) {
            drop(std::fs::remove_file(&path));
            return Err(error);
        }
        File::open(&self.directory)?.sync_all()?;
        self.active = Some(file);
        let bytes = length(&HEADER);
        self.list.push_back(Segment { first: self.next, next: self.next, bytes, rows: 0, newest_ms: i64::MIN });
        Ok(())
    }

    /// Reads the records of a segment from `from` on: up to `pending` if that is given, else as many as have at most
    /// `rows_max` rows, but at least one.
    pub(super) fn read(&self, segment: Segment, from: u64, pending: Option<u64>, rows_max: u64) -> io::Result<ToSend> {
        let bytes = std::fs::read(self.path(segment.first))?;
        let mut batch = Batch { first: from, next: from, rows: 0, oldest_ms: i64::MAX, body: Vec::new() };
        let mut rows_before: u64 = 0;
        let mut good_bytes = 0;
        let mut records = scan(&bytes, segment.first);
        while let Some(record) = records.next() {
            let rows = u64::from(record.rows);
            if record.seq < from {
                rows_before = rows_before.saturating_add(rows);
                good_bytes = records.good_bytes();
                continue;
            }
            let more = match pending {
                Some(end) => record.seq < end,
                None => batch.body.is_empty() || batch.rows.saturating_add(rows) <= rows_max,
            };
            if !more || record.seq >= segment.next {
                break;
            }
            batch.body.extend_from_slice(record.payload);
            batch.rows = batch.rows.saturating_add(rows);
            batch.oldest_ms = batch.oldest_ms.min(record.at_ms);
            batch.next = record.seq.saturating_add(1);
        }
        batch.first = from.max(segment.first);
        let read = batch.next > batch.first;
        Ok(ToSend {
            batch: read.then_some(batch),
            damaged_bytes: length(bytes.get(good_bytes..).unwrap_or_default()),
            damaged_rows: segment.rows.saturating_sub(rows_before),
        })
    }

    /// Takes a segment that can't be read out of the list; its file is kept for people.
    pub(super) fn set_aside(&mut self, segment: Segment) -> io::Result<()> {
        let path = self.path(segment.first);
        std::fs::rename(&path, path.with_extension("damaged"))?;
        if self.list.back().is_some_and(|last| last.first == segment.first) {
            self.active = None;
        }
        self.list.retain(|other| other.first != segment.first);
        Ok(())
    }

    /// Lets go the oldest segment if all of it is answered; `false`: it is not, or there is none.
    pub(super) fn drop_answered(&mut self, answered: u64) -> io::Result<bool> {
        self.drop_front(|segment| segment.next <= answered)
    }

    /// The same, if nothing in it is younger than `before_ms`.
    pub(super) fn drop_older(&mut self, before_ms: i64, answered: u64) -> io::Result<bool> {
        self.drop_front(|segment| segment.next <= answered && segment.newest_ms < before_ms)
    }

    /// Lets go the oldest segment if nothing in it is younger than `before_ms`, though it is not all answered; how many
    /// unanswered rows it had.
    pub(super) fn give_up_older(&mut self, before_ms: i64, answered: u64) -> io::Result<Option<u64>> {
        let old = |segment: &Segment| segment.next > answered && segment.newest_ms < before_ms;
        let Some(segment) = self.list.front().copied().filter(old) else { return Ok(None) };
        let bytes = std::fs::read(self.path(segment.first))?;
        let known = scan(&bytes, segment.first).filter(|record| record.seq < answered);
        let answered_rows = known.fold(0, |sum: u64, record| sum.saturating_add(u64::from(record.rows)));
        self.drop_front(|_| true)?;
        Ok(Some(segment.rows.saturating_sub(answered_rows)))
    }

    fn drop_front(&mut self, may_go: impl Fn(&Segment) -> bool) -> io::Result<bool> {
        let Some(segment) = self.list.front().copied().filter(|segment| may_go(segment)) else { return Ok(false) };
        std::fs::remove_file(self.path(segment.first))?;
        self.list.pop_front();
        if self.list.is_empty() {
            self.active = None;
        }
        Ok(true)
    }

    /// Gives every row of a label after `at_ms` to `take`.
    pub(super) fn rows_after(&self, at_ms: i64, take: &mut dyn FnMut(&str)) -> io::Result<()> {
        for segment in self.list.iter().filter(|segment| segment.newest_ms > at_ms) {
            let bytes = std::fs::read(self.path(segment.first))?;
            for record in scan(&bytes, segment.first).filter(|record| record.at_ms > at_ms) {
                for line in lines(record.payload, INFLATED_BYTES_MAX)? {
                    take(&line);
                }
            }
        }
        Ok(())
    }
}
