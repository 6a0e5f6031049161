//! The Bitbrains traces (Grid Workloads Archive, GWA-T-12): a file a VM, columns separated by `;` and a tab.
//!
//! The header says milliseconds, the values are seconds. A row's CPU is `usage % x cores x 10` millicores; the usage
//! in MHz is not used. Cores are rounded up; 0 cores is a VM that is off, whatever its CPU says. Memory is what is
//! provisioned, in KB, rounded up to MiB. Every number is read exactly.

use super::decimal::Decimal;
use super::trace::{BadLine, Row};
use crate::domain::time::Timestamp;
use crate::domain::units::{MEBIBYTES_MAX, VCPUS_MAX};

/// How the header begins.
pub(super) const HEADER: &str = "Timestamp [ms];";

/// The rows of a trace, as they come, and the lines that can't be used.
#[must_use]
pub fn rows(text: &str) -> (Vec<Row>, Vec<BadLine>) {
    let mut rows = Vec::new();
    let mut bad = Vec::new();
    for (content, line) in text.lines().zip(1_usize..) {
        let content = content.trim();
        if content.is_empty() || content.starts_with(HEADER) {
            continue;
        }
        match row(content, line) {
            Ok(row) => rows.push(row),
            Err(detail) => bad.push(BadLine { line, detail }),
        }
    }
    (rows, bad)
}

fn row(content: &str, line: usize) -> Result<Row, &'static str> {
    let columns: Vec<&str> = content.split(';').map(str::trim).collect();
    let column = |index: usize| columns.get(index).copied().ok_or("too few columns");
    let number = |index: usize, wrong: &'static str| Decimal::parse(column(index)?).ok_or(wrong);
    let seconds = number(0, "the time stamp is not a number")?;
    let ms = Decimal::whole(1_000).and_then(|thousand| seconds.times(thousand)?.exact());
    let at = ms.and_then(Timestamp::from_ms).ok_or("the time stamp is not a time in whole milliseconds")?;
    let cores = number(1, "the cores are not a number")?;
    let vcpus = cores.div_up(1).filter(|cores| *cores <= VCPUS_MAX).ok_or("too many cores")?;
    let percent = number(4, "the CPU usage is not a number of zero or above")?;
    let ten = Decimal::whole(10).ok_or("ten")?;
    let millicores = percent.times(cores).and_then(|product| product.times(ten)).ok_or("the CPU usage is too long")?;
    let memory = number(5, "the provisioned memory is not a number")?;
    let memory_mib = memory.div_up(1_024).filter(|mib| *mib <= MEBIBYTES_MAX).ok_or("too much memory")?;
    if vcpus > 0 && memory_mib == 0 {
        return Err("a VM that is on has no memory");
    }
    Ok(Row { line, at, vcpus, millicores, memory_mib })
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn rows_are_read_and_bad_lines_are_named() {
        let text = "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\tCPU usage [%];\t\
                    Memory capacity provisioned [KB];\tMemory usage [KB]\n\
                    1375308176;\t2;\t5199.9;\t69.3;\t2.5;\t2.0789248E7;\t536870.4\n\
                    1375308476;\t0;\t0.0;\t0.0;\t0.25;\t0.0;\t0.0\n\
                    1375308776;\t2\n\
                    x;\t2;\t0;\t0;\t1.0;\t1.0;\t0\n\
                    1375308776;\t2;\t0;\t0;\t-1.0;\t1.0;\t0\n\
                    1375308776;\t2;\t0;\t0;\t1.0;\t0.0;\t0\n\
                    1375308776;\t1025;\t0;\t0;\t1.0;\t1.0;\t0\n";
        let (rows, bad) = rows(text);
        let seen: Vec<_> = rows.iter().map(|row| (row.line, row.at.ms(), row.vcpus, row.memory_mib)).collect();
        assert_eq!(seen, [(2, 1_375_308_176_000, 2, 20_302), (3, 1_375_308_476_000, 0, 0)]);
        assert_eq!(rows[0].millicores.exact(), Some(50));
        assert!(rows[1].millicores.is_zero());
        assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [4, 5, 6, 7, 8]);
    }
}
