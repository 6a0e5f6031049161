//! Promotional credit: its grants, and what final invoices drew on them.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::credit::{Credit, CreditBook, CreditDraw};
use crate::domain::id::{AccountId, GrantId};
use crate::domain::invoice::Invoice;
use crate::domain::money::Micros;
use crate::domain::time::{Day, Month};

use super::changes::Changes;
use super::customers::account_rows;
use super::dialect::Row;
use super::statement::Statement;
use super::{Answer, Rows, StoreError, Tx, Value, all};

macro_rules! columns {
    () => {
        "c.account_id, c.credit_id, c.granted_micros, c.starts_on, c.expires_on, c.note, c.created_at"
    };
}
static CREDITS: Statement = Statement::new(
    "credits",
    concat!(
        "SELECT ",
        columns!(),
        " FROM {rows account_id text} {each credits c: c.account_id = r.account_id} ORDER BY r.ord, c.credit_id"
    ),
);
static LIST: Statement = Statement::new(
    "list credits",
    concat!(
        "SELECT ",
        columns!(),
        ", CAST((SELECT COALESCE(SUM(d.drawn_micros), 0) FROM credit_draws d WHERE d.account_id = c.account_id
            AND d.credit_id = c.credit_id) AS BIGINT)
        FROM credits c WHERE c.account_id = {text 1} AND c.credit_id > {text 2} ORDER BY c.credit_id LIMIT {int 3}"
    ),
);
static ADD: Statement = Statement::new(
    "add credits",
    "INSERT INTO credits ({columns}) SELECT {r.columns} FROM {rows account_id text, credit_id text |
        granted_micros int, starts_on int, expires_on int, note text, created_at int} WHERE true",
);
static DRAWS: Statement = Statement::new(
    "credit draws",
    "SELECT d.account_id, d.month, d.day, d.credit_id, d.drawn_micros FROM {rows account_id text}
    {each credit_draws d: d.account_id = r.account_id} ORDER BY r.ord, d.month, d.seq",
);
static DRAWS_BEFORE: Statement = Statement::new(
    "credit draws before a month",
    "SELECT d.account_id, d.month, d.day, d.credit_id, d.drawn_micros FROM credit_draws d
    WHERE d.account_id = {text 1} AND d.month < {int 2} ORDER BY d.month, d.seq",
);
static DRAWS_OF_INVOICES: Statement = Statement::new(
    "credit draws of invoices",
    "SELECT d.account_id, d.month, d.day, d.credit_id, d.drawn_micros FROM {rows account_id text, month int}
    {each credit_draws d: d.account_id = r.account_id AND d.month = r.month} ORDER BY r.ord, d.seq",
);
static ADD_DRAWS: Statement = Statement::new(
    "add credit draws",
    "INSERT INTO credit_draws ({columns}) SELECT {r.columns} FROM {rows account_id text, month int, seq int | day int,
        credit_id text, drawn_micros int} WHERE true",
);
pub(super) static STATEMENTS: &[&Statement] =
    &[&CREDITS, &LIST, &ADD, &DRAWS, &DRAWS_BEFORE, &DRAWS_OF_INVOICES, &ADD_DRAWS];

fn credit(row: &mut Row) -> Answer<Credit> {
    Ok(Credit {
        account: row.id()?,
        id: row.id()?,
        granted: row.micros()?,
        starts_on: row.day()?,
        expires_on: row.opt_day()?,
        note: row.string()?,
        created_at: row.time()?,
    })
}

fn draw(row: &mut Row) -> Answer<((AccountId, Month), CreditDraw)> {
    let of = (row.id()?, row.month()?);
    Ok((of, CreditDraw { day: row.day()?, credit: row.id()?, amount: row.micros()? }))
}

impl Tx {
    /// All credits of accounts without what was drawn on them, by account, then id.
    pub async fn credits(&mut self, accounts: &BTreeSet<AccountId>) -> Answer<Vec<Credit>> {
        all(self.fetch_rows(&CREDITS, &account_rows(accounts), &[]).await?, credit)
    }

    /// The books of those of the accounts that have credit, with what final invoices drew.
    pub async fn credit_books(&mut self, accounts: &BTreeSet<AccountId>) -> Answer<BTreeMap<AccountId, CreditBook>> {
        let mut credits: BTreeMap<AccountId, Vec<Credit>> = BTreeMap::new();
        for credit in self.credits(accounts).await? {
            credits.entry(credit.account.clone()).or_default().push(credit);
        }
        let owners: BTreeSet<AccountId> = credits.keys().cloned().collect();
        let mut books: BTreeMap<AccountId, CreditBook> =
            credits.into_iter().map(|(account, credits)| (account, CreditBook::new(credits))).collect();
        for ((account, _), draw) in all(self.fetch_rows(&DRAWS, &account_rows(&owners), &[]).await?, draw)? {
            if let Some(book) = books.get_mut(&account) {
                book.note(&[draw])?;
            }
        }
        Ok(books)
    }

    /// An account's credits by id after `after`, at most `limit`, each with what final invoices drew on it.
    pub async fn list_credits(
        &mut self,
        of: &AccountId,
        after: Option<&str>,
        limit: i64,
    ) -> Answer<Vec<(Credit, Micros)>> {
        let values = [Value::text(of.as_str()), Value::text(after.unwrap_or_default()), Value::int(limit)];
        all(self.fetch(&LIST, &values).await?, |row| Ok((credit(row)?, row.micros()?)))
    }

    /// What an account's invoices of the months before one drew, in order.
    pub async fn credit_draws_before(&mut self, account: &AccountId, month: Month) -> Answer<Vec<CreditDraw>> {
        let values = [Value::text(account.as_str()), Value::int(month.index())];
        let found = all(self.fetch(&DRAWS_BEFORE, &values).await?, draw)?;
        Ok(found.into_iter().map(|(_, draw)| draw).collect())
    }

    /// What invoices drew, in order.
    pub(super) async fn draws_of_invoices(
        &mut self,
        invoices: &Rows<'_>,
    ) -> Answer<BTreeMap<(AccountId, Month), Vec<CreditDraw>>> {
        let mut draws: BTreeMap<(AccountId, Month), Vec<CreditDraw>> = BTreeMap::new();
        for (of, draw) in all(self.fetch_rows(&DRAWS_OF_INVOICES, invoices, &[]).await?, draw)? {
            draws.entry(of).or_default().push(draw);
        }
        Ok(draws)
    }

    /// Adds what invoices draw, before the invoices.
    pub(super) async fn add_credit_draws(&mut self, invoices: &[Invoice]) -> Answer<()> {
        let mut rows = Rows::default();
        for invoice in invoices {
            for (seq, draw) in invoice.draws.iter().enumerate() {
                let seq = i64::try_from(seq).map_err(|_| StoreError::Overflow)?;
                rows.text(invoice.account.as_str()).int(invoice.month.index()).int(seq).int(draw.day.index());
                rows.text(draw.credit.as_str()).int(draw.amount.count());
                rows.end();
            }
        }
        self.write(&ADD_DRAWS, &rows).await.map(drop)
    }

    /// Adds credits.
    pub(super) async fn save_credits(&mut self, changes: &Changes) -> Answer<()> {
        let rows = Rows::of(changes.credits.values(), |rows, credit| {
            rows.text(credit.account.as_str()).text(GrantId::as_str(&credit.id)).int(credit.granted.count());
            rows.int(credit.starts_on.index()).opt_int(credit.expires_on.map(Day::index)).text(&credit.note);
            rows.int(credit.created_at.ms());
        });
        self.write(&ADD, &rows).await.map(drop)
    }
}
