//! An operator's month: what was billed, for what and to whom, what was given away, what nobody pays for, what was
//! refused. Built account by account; pure.
//!
//! Revenue is what the month's invoices say (drafts, while the month is not closed), beside the month before. What is by
//! key is usage of the month, whatever month bills it.

use std::collections::BTreeMap;

use super::checked::{Overflow, add};
use super::cost::{Amounts, Priced};
use super::id::{AccountId, KeyId};
use super::invoice::{Invoice, Item};
use super::money::{Cost, Micros};
use super::note::{Note, after_notes};
use super::time::Month;
use super::unbilled::Cause;

/// Keys that are shown: those that cost most.
pub const KEYS_MAX: usize = 20;
/// Refusals that are shown by key: those that occurred most.
pub const REFUSALS_MAX: usize = 50;

/// What an item came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemRow {
    /// CPU, memory, free hours, tax, ...
    pub item: Item,
    /// How much, in the item's exact units; 0 for money alone.
    pub quantity: i128,
    /// In this month.
    pub amount: Micros,
    /// In the month before.
    pub before: Micros,
}

/// What an account was billed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRow {
    /// The account.
    pub account: AccountId,
    /// Its name.
    pub name: String,
    /// Usage at list price.
    pub list: Micros,
    /// Paid by free hours.
    pub free: Micros,
    /// Paid by credit.
    pub credit: Micros,
    /// Tax.
    pub tax: Micros,
    /// The invoice's total.
    pub total: Micros,
    /// The total of the month before.
    pub before: Micros,
}

/// Usage of an earlier month that this one bills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateRow {
    /// When it was used.
    pub month: Month,
    /// Accounts that it is of.
    pub accounts: u64,
    /// What it comes to, free hours taken off; may be negative.
    pub amount: Micros,
}

/// What was given away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Free time granted in the month, in milliseconds of one running sandbox.
    pub free_ms: i128,
    /// Free time that the month's invoices used.
    pub free_used_ms: i128,
    /// What it paid.
    pub free_paid: Micros,
    /// Credit granted in the month.
    pub credit: Micros,
    /// Credit that the month's invoices used.
    pub credit_used: Micros,
}

/// Time that nobody pays for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnbilledRow {
    /// Why.
    pub cause: Cause,
    /// Leases with such time in the month.
    pub leases: u64,
    /// How much, in milliseconds.
    pub ms: i128,
    /// What it would have cost at least, rounded down.
    pub at_floor: Micros,
}

/// What a key used in the month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The account.
    pub account: AccountId,
    /// The key.
    pub key: KeyId,
    /// What it costs.
    pub amounts: Amounts,
}

/// Requests that were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalRow {
    /// The account.
    pub account: AccountId,
    /// The key that asked.
    pub key: KeyId,
    /// The problem code.
    pub code: String,
    /// How often.
    pub count: i64,
}

/// The whole of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonthReport {
    /// Which month.
    pub month: Month,
    /// Whether all its invoices are final.
    pub closed: bool,
    /// Invoices that have lines.
    pub invoices: u64,
    /// By item, in the order of an invoice; those that are neither in this month nor in the one before left out.
    pub items: Vec<ItemRow>,
    /// The sum of all totals.
    pub total: Micros,
    /// That of the month before.
    pub before: Micros,
    /// What is due on all invoices, in cents.
    pub due_cents: i64,
    /// Credit notes and debit notes on the month's invoices, whenever they were issued.
    pub notes: u64,
    /// What the totals come to after these notes.
    pub corrected: Micros,
    /// By account: the highest total first.
    pub accounts: Vec<AccountRow>,
    /// By month of use.
    pub late: Vec<LateRow>,
    /// What was given away.
    pub given: Given,
    /// By cause.
    pub unbilled: Vec<UnbilledRow>,
    /// At most [`KEYS_MAX`].
    pub keys: Vec<KeyRow>,
    /// How often each code refused.
    pub refused: Vec<(String, i64)>,
    /// At most [`REFUSALS_MAX`].
    pub refusals: Vec<RefusalRow>,
}

/// What is known of one account.
#[derive(Clone, Debug)]
pub struct AccountFacts {
    /// Its invoice.
    pub invoice: Invoice,
    /// Notes on it.
    pub notes: Vec<Note>,
    /// That of the month before, if there is one.
    pub before: Option<Invoice>,
    /// Free time granted in the month, in milliseconds.
    pub free_ms: i128,
    /// Credit granted in the month.
    pub credit: Micros,
    /// What its keys used in the month.
    pub keys: Vec<(KeyId, Priced)>,
    /// Time that nobody pays for: one a lease.
    pub unbilled: Vec<(Cause, i128, Cost)>,
    /// Refusals by key and code.
    pub refusals: Vec<(KeyId, String, i64)>,
}

/// A report under way.
#[derive(Debug)]
pub struct MonthTally {
    report: MonthReport,
    items: BTreeMap<usize, ItemRow>,
    late: BTreeMap<Month, LateRow>,
    unbilled: BTreeMap<Cause, (u64, i128, Cost)>,
    refused: BTreeMap<String, i64>,
}

impl MonthTally {
    /// An empty report.
    #[must_use]
    pub fn new(month: Month, closed: bool) -> Self {
        let report = MonthReport {
            month,
            closed,
            invoices: 0,
            items: Vec::new(),
            total: Micros::ZERO,
            before: Micros::ZERO,
            due_cents: 0,
            notes: 0,
            corrected: Micros::ZERO,
            accounts: Vec::new(),
            late: Vec::new(),
            given: Given::default(),
            unbilled: Vec::new(),
            keys: Vec::new(),
            refused: Vec::new(),
            refusals: Vec::new(),
        };
        let (items, late, unbilled, refused) = Default::default();
        Self { report, items, late, unbilled, refused }
    }

