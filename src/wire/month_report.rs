//! An operator's report of a month.

use serde::Serialize;

use super::time::show_month;
use crate::domain::Overflow;
use crate::domain::cost::Amounts;
use crate::domain::invoice::decimal;
use crate::domain::month_report as domain;

/// What an item of invoices came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// `cpu`, `memory`, ... as on an invoice.
    pub resource: &'static str,
    /// How much; absent for money alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantity: Option<String>,
    /// Its unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<&'static str>,
    /// In this month.
    pub amount_micros: i64,
    /// In the month before.
    pub before_micros: i64,
}

/// What an account was billed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Account {
    /// The account.
    pub account: String,
    /// Its name.
    pub name: String,
    /// Usage at list price.
    pub list_micros: i64,
    /// Paid by free hours.
    pub free_micros: i64,
    /// Paid by credit.
    pub credit_micros: i64,
    /// Tax.
    pub tax_micros: i64,
    /// The invoice's total.
    pub total_micros: i64,
    /// That of the month before.
    pub before_micros: i64,
}

/// Usage of an earlier month that this one bills.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Late {
    /// When it was used.
    pub month_of_use: String,
    /// Accounts that it is of.
    pub accounts: u64,
    /// What it comes to.
    pub amount_micros: i64,
}

/// What was given away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Given {
    /// Free time granted in the month; a text, as it passes 2^53 over all accounts.
    pub free_granted_ms: String,
    /// Free time that its invoices used, likewise.
    pub free_used_ms: String,
    /// What it paid.
    pub free_paid_micros: i64,
    /// Credit granted in the month.
    pub credit_granted_micros: i64,
    /// Credit that its invoices used.
    pub credit_used_micros: i64,
}

/// Time that nobody pays for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unbilled {
    /// `never_sampled`, `went_silent`, `host_lost` or `end_told_late`.
    pub cause: &'static str,
    /// Leases.
    pub leases: u64,
    /// How much, in milliseconds.
    pub ms: String,
    /// What it would have cost at least.
    pub at_floor_micros: i64,
}

/// What a key used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// The account.
    pub account: String,
    /// The key.
    pub key: String,
    /// At list price.
    pub list_micros: i64,
    /// Paid by free time.
    pub free_micros: i64,
    /// To be paid.
    pub net_micros: i64,
}

/// Requests that were refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The account; absent for a sum over all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The key; likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The problem code.
    pub code: String,
    /// How often.
    pub count: i64,
}

/// The whole of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MonthReport {
    /// Which month.
    pub month: String,
    /// Whether all its invoices are final.
    pub closed: bool,
    /// Invoices that have lines.
    pub invoices: u64,
    /// The sum of their totals.
    pub total_micros: i64,
    /// That of the month before.
    pub before_micros: i64,
    /// The sum of their amounts due.
    pub amount_due_cents: i64,
    /// Credit notes and debit notes on them, whenever they were issued.
    pub notes: u64,
    /// The sum of their totals after these notes.
    pub corrected_total_micros: i64,
    /// By item.
    pub resources: Vec<Item>,
    /// By account: the highest total first.
    pub accounts: Vec<Account>,
    /// Late usage by month of use.
    pub late: Vec<Late>,
    /// What was given away.
    pub given: Given,
    /// Time that nobody pays for, by cause.
    pub unbilled: Vec<Unbilled>,
    /// Keys whose usage cost most.
    pub top_keys: Vec<Key>,
    /// Refusals by code.
    pub refused: Vec<Refusal>,
    /// Refusals by key and code: those that occurred most.
    pub refusals: Vec<Refusal>,
}

fn item(row: &domain::ItemRow) -> Result<Item, Overflow> {
    let unit = row.item.unit();
    Ok(Item {
        resource: row.item.name(),
        quantity: unit.map(|(_, size)| decimal(row.quantity, size)).transpose()?,
        unit: unit.map(|(name, _)| name),
        amount_micros: row.amount.count(),
        before_micros: row.before.count(),
    })
}

fn account(row: &domain::AccountRow) -> Account {
    Account {
        account: row.account.to_string(),
        name: row.name.clone(),
        list_micros: row.list.count(),
        free_micros: row.free.count(),
        credit_micros: row.credit.count(),
        tax_micros: row.tax.count(),
        total_micros: row.total.count(),
        before_micros: row.before.count(),
    }
}

fn key(row: &domain::KeyRow) -> Key {
    let Amounts { list, free, net } = row.amounts;
    let (account, key) = (row.account.to_string(), row.key.to_string());
    Key { account, key, list_micros: list.count(), free_micros: free.count(), net_micros: net.count() }
}

impl MonthReport {
    /// A report as it is shown.
    pub fn new(report: &domain::MonthReport) -> Result<Self, Overflow> {
        let given = report.given;
        let late = |row: &domain::LateRow| Late {
            month_of_use: show_month(row.month),
            accounts: row.accounts,
            amount_micros: row.amount.count(),
        };
        let unbilled = |row: &domain::UnbilledRow| Unbilled {
            cause: row.cause.name(),
            leases: row.leases,
            ms: row.ms.to_string(),
            at_floor_micros: row.at_floor.count(),
        };
        let refusal = |row: &domain::RefusalRow| Refusal {
            account: Some(row.account.to_string()),
            key: Some(row.key.to_string()),
            code: row.code.clone(),
            count: row.count,
        };
        let sum =
            |(code, count): &(String, i64)| Refusal { account: None, key: None, code: code.clone(), count: *count };
        Ok(Self {
            month: show_month(report.month),
            closed: report.closed,
            invoices: report.invoices,
            total_micros: report.total.count(),
            before_micros: report.before.count(),
            amount_due_cents: report.due_cents,
            notes: report.notes,
            corrected_total_micros: report.corrected.count(),
            resources: report.items.iter().map(item).collect::<Result<_, _>>()?,
            accounts: report.accounts.iter().map(account).collect(),
            late: report.late.iter().map(late).collect(),
            given: Given {
                free_granted_ms: given.free_ms.to_string(),
                free_used_ms: given.free_used_ms.to_string(),
                free_paid_micros: given.free_paid.count(),
                credit_granted_micros: given.credit.count(),
                credit_used_micros: given.credit_used.count(),
            },
            unbilled: report.unbilled.iter().map(unbilled).collect(),
            top_keys: report.keys.iter().map(key).collect(),
            refused: report.refused.iter().map(sum).collect(),
            refusals: report.refusals.iter().map(refusal).collect(),
        })
    }
}
