//! What must stay true of the source tree, checked by reading it (docs/ARCHITECTURE.md has the reasons).

mod layers;
mod text;

use std::path::{Path, PathBuf};

/// A tracked file and its text.
struct Source {
    /// From the repository's root, with `/`.
    path: String,
    text: String,
}

impl Source {
    /// Lines that are code: without whole-line comments, and up to the tests at the end of the file.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        let lines = lines.take_while(|(_, line)| !line.starts_with("#[cfg(test)]"));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// The top module of a file of the library: `domain` of `src/domain/time.rs`.
    fn module(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("src/")?;
        Some(inside.split(['/', '.']).next().unwrap_or(inside))
    }
}

fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// All files with one of the extensions under the folders, in order of their paths.
fn sources(folders: &[&str], extensions: &[&str]) -> Vec<Source> {
    let root = root();
    let mut waiting: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    let mut files = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            let hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            waiting.extend(entries.map(|entry| entry.expect("an entry").path()).filter(|path| !hidden(path)));
        } else if path.extension().is_some_and(|found| extensions.iter().any(|one| found == *one)) {
            let inside = path.strip_prefix(&root).expect("a path inside").to_string_lossy().replace('\\', "/");
            files.push(Source { path: inside, text: std::fs::read_to_string(&path).expect("a text") });
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    files
}

/// The library's files.
fn library() -> Vec<Source> {
    sources(&["src"], &["rs"])
}

/// Fails with every fault at once, each on a line of its own.
#[track_caller]
fn none(faults: impl IntoIterator<Item = String>) {
    let faults: Vec<String> = faults.into_iter().collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// `word` as a whole word.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}
