//! What files look like: sizes, first lines, words that do not belong, and lists that must agree.

use std::collections::BTreeSet;

use super::{Source, has_word, library, none, root, sources};

/// Most lines of a source file: what is longer does more than one job.
const FILE_LINES_MAX: usize = 500;

/// Everything that people wrote.
fn written() -> Vec<Source> {
    let folders =
        ["src", "tests", "docs", "config", "migrations", "ci", "benches", "README.md", "Cargo.toml", "clippy.toml"];
    let folders: Vec<&str> = folders.into_iter().filter(|folder| root().join(folder).exists()).collect();
    sources(&folders, &["rs", "md", "toml", "sql", "sh", "py", "html", "css", "js"])
}

#[test]
fn files_are_short() {
    let files = sources(&["src", "tests"], &["rs"]);
    let long = files.iter().map(|file| (file, file.text.lines().count())).filter(|(_, lines)| *lines > FILE_LINES_MAX);
    none(long.map(|(file, lines)| format!("{}: {lines} lines", file.path)));
}

#[test]
fn every_file_says_its_job_first() {
    let files = sources(&["src", "tests"], &["rs"]);
    let silent = files.iter().filter(|file| !file.text.starts_with("//! "));
    none(silent.map(|file| format!("{}: does not begin with `//!`", file.path)));
}

#[test]
fn nothing_is_left_for_later() {
    let words = ["TODO", "FIXME", "XXX", "HACK"];
    let files = written();
    let files = files.iter().filter(|file| file.path != "tests/it/tidy/text.rs" && file.path != "Cargo.toml");
    let mut faults = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            let found = words.iter().find(|word| has_word(line, word));
            faults.extend(found.map(|word| format!("{}:{}: {word}", file.path, index + 1)));
        }
    }
    none(faults);
}

/// No path of anybody's machine and no host of a registry: a clone must work anywhere.
#[test]
fn no_machine_is_named() {
    let words = [
        "/home/",
        "/root/",
        "/work/",
        "/Users/",
        "crates.io/",
        "pypi.org",
        "npmjs",
        "index.crates",
        "artifactory",
        "nexus",
    ];
    let mut faults = Vec::new();
    for file in written().iter().filter(|file| file.path != "tests/it/tidy/text.rs") {
        for (index, line) in file.text.lines().enumerate() {
            let found = words.iter().find(|word| line.contains(*word));
            faults.extend(found.map(|word| format!("{}:{}: {word}", file.path, index + 1)));
        }
    }
    none(faults);
}

#[test]
fn lints_are_expected_with_a_reason() {
    let mut faults = Vec::new();
    for file in sources(&["src", "tests"], &["rs"]) {
        for (number, line) in file.code() {
            let line = line.trim_start();
            if line.starts_with("#[allow(") || line.starts_with("#![allow(") {
                faults.push(format!("{}:{number}: allow", file.path));
            }
        }
    }
    none(faults);
}

#[test]
fn both_back_ends_have_the_same_migrations() {
    let names = |folder: &str| -> BTreeSet<String> {
        let files = sources(&[folder], &["sql"]);
        files.iter().map(|file| file.path.trim_start_matches(folder).to_owned()).collect()
    };
    if root().join("migrations").exists() {
        assert_eq!(names("migrations/sqlite"), names("migrations/postgres"));
        assert!(!names("migrations/sqlite").is_empty());
        let silent = sources(&["migrations"], &["sql"]);
        let silent = silent.iter().filter(|file| !file.text.starts_with("-- "));
        none(silent.map(|file| format!("{}: does not begin with a comment", file.path)));
    }
}

/// Every setting of `config/default.toml` has a comment right above it that names its environment variable.
#[test]
fn every_setting_is_documented() {
    let Some(file) = sources(&["config"], &["toml"]).into_iter().find(|file| file.path == "config/default.toml") else {
        return;
    };
    let mut faults = Vec::new();
    let mut comment = String::new();
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with('#') {
            comment.push_str(line);
        } else if line.starts_with(char::is_alphabetic) && line.contains('=') {
            if !comment.contains("RUNTAB_") {
                faults.push(format!("{}:{}: {line}: no comment that names its variable", file.path, index + 1));
            }
            comment.clear();
        } else {
            comment.clear();
        }
    }
    none(faults);
}

/// Every field of the typed settings is in `config/default.toml`.
#[test]
fn every_setting_has_its_default() {
    let Some(defaults) = sources(&["config"], &["toml"]).into_iter().find(|file| file.path == "config/default.toml")
    else {
        return;
    };
    let mut faults = Vec::new();
    let sections = [
        "config/server.rs",
        "config/store.rs",
        "config/ledger.rs",
        "config/telemetry.rs",
        "config/rates.rs",
        "config/invoice.rs",
        "config/remote_write.rs",
    ];
    for file in library().iter().filter(|file| sections.iter().any(|section| file.path.ends_with(section))) {
        let mut in_section = false;
        for (number, line) in file.code() {
            in_section = (in_section || line.contains("Deserialize")) && line != "}";
            let field = line.strip_prefix("    pub ").and_then(|rest| rest.split_once(": "));
            let named = field.filter(|(name, _)| in_section && name.chars().all(|c| c.is_lowercase() || c == '_'));
            let missing = named.filter(|(name, _)| {
                let default = format!("{name} = ");
                !defaults.text.lines().any(|line| line.starts_with(&default))
            });
            faults.extend(missing.map(|(name, _)| format!("{}:{number}: `{name}` has no default", file.path)));
        }
    }
    none(faults);
}
