//! The report as one self-contained page.

use minijinja::{Value, context};

use super::super::html::page;
use super::super::{ReportError, month_words};
use super::{Section, sections, summary};
use crate::domain::month_report::MonthReport;

/// The name ends with `.html`, so that the template engine escapes.
const NAME: &str = "month.html";
const TEMPLATE: &str = include_str!("../../../reports/month.html");
/// Accounts that a page shows.
const ACCOUNTS_MAX: usize = 1_000;

/// The page.
pub fn render(report: &MonthReport) -> Result<Vec<u8>, ReportError> {
    let tables: Vec<Value> = sections(report, ACCOUNTS_MAX)?.into_iter().map(table).collect();
    let facts: Vec<Value> = summary(report).into_iter().map(|(name, text)| context! { name, text }).collect();
    page(NAME, TEMPLATE, &context! { month => month_words(report.month), facts, tables })
}

fn table(section: Section) -> Value {
    let Section { title, note, columns, rows, sum, more } = section;
    let columns: Vec<Value> = columns.into_iter().map(|(name, number)| context! { name, number }).collect();
    context! { title, note, columns, rows, sum, more }
}
