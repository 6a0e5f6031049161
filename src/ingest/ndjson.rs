//! Bodies of samples: a JSON array, or one JSON object a line; read row by row, so that one bad row spoils nothing.

use serde_json::value::RawValue;

use crate::domain::sample::Sample;
use crate::wire::reader::{Invalid, NotJson, document};
use crate::wire::sample::{NewSample, RejectedSample, SAMPLES_MAX, read_fast};

/// Why a body is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadBatch {
    /// Its syntax breaks, so that its rows can't be told apart.
    NotJson(NotJson),
    /// It is JSON, but no array.
    NoArray(Invalid),
    /// It has more than [`SAMPLES_MAX`] samples.
    TooMany,
}

/// The rows of a body: the good ones with their places, and the bad ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Good samples, in the order of the request.
    pub samples: Vec<Sample>,
    /// The index of each good sample in the request.
    pub indices: Vec<usize>,
    /// Rows that don't parse, in the order of the request.
    pub rejected: Vec<RejectedSample>,
}

impl Rows {
    fn take(&mut self, index: usize, row: Result<Sample, String>) {
        match row {
            Ok(sample) => {
                self.samples.push(sample);
                self.indices.push(index);
            }
            Err(detail) => self.rejected.push(RejectedSample::unreadable(index, detail)),
        }
    }
}

/// Reads a JSON array.
pub fn read_array(body: &[u8]) -> Result<Rows, BadBatch> {
    let root = document(body).map_err(BadBatch::NotJson)?;
    let texts: Vec<&RawValue> = match serde_json::from_slice(body) {
        Ok(texts) => texts,
        Err(_) => return Err(BadBatch::NoArray(root.no_array())),
    };
    if texts.len() > SAMPLES_MAX {
        return Err(BadBatch::TooMany);
    }
    let mut rows = Rows::default();
    for (index, text) in texts.into_iter().enumerate() {
        rows.take(index, read_row(text.get()));
    }
    Ok(rows)
}

/// Reads one sample a line. Blank lines are passed over and not counted.
pub fn read_lines(body: &[u8]) -> Result<Rows, BadBatch> {
    let mut rows = Rows::default();
    let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    for (index, line) in lines.enumerate() {
        if index >= SAMPLES_MAX {
            return Err(BadBatch::TooMany);
        }
        let row = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned()).and_then(read_row);
        rows.take(index, row);
    }
    Ok(rows)
}

fn read_row(text: &str) -> Result<Sample, String> {
    if let Some(sample) = read_fast(text) {
        return Ok(sample);
    }
    let row = document(text.as_bytes()).map_err(|fault| fault.detail)?;
    NewSample::read(&row).map_err(|Invalid { pointer, detail }| {
        let at = if pointer.is_empty() { "the sample" } else { &pointer };
        format!("{at} {detail}")
    })
}

#[cfg(test)]
mod tests {
    use super::{BadBatch, Rows, read_array, read_lines};
    use crate::wire::sample::SAMPLES_MAX;

    const GOOD: &str = r#"{"account":"a","sandbox":"s","at":"2026-11-01T10:00:30Z","storage_mib":1}"#;

    fn rejected(rows: &Rows) -> Vec<(usize, &str)> {
        rows.rejected.iter().map(|row| (row.index, row.detail.as_str())).collect()
    }

    #[test]
    fn a_bad_row_is_named_and_the_others_pass() {
        let body = format!(r#"[{GOOD}, 7, {{"account":"a"}}, {GOOD}]"#);
        let rows = read_array(body.as_bytes()).unwrap();
        assert_eq!(rows.indices, [0, 3]);
        assert_eq!(rejected(&rows), [(1, "the sample must be an object"), (2, "/sandbox is required")]);
    }

    #[test]
    fn lines_are_read_one_by_one_and_blank_ones_passed_over() {
        let body = format!("\n{GOOD}\r\n  \n{{\"account\"\n{GOOD}");
        let rows = read_lines(body.as_bytes()).unwrap();
        assert_eq!(rows.indices, [0, 2]);
        assert_eq!(rows.rejected.len(), 1);
        assert_eq!(rows.rejected[0].index, 1);
        assert_eq!(rows.rejected[0].code, "invalid_sample");
        let rows = read_lines(b"\xff\xfe\n").unwrap();
        assert_eq!(rejected(&rows), [(0, "the line is not UTF-8")]);
        assert_eq!(read_lines(b"").unwrap(), Rows::default());
    }

    #[test]
    fn broken_and_other_json_is_refused_as_a_whole() {
        for body in ["", "[", "[1,]", "NaN", "[NaN]"] {
            assert!(matches!(read_array(body.as_bytes()), Err(BadBatch::NotJson(_))), "{body}");
        }
        for body in ["{}", "7", "null", GOOD] {
            assert!(matches!(read_array(body.as_bytes()), Err(BadBatch::NoArray(_))), "{body}");
        }
        assert_eq!(read_array(b"[]").unwrap(), Rows::default());
    }

    #[test]
    fn too_many_samples_are_refused_as_a_whole() {
        let many = vec![GOOD; SAMPLES_MAX + 1];
        assert_eq!(read_array(format!("[{}]", many.join(",")).as_bytes()), Err(BadBatch::TooMany));
        assert_eq!(read_lines(many.join("\n").as_bytes()), Err(BadBatch::TooMany));
        let most = vec![GOOD; SAMPLES_MAX];
        assert_eq!(read_lines(most.join("\n").as_bytes()).unwrap().samples.len(), SAMPLES_MAX);
    }
}
