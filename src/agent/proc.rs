//! A process's CPU time from `/proc/PID/stat`: user and system time of it and of the children that it has waited for.

use std::path::PathBuf;

use super::source::{Reading, SourceError, read_file};

/// Reads a process's counter. It is named by its start time since the boot, so that another process that got the
/// same number is another counter.
pub(super) fn read(pid: u32) -> Result<Reading, SourceError> {
    let path = PathBuf::from(format!("/proc/{pid}/stat"));
    let text = read_file(&path)?;
    parse(&text, rustix::param::clock_ticks_per_second())
        .ok_or(SourceError::Malformed { path, detail: "not the fields of a process" })
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
    fn a_process_that_is_gone_is_said_to_be_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(matches!(CpuSource::Process(pid).read(), Err(SourceError::Gone(_))));
    }
}
