//! What the program makes of a trace, held against what the naive model makes of it: the same leases, the same
//! samples, to the unit. The bills are held against each other in `bills`.

use std::path::{Path, PathBuf};

use runtab::cli::replay::steps::{Action, Vm};
use runtab::cli::replay::{Defaults, load};
use runtab::domain::sample::Seen;

use crate::naive;

/// Small traces of our own, as ugly as the real ones.
pub(crate) fn own() -> Vec<PathBuf> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/data"))
}

/// Real traces, where somebody has put them beside the checkout (or where `RUNTAB_TEST_TRACES` says).
pub(crate) fn real() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/bitbrains-rnd");
    let folder = std::env::var_os("RUNTAB_TEST_TRACES").map_or(beside, PathBuf::from);
    let found = if folder.is_dir() { files(&folder) } else { Vec::new() };
    if found.is_empty() {
        println!("skipped: no real traces in {}", folder.display());
    }
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let inside = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        inside.filter(|path| path.to_str().unwrap().contains(".csv") && !path.ends_with("MANIFEST.csv")).collect();
    files.sort();
    files
}

pub(crate) fn read(path: &Path) -> Vm {
    let defaults = Defaults { vcpus: 1, memory_mib: 1_024, starts_at: None };
    let mut vms = load(&[path.to_owned()], &defaults).unwrap();
    assert_eq!(vms.len(), 1);
    vms.remove(0)
}

fn agree(path: &Path) {
    let vm = read(path);
    let expected = naive::leases_of(&naive::read(path));
    let mut leases = Vec::new();
    for step in &vm.steps {
        match &step.action {
            Action::Admit { shape, timeout_ms, .. } => {
                let size = (i128::from(shape.vcpus.count()), i128::from(shape.memory.mib()));
                leases.push((i128::from(step.at.ms()), size, i128::from(*timeout_ms), Vec::new()));
            }
            Action::Sample { seen: Seen::Running(_, reading), .. } => {
                let memory = i128::from(reading.memory.unwrap().mib());
                let sample = (i128::from(reading.at.ms()), i128::from(reading.cpu_usage_us), memory);
                leases.last_mut().unwrap().3.push(sample);
            }
            Action::End { .. } => {
                let (start, _, timeout_ms, _) = leases.last().unwrap();
                let length = i128::from(step.at.ms()) - start;
                assert!(length <= *timeout_ms && timeout_ms - length < 1_000, "{}", path.display());
            }
            Action::Sample { seen: Seen::AtRest(_), .. } | Action::Register => panic!("{}", path.display()),
        }
    }
    assert_eq!(leases.len(), expected.len(), "{}", path.display());
    for (ours, theirs) in leases.into_iter().zip(expected) {
        let (start, size, _, samples) = ours;
        assert_eq!((start, size), (theirs.start_ms, (theirs.vcpus, theirs.memory_mib)), "{}", path.display());
        assert_eq!(samples, theirs.samples, "{}", path.display());
    }
}

#[test]
fn own_traces_become_the_same_leases_and_samples() {
    let files = own();
    assert!(!files.is_empty());
    for path in &files {
        agree(path);
    }
}

#[test]
fn s15_real_traces_become_the_same_leases_and_samples() {
    for path in &real() {
        agree(path);
    }
}
