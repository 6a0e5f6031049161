//! The report as CSV: one table of all figures, a row a figure, so that a spreadsheet can filter and sum them.

use super::super::csv::{broken, harmless, writer};
use super::super::{ReportError, show_month};
use crate::domain::invoice::decimal;
use crate::domain::month_report::MonthReport;

const COLUMNS: [&str; 9] =
    ["month", "section", "account", "key", "name", "quantity", "unit", "amount_micros", "before_micros"];

/// A figure.
#[derive(Default)]
struct Figure<'a> {
    section: &'a str,
    account: &'a str,
    key: &'a str,
    name: &'a str,
    quantity: String,
    unit: &'a str,
    amount: Option<i64>,
    before: Option<i64>,
}

/// The file.
pub fn render(report: &MonthReport) -> Result<Vec<u8>, ReportError> {
    let mut out = writer(Vec::new());
    out.write_record(COLUMNS).map_err(broken)?;
    let month = show_month(report.month);
    for figure in figures(report)? {
        let micros = |amount: Option<i64>| amount.map(|amount| amount.to_string()).unwrap_or_default();
        let record = [
            month.clone(),
            figure.section.to_owned(),
            harmless(figure.account),
            harmless(figure.key),
            harmless(figure.name),
            figure.quantity,
            figure.unit.to_owned(),
            micros(figure.amount),
            micros(figure.before),
        ];
        out.write_record(record).map_err(broken)?;
    }
    out.into_inner().map_err(broken)
}

fn figures(report: &MonthReport) -> Result<Vec<Figure<'_>>, ReportError> {
    let mut figures = Vec::new();
    for row in &report.items {
        let (quantity, unit) = match row.item.unit() {
            Some((unit, size)) => (decimal(row.quantity, size)?, unit),
            None => Default::default(),
        };
        let (amount, before) = (Some(row.amount.count()), Some(row.before.count()));
        let name = row.item.name();
        figures.push(Figure { section: "resource", name, quantity, unit, amount, before, ..Figure::default() });
    }
    let (amount, before) = (Some(report.total.count()), Some(report.before.count()));
    figures.push(Figure { section: "total", amount, before, ..Figure::default() });
    let (quantity, amount) = (report.notes.to_string(), Some(report.corrected.count()));
    figures.push(Figure { section: "after_notes", quantity, unit: "notes", amount, ..Figure::default() });
    for row in &report.accounts {
        let (amount, before) = (Some(row.total.count()), Some(row.before.count()));
        let (account, name) = (row.account.as_str(), row.name.as_str());
        figures.push(Figure { section: "account", account, name, amount, before, ..Figure::default() });
    }
    for (name, ms, amount) in [
        ("free_hours_granted", report.given.free_ms, None),
        ("free_hours_used", report.given.free_used_ms, Some(report.given.free_paid.count())),
    ] {
        figures.push(Figure {
            section: "given",
            name,
            quantity: ms.to_string(),
            unit: "ms",
            amount,
            ..Figure::default()
        });
    }
    for (name, amount) in [("credit_granted", report.given.credit), ("credit_used", report.given.credit_used)] {
        figures.push(Figure { section: "given", name, amount: Some(amount.count()), ..Figure::default() });
    }
    for row in &report.unbilled {
        let (quantity, amount) = (row.ms.to_string(), Some(row.at_floor.count()));
        let name = row.cause.name();
        figures.push(Figure { section: "unbilled", name, quantity, unit: "ms", amount, ..Figure::default() });
    }
    for row in &report.keys {
        let (account, key, amount) = (row.account.as_str(), row.key.as_str(), Some(row.amounts.net.count()));
        figures.push(Figure { section: "key", account, key, amount, ..Figure::default() });
    }
    for row in &report.refusals {
        let (account, key, name) = (row.account.as_str(), row.key.as_str(), row.code.as_str());
        let quantity = row.count.to_string();
        figures.push(Figure { section: "refusal", account, key, name, quantity, unit: "times", ..Figure::default() });
    }
    Ok(figures.into_iter().chain(late(report)).collect())
}

fn late(report: &MonthReport) -> Vec<Figure<'_>> {
    let figure = |row: &crate::domain::month_report::LateRow| Figure {
        section: "late",
        quantity: show_month(row.month),
        unit: "month of use",
        amount: Some(row.amount.count()),
        ..Figure::default()
    };
    report.late.iter().map(figure).collect()
}
