//! Rows that a server refused by name: set aside for people, never sent again.
//!
//! One JSON object a line: when it was refused, the code, the detail, and the row as it was sent. When the file is full it
//! becomes `rejected.1.ndjson`, in place of the one before.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The file of refused rows.
#[derive(Debug)]
pub struct Rejected {
    directory: PathBuf,
    bytes_max: u64,
}

impl Rejected {
    /// The file in a directory; it is made with its first row.
    #[must_use]
    pub fn new(directory: &Path, bytes_max: u64) -> Self {
        Self { directory: directory.to_owned(), bytes_max }
    }

    /// Sets rows aside: of each the code, the detail and its text; `now` is RFC 3339.
    pub fn set_aside<'a>(&self, now: &str, rows: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> io::Result<()> {
        let mut text = String::new();
        for (code, detail, row) in rows {
            let row: Value = serde_json::from_str(row).unwrap_or_else(|_| row.into());
            text.push_str(&json!({"refused_at": now, "code": code, "detail": detail, "row": row}).to_string());
            text.push('\n');
        }
        let path = self.directory.join("rejected.ndjson");
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let length = file.metadata()?.len();
        if length > 0 && length.saturating_add(bytes) > self.bytes_max {
            std::fs::rename(&path, self.directory.join("rejected.1.ndjson"))?;
            file = File::create(&path)?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::Rejected;

    #[test]
    fn rows_are_kept_with_their_reason_within_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let rejected = Rejected::new(folder.path(), 4_096);
        for round in 0..100 {
            let row = format!(r#"{{"sandbox":"s-{round}"}}"#);
            rejected.set_aside("2026-11-01T10:00:00.000Z", [("future", "it \"is\"", &*row)].into_iter()).unwrap();
        }
        let files =
            ["rejected.1.ndjson", "rejected.ndjson"].map(|name| std::fs::read_to_string(folder.path().join(name)));
        let [before, now] = files.map(Result::unwrap);
        assert!(before.len() <= 4_096 && now.len() <= 4_096);
        let last: serde_json::Value = serde_json::from_str(now.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&last["code"], &last["detail"], &last["row"]["sandbox"]),
            (&"future".into(), &"it \"is\"".into(), &"s-99".into())
        );
    }
}
