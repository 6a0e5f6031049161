//! What accounts pay by, in one answer: their grants of free time, and the rate cards.

use std::collections::BTreeSet;

use crate::domain::id::AccountId;

use super::customers::{GRANT_COLUMNS, grant, grant_columns};
use super::dialect::Row;
use super::rate_cards::{card_columns, entry, scope_rows};
use super::shapes::Terms;
use super::statement::Statement;
use super::{Answer, Tx};

/// A row is a grant or a card; the columns of the other are NULL.
pub(super) static TERMS: Statement = Statement::new(
    "terms",
    concat!(
        "SELECT ",
        grant_columns!(),
        ", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM {rows scope text} {each grants g: g.account_id = r.scope}
        UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ",
        card_columns!(),
        " FROM {rows} {each rate_cards c: c.scope = r.scope}"
    ),
);
pub(super) static STATEMENTS: &[&Statement] = &[&TERMS];

impl Tx {
    /// All grants of accounts, all default rate cards and those of the accounts, each in no order.
    pub async fn terms(&mut self, accounts: &BTreeSet<AccountId>) -> Answer<Terms> {
        terms(self.fetch_rows(&TERMS, &scope_rows(accounts), &[]).await?)
    }
}

/// Tells grants from cards.
pub(super) fn terms(rows: Vec<Row>) -> Answer<Terms> {
    let mut terms = Terms::default();
    for mut row in rows {
        if row.gap(GRANT_COLUMNS)? {
            terms.cards.push(entry(&mut row)?);
        } else {
            terms.grants.push(grant(&mut row)?);
        }
    }
    Ok(terms)
}
