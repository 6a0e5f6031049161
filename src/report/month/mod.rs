//! An operator's report of a month: for people as tables of texts, which a page and a terminal show alike, and as CSV.

mod csv;
mod html;

pub use csv::render as render_csv;
pub use html::render as render_html;

use super::{dollars_of_cents, grouped, month_words, short, title, with_commas};
use crate::domain::Overflow;
use crate::domain::invoice::{Item, decimal};
use crate::domain::month_report::MonthReport;
use crate::domain::unbilled::Cause;

/// A table as people read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// What it shows.
    pub title: &'static str,
    /// What is said under the title; may be empty.
    pub note: &'static str,
    /// The heads of its columns, and whether they hold numbers.
    pub columns: Vec<(&'static str, bool)>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// The sum; empty where there is none.
    pub sum: Vec<String>,
    /// Rows that were left out.
    pub more: usize,
}

/// Hours of milliseconds, to six digits.
fn hours(ms: i128) -> Result<String, Overflow> {
    let (_, size) = Item::FreeHours.unit().ok_or(Overflow)?;
    Ok(with_commas(short(&decimal(ms, size)?)))
}

fn cause_words(cause: Cause) -> &'static str {
    match cause {
        Cause::NeverSampled => "Expired, never sampled",
        Cause::WentSilent => "Expired after its last sample",
        Cause::HostLost => "Host lost (at most)",
        Cause::EndToldLate => "End told after it had settled",
    }
}

/// The change from `before` to `now`: in dollars, and in percent where there was something before.
fn change(now: i64, before: i64) -> (String, String) {
    let off = now.saturating_sub(before);
    let sign = if off > 0 { "+" } else { "" };
    let tenths = i128::from(off).saturating_mul(1_000).checked_div(i128::from(before)).filter(|_| before > 0);
    let percent = tenths.map(|tenths| {
        let size = tenths.unsigned_abs();
        let sign = if tenths < 0 { "-" } else { "+" };
        format!("{sign}{}.{} %", with_commas(&size.div_euclid(10).to_string()), size.rem_euclid(10))
    });
    (format!("{sign}{}", grouped(off)), percent.unwrap_or_default())
}

/// What is said above the tables: name and text.
#[must_use]
pub fn summary(report: &MonthReport) -> Vec<(&'static str, String)> {
    let (off, percent) = change(report.total.count(), report.before.count());
    let status = if report.closed { "closed, all invoices final" } else { "not closed: as it stands now" };
    let mut facts = vec![
        ("Month", format!("{} ({status})", month_words(report.month))),
        ("Invoices", with_commas(&report.invoices.to_string())),
        ("Revenue", format!("USD {}", grouped(report.total.count()))),
        ("Month before", format!("USD {}  {off}  {percent}", grouped(report.before.count())).trim_end().to_owned()),
        ("Amounts due", format!("USD {}", with_commas(&dollars_of_cents(report.due_cents)))),
    ];
    if report.notes > 0 {
        let count = with_commas(&report.notes.to_string());
        facts.push(("After notes", format!("USD {}  ({count})", grouped(report.corrected.count()))));
    }
    facts
}

/// The tables. At most `rows_max` rows by account are shown; all others are bounded.
pub fn sections(report: &MonthReport, rows_max: usize) -> Result<Vec<Section>, Overflow> {
    Ok(vec![
        resources(report)?,
        accounts(report, rows_max),
        given(report)?,
        unbilled(report)?,
        late(report),
        keys(report),
        refused(report),
        refusals(report),
    ])
}

fn resources(report: &MonthReport) -> Result<Section, Overflow> {
    let mut rows = Vec::new();
    for row in &report.items {
        let quantity = match row.item.unit() {
            Some((unit, size)) => format!("{} {unit}", with_commas(short(&decimal(row.quantity, size)?))),
            None => String::new(),
        };
        let (off, percent) = change(row.amount.count(), row.before.count());
        let amounts = [row.amount, row.before].map(|amount| grouped(amount.count()));
        let [amount, before] = amounts;
        rows.push(vec![title(row.item).to_owned(), quantity, amount, before, off, percent]);
    }
    let (off, percent) = change(report.total.count(), report.before.count());
    let sums = [report.total, report.before].map(|amount| grouped(amount.count()));
    let [total, before] = sums;
    Ok(Section {
        title: "Revenue by resource",
        note: "",
        columns: vec![
            ("Item", false),
            ("Quantity", true),
            ("USD", true),
            ("Month before", true),
            ("Change", true),
            ("", true),
        ],
        rows,
        sum: vec!["Total".to_owned(), String::new(), total, before, off, percent],
        more: 0,
    })
}

