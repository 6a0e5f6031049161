//! The PlanetLab traces (as `CloudSim` carries them): a file a VM, a whole number a line, CPU in per cent over 5 minutes.
//!
//! There are no times and no sizes: a file starts at midnight of the day that its folder is named by (`20110303`), or
//! where `--starts-at` says; `--vcpus` and `--memory-mib` give the size. The last number counts 5 minutes as well.

use std::path::Path;

use anyhow::Context;

use super::Defaults;
use super::decimal::Decimal;
use super::trace::{BadLine, Row};
use crate::domain::time::{Day, Timestamp};

/// The time between two rows, in milliseconds: 5 minutes.
const STEP_MS: i64 = 300_000;

/// Midnight of the day that a file's folder is named by.
pub(super) fn day_of(path: &Path) -> Option<Timestamp> {
    let name = path.parent()?.file_name()?.to_str()?;
    if name.len() != 8 {
        return None;
    }
    let part = |from: usize, to: usize| name.get(from..to)?.parse::<i64>().ok();
    Day::from_ymd(part(0, 4)?, part(4, 6)?, part(6, 8)?).map(Day::start)
}

/// The rows of a trace, the instant at which the last one's time ends, and the lines that can't be used (their time
/// is a gap).
pub fn rows(
    text: &str,
    starts_at: Timestamp,
    defaults: &Defaults,
) -> anyhow::Result<(Vec<Row>, Timestamp, Vec<BadLine>)> {
    let vcpus = defaults.vcpus;
    let scale = Decimal::whole(vcpus.saturating_mul(10)).context("--vcpus is below zero")?;
    let mut rows = Vec::new();
    let mut bad = Vec::new();
    let mut at = starts_at;
    for (content, line) in text.lines().zip(1_usize..) {
        let content = content.trim();
        if content.is_empty() {
            continue;
        }
        match Decimal::parse(content).and_then(|percent| percent.times(scale)) {
            Some(millicores) => rows.push(Row { line, at, vcpus, millicores, memory_mib: defaults.memory_mib }),
            None => bad.push(BadLine { line, detail: "not a number of zero or above" }),
        }
        at = at.plus_ms(STEP_MS).map_err(|_| anyhow::anyhow!("the trace runs past the year 9999"))?;
    }
    Ok((rows, at, bad))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{day_of, rows};
    use crate::cli::replay::Defaults;

    #[test]
    fn the_folder_names_the_day() {
        assert_eq!(day_of(Path::new("x/20110303/vm")).unwrap().ms(), 1_299_110_400_000);
        for other in ["x/2011033/vm", "20111303/vm", "vm", "2011-3-3/vm"] {
            assert_eq!(day_of(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn every_number_counts_five_minutes() {
        let start = day_of(Path::new("20110303/vm")).unwrap();
        let defaults = Defaults { vcpus: 2, memory_mib: 512, starts_at: None };
        let (rows, end, bad) = rows("0\n50\nx\n100\n", start, &defaults).unwrap();
        assert_eq!(rows.iter().map(|row| row.millicores.exact().unwrap()).collect::<Vec<_>>(), [0, 1_000, 2_000]);
        assert_eq!(rows.iter().map(|row| row.at.since(start)).collect::<Vec<_>>(), [0, 300_000, 900_000]);
        assert_eq!(end.since(start), 1_200_000);
        assert_eq!(bad.len(), 1);
    }
}
