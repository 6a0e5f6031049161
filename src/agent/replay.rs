//! Recorded readings, played in the time of the agent: for tests, measurements and trials without a microVM.
//!
//! A file a group, a JSON object a line, in the order of time:
//! `{"after_ms":10000,"cpu_usage_usec":1234567,"counter":1,"alive":true}`. `after_ms` counts from the agent's first look at
//! the file; `counter` (default 1) names the counter, another number is another one; `alive` (default true) false is a
//! group whose last process has ended; `gone` true is one that was removed. The last line holds for ever.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::source::{Look, Reading, SourceError};

/// One line.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    after_ms: i64,
    #[serde(default)]
    cpu_usage_usec: i64,
    #[serde(default = "first_counter")]
    counter: u64,
    #[serde(default = "yes")]
    alive: bool,
    #[serde(default)]
    gone: bool,
}

fn first_counter() -> u64 {
    1
}

fn yes() -> bool {
    true
}

/// A file that is being played.
#[derive(Debug)]
struct Playing {
    lines: BufReader<File>,
    began_boot_ms: i64,
    now: Option<Line>,
    next: Option<Line>,
}

/// All files that are being played.
#[derive(Debug, Default)]
pub struct Replay {
    files: BTreeMap<PathBuf, Playing>,
}

impl Replay {
    /// What the file says at this moment of the boot clock.
    pub fn look(&mut self, path: &Path, boot_ms: i64) -> Result<Look, SourceError> {
        if !self.files.contains_key(path) {
            let file = File::open(path).map_err(|source| match source.kind() {
                std::io::ErrorKind::NotFound => SourceError::Gone(path.to_owned()),
                _ => SourceError::Unreadable { path: path.to_owned(), source },
            })?;
            // Small buffers, for there may be many files.
            let lines = BufReader::with_capacity(512, file);
            let playing = Playing { lines, began_boot_ms: boot_ms, now: None, next: None };
            self.files.insert(path.to_owned(), playing);
        }
        let gone = || SourceError::Gone(path.to_owned());
        let playing = self.files.get_mut(path).ok_or_else(gone)?;
        let after_ms = boot_ms.saturating_sub(playing.began_boot_ms);
        loop {
            if playing.next.is_none() {
                playing.next = read_line(&mut playing.lines, path)?;
            }
            match playing.next {
                Some(line) if line.after_ms <= after_ms => playing.now = playing.next.take(),
                Some(_) | None => break,
            }
        }
        let line = playing.now.filter(|line| !line.gone).ok_or_else(gone)?;
        let reading = Reading { cpu_usage_us: line.cpu_usage_usec, counter: line.counter };
        Ok(Look { reading, alive: line.alive, summed: false })
    }

    /// Forgets a file: when it is looked at again, it begins again.
    pub fn forget(&mut self, path: &Path) {
        self.files.remove(path);
    }
}

fn read_line(lines: &mut BufReader<File>, path: &Path) -> Result<Option<Line>, SourceError> {
    let mut text = String::new();
    let read = lines.read_line(&mut text);
    read.map_err(|source| SourceError::Unreadable { path: path.to_owned(), source })?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let malformed = SourceError::Malformed { path: path.to_owned(), detail: "not a line of a recording" };
    serde_json::from_str(&text).map(Some).map_err(|_| malformed)
}

#[cfg(test)]
mod tests {
    use super::Replay;
    use crate::agent::source::SourceError;

    #[test]
    fn a_recording_is_played_from_the_first_look_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vm.jsonl");
        let text = "{\"after_ms\":0}\n{\"after_ms\":10,\"cpu_usage_usec\":5}\n{\"after_ms\":20,\"cpu_usage_usec\":9,\
                    \"alive\":false}\n{\"after_ms\":30,\"gone\":true}\n{\"after_ms\":40,\"counter\":2}\n";
        std::fs::write(&path, text).unwrap();
        let mut replay = Replay::default();
        let mut at = |boot_ms| {
            replay.look(&path, boot_ms).ok().map(|look| (look.reading.cpu_usage_us, look.reading.counter, look.alive))
        };
        assert_eq!(at(1_000), Some((0, 1, true)));
        assert_eq!(at(1_009), Some((0, 1, true)));
        assert_eq!(at(1_010), Some((5, 1, true)));
        assert_eq!(at(1_025), Some((9, 1, false)));
        assert_eq!(at(1_030), None);
        assert_eq!(at(9_999), Some((0, 2, true)));
        replay.forget(&path);
        assert!(matches!(replay.look(&folder.path().join("none"), 1), Err(SourceError::Gone(_))));
        std::fs::write(folder.path().join("bad"), "{}\n").unwrap();
        assert!(matches!(replay.look(&folder.path().join("bad"), 1), Err(SourceError::Malformed { .. })));
    }
}
