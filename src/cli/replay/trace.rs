//! Trace files: how they are opened, which format they have (told by their content), and what a row says.
//!
//! | format | how it is told | what a row is |
//! |---|---|---|
//! | Bitbrains GWA-T-12 | the header `Timestamp [ms];` | a VM's size and CPU at an instant, about every 5 minutes |
//! | PlanetLab | nothing but lines of whole numbers | CPU in per cent over 5 minutes; no times, no sizes |
//! | runtab's samples | the first line begins with `{` | a sample as hosts send it |

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use super::decimal::Decimal;
use super::steps::Vm;
use super::{Defaults, bitbrains, planetlab, samples};
use crate::domain::time::Timestamp;

/// How the names of archives end.
const ARCHIVES: [&str; 4] = [".tar", ".tar.gz", ".tgz", ".zip"];
/// Largest file once inflated, in bytes: a month of samples each second of one VM, and a bound for a bomb.
const TRACE_BYTES_MAX: u64 = 512 * 1_024 * 1_024;

/// Most characters of a sandbox's id here: its leases' ids have the start in milliseconds behind it.
const NAME_CHARS_MAX: usize = 48;

/// What a trace says of a VM at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its line in the file, from 1.
    pub line: usize,
    /// When.
    pub at: Timestamp,
    /// vCPUs, rounded up; 0: the VM is off.
    pub vcpus: i64,
    /// CPU from this instant to the next row.
    pub millicores: Decimal,
    /// Memory provisioned, rounded up to MiB.
    pub memory_mib: i64,
}

/// A line that can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number in the file, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub detail: &'static str,
}

/// The files that the arguments name: files as they are, folders with the files in them, by name.
pub fn files(arguments: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in arguments {
        let shown = path.display();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if ARCHIVES.iter().any(|end| name.ends_with(end)) {
            bail!("{shown} is an archive: unpack it (tar xf {shown}) and give the folder");
        }
        if std::fs::metadata(path).with_context(|| shown.to_string())?.is_dir() {
            let entries: Result<Vec<_>, _> = std::fs::read_dir(path)?.collect();
            let mut inside: Vec<PathBuf> = entries?.into_iter().map(|entry| entry.path()).collect();
            inside.retain(|path| path.is_file());
            inside.sort();
            found.extend(inside);
        } else {
            found.push(path.clone());
        }
    }
    if found.is_empty() {
        bail!("no files to replay");
    }
    Ok(found)
}

/// Reads one file into the VMs that it is of.
pub fn load(path: &Path, defaults: &Defaults) -> anyhow::Result<Vec<Vm>> {
    let text = read(path).with_context(|| path.display().to_string())?;
    parse(path, &text, defaults).with_context(|| path.display().to_string())
}

fn parse(path: &Path, text: &str, defaults: &Defaults) -> anyhow::Result<Vec<Vm>> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    if first.starts_with(bitbrains::HEADER) {
        let (rows, bad) = bitbrains::rows(text);
        Ok(vec![Vm::from_rows(&sandbox_name(path)?, rows, None, &bad)?])
    } else if first.starts_with('{') {
        samples::vms(text, defaults)
    } else if !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit()) {
        let starts_at = defaults.starts_at.or_else(|| planetlab::day_of(path));
        let Some(starts_at) = starts_at else {
            bail!("a PlanetLab file has no times: say --starts-at, or put it in a folder named by its day (20110303)");
        };
        let (rows, end, bad) = planetlab::rows(text, starts_at, defaults)?;
        Ok(vec![Vm::from_rows(&sandbox_name(path)?, rows, Some(end), &bad)?])
    } else {
        bail!("neither a Bitbrains trace, nor PlanetLab integers, nor runtab samples (NDJSON): begins with {first:?}")
    }
}

/// A sandbox id from a file's name: without its extensions, what an id can't hold replaced by `-`; a long one cut, with
/// eight digits of its hash, so that its leases' ids still fit.
fn sandbox_name(path: &Path) -> anyhow::Result<String> {
    let name = path.file_name().and_then(|name| name.to_str()).context("the file's name is not UTF-8")?;
    let stem = [".gz", ".csv", ".txt"].iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
    let clean = |letter: char| if letter.is_ascii_alphanumeric() || "._:-".contains(letter) { letter } else { '-' };
    let clean: String = stem.chars().map(clean).collect();
    match clean.get(..NAME_CHARS_MAX.saturating_sub(9)) {
        Some(cut) if clean.len() > NAME_CHARS_MAX => {
            let hash = Sha256::digest(stem.as_bytes());
            let hash = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
            Ok(format!("{cut}-{hash}"))
        }
        Some(_) | None => Ok(clean),
    }
}

/// The text of a file, inflated where it is gzip (told by its first bytes).
fn read(path: &Path) -> anyhow::Result<String> {
    let mut head = [0_u8; 2];
    let size = File::open(path)?.read(&mut head)?;
    let file = BufReader::new(File::open(path)?);
    let zipped = size == 2 && head == [0x1f, 0x8b];
    let source: Box<dyn Read> = if zipped { Box::new(flate2::read::MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut text = String::new();
    let read = source.take(TRACE_BYTES_MAX.saturating_add(1)).read_to_string(&mut text)?;
    if u64::try_from(read).unwrap_or(u64::MAX) > TRACE_BYTES_MAX {
        bail!("larger than {TRACE_BYTES_MAX} bytes once inflated");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{files, sandbox_name};

    #[test]
    fn a_sandbox_is_called_like_its_file() {
        assert_eq!(sandbox_name(Path::new("x/2013-8_10.csv.gz")).unwrap(), "2013-8_10");
        assert_eq!(sandbox_name(Path::new("a b,c.txt")).unwrap(), "a-b-c");
        let long = sandbox_name(Path::new(&"x".repeat(60))).unwrap();
        assert_eq!((long.len(), long.starts_with("xxx")), (48, true));
        assert_ne!(long, sandbox_name(Path::new(&"x".repeat(61))).unwrap());
    }

    #[test]
    fn an_archive_is_refused_with_what_to_do() {
        let error = files(&["20110303.tar.gz".into()]).unwrap_err().to_string();
        assert!(error.contains("tar xf 20110303.tar.gz"), "{error}");
    }
}
