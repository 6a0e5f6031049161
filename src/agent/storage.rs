//! How much disk a sandbox takes: the allocated blocks of its files.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most files of one sandbox that are looked at: bounds time and memory.
const ENTRIES_MAX: usize = 100_000;

/// Bytes that the files under a directory take on disk; see [`allocated_in`]. An error when it is missing.
pub fn allocated_bytes(directory: &Path) -> io::Result<u64> {
    std::fs::symlink_metadata(directory)?;
    allocated_in(&[directory.to_owned()])
}

/// Bytes that these files and directories take on disk: allocated blocks (sparse files count what they hold), each file
/// once (by device and inode) whatever the number of its links and however often it is named, symbolic links not
/// followed. What is missing, or vanishes meanwhile, counts nothing. An error when a file can't be looked at or there
/// are more than 100,000.
pub fn allocated_in(paths: &[PathBuf]) -> io::Result<u64> {
    let mut seen = BTreeSet::new();
    let mut waiting = paths.to_vec();
    let mut bytes: u64 = 0;
    while let Some(path) = waiting.pop() {
        let meta = match std::fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if !seen.insert((meta.dev(), meta.ino())) {
            continue;
        }
        if seen.len() > ENTRIES_MAX {
            return Err(io::Error::other(format!("more than {ENTRIES_MAX} files")));
        }
        bytes = bytes.saturating_add(meta.blocks().saturating_mul(512));
        if meta.is_dir() {
            match std::fs::read_dir(&path) {
                Ok(entries) => {
                    for entry in entries {
                        waiting.push(entry?.path());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(bytes)
}

/// Bytes in MiB, rounded up: how a sample carries them.
#[must_use]
pub fn mebibytes(bytes: u64) -> i64 {
    i64::try_from(bytes.div_ceil(1_048_576)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::{allocated_bytes, allocated_in, mebibytes};

    #[test]
    fn disk_is_what_is_allocated_and_each_file_counts_once() {
        let directory = tempfile::tempdir().unwrap();
        let empty = allocated_bytes(directory.path()).unwrap();
        let file = directory.path().join("a");
        std::fs::write(&file, vec![7_u8; 1_048_576]).unwrap();
        std::fs::File::open(&file).unwrap().sync_all().unwrap();
        let one = allocated_bytes(directory.path()).unwrap() - empty;
        assert!((1_048_576..1_200_000).contains(&one), "{one}");
        std::fs::hard_link(&file, directory.path().join("b")).unwrap();
        std::os::unix::fs::symlink(&file, directory.path().join("c")).unwrap();
        let linked = allocated_bytes(directory.path()).unwrap() - empty;
        assert!(linked < one + 8_192, "{linked}");
        let mut sparse = std::fs::File::create(directory.path().join("sparse")).unwrap();
        sparse.seek(SeekFrom::Start(1 << 30)).unwrap();
        sparse.write_all(b"x").unwrap();
        sparse.sync_all().unwrap();
        assert!(allocated_bytes(directory.path()).unwrap() - empty < one + 100_000);
        assert!(allocated_bytes(&directory.path().join("missing")).is_err());
        // Named twice, by itself and by its folder, it counts once; what is missing counts nothing.
        let all = allocated_bytes(directory.path()).unwrap();
        let named = [file.clone(), directory.path().to_owned(), file, directory.path().join("missing")];
        assert_eq!(allocated_in(&named).unwrap(), all);
    }

    #[test]
    fn a_part_of_a_mebibyte_counts_whole() {
        assert_eq!([0, 1, 1_048_576, 1_048_577].map(mebibytes), [0, 1, 1, 2]);
    }
}