    /// Adds an account.
    pub fn add(&mut self, facts: AccountFacts) -> Result<(), Overflow> {
        let account = facts.invoice.account.clone();
        self.add_invoice(&facts.invoice, facts.before.as_ref())?;
        self.report.notes = self.report.notes.saturating_add(u64::try_from(facts.notes.len()).map_err(|_| Overflow)?);
        let corrected = after_notes(facts.invoice.total, &facts.notes)?;
        self.report.corrected = self.report.corrected.plus(corrected)?;
        let given = &mut self.report.given;
        given.free_ms = add(given.free_ms, facts.free_ms)?;
        given.credit = given.credit.plus(facts.credit)?;
        for (cause, ms, cost) in facts.unbilled {
            let (leases, all_ms, sum) = self.unbilled.entry(cause).or_default();
            *leases = leases.saturating_add(1);
            *all_ms = add(*all_ms, ms)?;
            *sum = sum.plus(cost)?;
        }
        for (key, priced) in facts.keys {
            self.report.keys.push(KeyRow { account: account.clone(), key, amounts: priced.amounts()? });
        }
        for (key, code, count) in facts.refusals {
            let sum = self.refused.entry(code.clone()).or_default();
            *sum = sum.saturating_add(count);
            self.report.refusals.push(RefusalRow { account: account.clone(), key, code, count });
        }
        self.cut();
        Ok(())
    }

    /// Keeps only what will be shown.
    fn cut(&mut self) {
        self.report.keys.sort_by(|left, right| {
            (right.amounts.list, &left.account, &left.key).cmp(&(left.amounts.list, &right.account, &right.key))
        });
        self.report.keys.truncate(KEYS_MAX);
        self.report.refusals.sort_by(|left, right| {
            (right.count, &left.account, &left.key, &left.code).cmp(&(
                left.count,
                &right.account,
                &right.key,
                &right.code,
            ))
        });
        self.report.refusals.truncate(REFUSALS_MAX);
    }

    fn add_invoice(&mut self, invoice: &Invoice, before: Option<&Invoice>) -> Result<(), Overflow> {
        let mut late: BTreeMap<Month, Micros> = BTreeMap::new();
        for line in &invoice.lines {
            let row = item_row(&mut self.items, line.item)?;
            row.amount = row.amount.plus(line.amount)?;
            let Some(used) = &line.used else { continue };
            row.quantity = add(row.quantity, used.quantity)?;
            if line.item == Item::FreeHours {
                self.report.given.free_used_ms = add(self.report.given.free_used_ms, used.quantity)?;
            }
            if used.month != invoice.month {
                let sum = late.entry(used.month).or_default();
                *sum = sum.plus(line.amount)?;
            }
        }
        for (month, amount) in late {
            let row = self.late.entry(month).or_insert(LateRow { month, accounts: 0, amount: Micros::ZERO });
            row.accounts = row.accounts.saturating_add(1);
            row.amount = row.amount.plus(amount)?;
        }
        for line in before.iter().flat_map(|invoice| &invoice.lines) {
            let row = item_row(&mut self.items, line.item)?;
            row.before = row.before.plus(line.amount)?;
        }
        let report = &mut self.report;
        let before = before.map_or(Micros::ZERO, |invoice| invoice.total);
        report.total = report.total.plus(invoice.total)?;
        report.before = report.before.plus(before)?;
        report.due_cents = report.due_cents.checked_add(invoice.due_cents()).ok_or(Overflow)?;
        report.given.free_paid = report.given.free_paid.plus(invoice.free)?;
        report.given.credit_used = report.given.credit_used.plus(invoice.credit)?;
        if !invoice.lines.is_empty() {
            report.invoices = report.invoices.saturating_add(1);
        }
        if !invoice.lines.is_empty() || before != Micros::ZERO {
            let Invoice { account, name, list, free, credit, tax, total, .. } = invoice.clone();
            report.accounts.push(AccountRow { account, name, list, free, credit, tax, total, before });
        }
        Ok(())
    }

    /// The report.
    pub fn finish(mut self) -> Result<MonthReport, Overflow> {
        self.report.items = self.items.into_values().collect();
        self.report.late = self.late.into_values().collect();
        for (cause, (leases, ms, cost)) in self.unbilled {
            self.report.unbilled.push(UnbilledRow { cause, leases, ms, at_floor: cost.floor()? });
        }
        self.report.refused = self.refused.into_iter().collect();
        self.report
            .refused
            .sort_by(|(left, left_count), (right, right_count)| (right_count, left).cmp(&(left_count, right)));
        self.report.accounts.sort_by(|left, right| (right.total, &left.account).cmp(&(left.total, &right.account)));
        Ok(self.report)
    }
}

/// The row of an item, by its place on an invoice.
fn item_row(rows: &mut BTreeMap<usize, ItemRow>, item: Item) -> Result<&mut ItemRow, Overflow> {
    let place = Item::ALL.iter().position(|known| *known == item).ok_or(Overflow)?;
    Ok(rows.entry(place).or_insert(ItemRow { item, quantity: 0, amount: Micros::ZERO, before: Micros::ZERO }))
}
