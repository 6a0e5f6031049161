//! CPU time of a process, or of a process and its descendants, from `/proc/PID/stat`: user and system time of each and
//! of the children that it has waited for.

use std::path::PathBuf;

use super::source::{Look, Reading, SourceError, read_file};

/// Most processes of one tree: bounds the time of a reading.
const TREE_MAX: usize = 10_000;

/// Reads a process's counter. It is named by its start time since the boot, so that another process that got the
/// same number is another counter.
pub(super) fn read(pid: u32) -> Result<Reading, SourceError> {
    let path = PathBuf::from(format!("/proc/{pid}/stat"));
    let text = read_file(&path)?;
    parse(&text, rustix::param::clock_ticks_per_second())
        .ok_or(SourceError::Malformed { path, detail: "not the fields of a process" })
}

/// Reads the sum of a process and its living descendants, named by its own start time. One that has ended and is not
/// waited for yet (a zombie) is still counted, but does not run.
pub(super) fn read_tree(pid: u32) -> Result<Look, SourceError> {
    let mut reading = read(pid)?;
    let alive = !is_zombie(pid);
    let mut waiting = children(pid);
    let mut left = TREE_MAX;
    while let Some(child) = waiting.pop() {
        left = left.saturating_sub(1);
        if left == 0 {
            let path = PathBuf::from(format!("/proc/{pid}"));
            return Err(SourceError::Malformed { path, detail: "too many descendants" });
        }
        // Gone meanwhile: its parent has waited for it, or will never.
        if let Ok(one) = read(child) {
            reading.cpu_usage_us = reading.cpu_usage_us.saturating_add(one.cpu_usage_us);
            waiting.extend(children(child));
        }
    }
    Ok(Look { reading, alive, summed: true })
}

fn is_zombie(pid: u32) -> bool {
    let text = read_file(&PathBuf::from(format!("/proc/{pid}/stat"))).unwrap_or_default();
    text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// The children of all threads of a process; none when it has gone.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

/// Fields 14 to 17 (utime, stime, cutime, cstime) and 22 (starttime), in clock ticks. The command's name in
/// parentheses may itself hold spaces and parentheses: fields are counted from behind the last one.
fn parse(text: &str, ticks_per_second: u64) -> Option<Reading> {
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
    let ticks = [11, 12, 13, 14].into_iter().try_fold(0_i64, |sum, index| sum.checked_add(number(index)?))?;
    let per_second = i64::try_from(ticks_per_second).ok()?;
    let cpu_usage_us = ticks.checked_mul(1_000_000)?.checked_div(per_second)?;
    Some(Reading { cpu_usage_us, counter: fields.get(19)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::agent::source::{CpuSource, Reading, SourceError};

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 250 50 20 5 20 0 1 0 123456 1000 10 18446744073709551615";
        assert_eq!(parse(text, 100), Some(Reading { cpu_usage_us: 3_250_000, counter: 123_456 }));
        assert_eq!(parse("7 (a) S 1", 100), None);
        assert_eq!(parse("", 100), None);
    }

    #[test]
    fn this_process_can_be_read_and_its_counter_does_not_go_back() {
        let source = CpuSource::Process(std::process::id());
        let first = source.read().unwrap();
        let second = source.read().unwrap();
        assert_eq!(first.counter, second.counter);
        assert!(second.cpu_usage_us >= first.cpu_usage_us);
    }

    #[test]
    fn a_tree_counts_descendants_and_a_zombie_does_not_run() {
        let mut child = std::process::Command::new("sh")
            // The child works until its parent is gone.
            .args(["-c", "(while kill -0 $$ 2>/dev/null; do :; done) & wait"])
            .spawn()
            .unwrap();
        let tree = CpuSource::Tree(child.id());
        // The shell itself only waits: what comes is its child's.
        while tree.read().unwrap().cpu_usage_us == 0 {}
        assert!(tree.look().unwrap().alive);
        child.kill().unwrap();
        while tree.look().unwrap().alive {}
        child.wait().unwrap();
        assert!(matches!(tree.look(), Err(SourceError::Gone(_))));
    }

    #[test]
    fn a_process_that_is_gone_is_said_to_be_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(matches!(CpuSource::Process(pid).read(), Err(SourceError::Gone(_))));
    }
}