fn accounts(report: &MonthReport, rows_max: usize) -> Section {
    let rows = report.accounts.iter().take(rows_max).map(|row| {
        let (off, percent) = change(row.total.count(), row.before.count());
        let less = |amount: i64| grouped(amount.saturating_neg());
        vec![
            row.account.to_string(),
            row.name.clone(),
            grouped(row.list.count()),
            less(row.free.count()),
            less(row.credit.count()),
            grouped(row.tax.count()),
            grouped(row.total.count()),
            off,
            percent,
        ]
    });
    Section {
        title: "Revenue by account",
        note: "",
        columns: vec![
            ("Account", false),
            ("Name", false),
            ("List", true),
            ("Free", true),
            ("Credit", true),
            ("Tax", true),
            ("Total, USD", true),
            ("Change", true),
            ("", true),
        ],
        rows: rows.collect(),
        sum: Vec::new(),
        more: report.accounts.len().saturating_sub(rows_max),
    }
}

fn given(report: &MonthReport) -> Result<Section, Overflow> {
    let given = report.given;
    let free = vec![
        "Free hours".to_owned(),
        format!("{} h", hours(given.free_ms)?),
        format!("{} h", hours(given.free_used_ms)?),
        grouped(given.free_paid.count()),
    ];
    let used = grouped(given.credit_used.count());
    let credit = vec!["Promotional credit".to_owned(), grouped(given.credit.count()), used.clone(), used];
    Ok(Section {
        title: "Given away",
        note: "Granted in the month; used by its invoices.",
        columns: vec![("", false), ("Granted", true), ("Used", true), ("Paid, USD", true)],
        rows: vec![free, credit],
        sum: Vec::new(),
        more: 0,
    })
}

fn unbilled(report: &MonthReport) -> Result<Section, Overflow> {
    let mut rows = Vec::new();
    for row in &report.unbilled {
        let time = format!("{} h", hours(row.ms)?);
        let leases = with_commas(&row.leases.to_string());
        rows.push(vec![cause_words(row.cause).to_owned(), leases, time, grouped(row.at_floor.count())]);
    }
    Ok(Section {
        title: "Time that nobody pays for",
        note: "Granted, but proven by no sample and no end in time; its cost is that of an idle sandbox.",
        columns: vec![("Cause", false), ("Leases", true), ("Time", true), ("At least, USD", true)],
        rows,
        sum: Vec::new(),
        more: 0,
    })
}

fn late(report: &MonthReport) -> Section {
    let row = |row: &crate::domain::month_report::LateRow| {
        vec![month_words(row.month), with_commas(&row.accounts.to_string()), grouped(row.amount.count())]
    };
    Section {
        title: "Late usage",
        note: "Of months that were closed before it came; billed in this one.",
        columns: vec![("Month of use", false), ("Accounts", true), ("USD", true)],
        rows: report.late.iter().map(row).collect(),
        sum: Vec::new(),
        more: 0,
    }
}

fn keys(report: &MonthReport) -> Section {
    let row = |row: &crate::domain::month_report::KeyRow| {
        let amounts = [row.amounts.list.count(), row.amounts.free.count().saturating_neg(), row.amounts.net.count()];
        let [list, free, net] = amounts.map(grouped);
        vec![row.account.to_string(), row.key.to_string(), list, free, net]
    };
    Section {
        title: "Top keys",
        note: "Usage of the month, whatever month bills it.",
        columns: vec![("Account", false), ("Key", false), ("List", true), ("Free", true), ("To pay, USD", true)],
        rows: report.keys.iter().map(row).collect(),
        sum: Vec::new(),
        more: 0,
    }
}

fn refused(report: &MonthReport) -> Section {
    let row = |(code, count): &(String, i64)| vec![code.clone(), with_commas(&count.to_string())];
    Section {
        title: "Refused by",
        note: "",
        columns: vec![("Code", false), ("Times", true)],
        rows: report.refused.iter().map(row).collect(),
        sum: Vec::new(),
        more: 0,
    }
}

fn refusals(report: &MonthReport) -> Section {
    let row = |row: &crate::domain::month_report::RefusalRow| {
        let count = with_commas(&row.count.to_string());
        vec![row.account.to_string(), row.key.to_string(), row.code.clone(), count]
    };
    Section {
        title: "Who was refused most",
        note: "",
        columns: vec![("Account", false), ("Key", false), ("Code", false), ("Times", true)],
        rows: report.refusals.iter().map(row).collect(),
        sum: Vec::new(),
        more: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::change;

    #[test]
    fn a_change_has_its_sign_and_percent_only_of_something() {
        let shown = |now, before| change(now, before);
        assert_eq!(shown(1_500_000, 1_000_000), ("+0.500000".to_owned(), "+50.0 %".to_owned()));
        assert_eq!(shown(999, 1_000_000), ("-0.999001".to_owned(), "-99.9 %".to_owned()));
        assert_eq!(shown(5, 0), ("+0.000005".to_owned(), String::new()));
        assert_eq!(shown(0, 0), ("0.000000".to_owned(), String::new()));
        assert_eq!(shown(-5, -1), ("-0.000004".to_owned(), String::new()));
    }
}
