//! Final invoices and their numbers: written once, in one transaction with the number that they take.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::id::{AccountId, GrantId, RateCardId};
use crate::domain::invoice::{Digests, Invoice, InvoiceNumber, Item, Line, Status, Used};
use crate::domain::money::{Micros, PriceMicros};
use crate::domain::tax::Taxed;
use crate::domain::time::{Day, Month, Timestamp};

use super::customers::account_rows;
use super::dialect::Row;
use super::read::known;
use super::statement::Statement;
use super::{Answer, Rows, StoreError, Tx, Value, all};

static TAKE_TURNS: Statement =
    Statement::new("lock invoice numbers", "UPDATE invoice_numbers SET next_number = next_number WHERE id = 1");
static NEXT: Statement =
    Statement::new("next invoice number", "SELECT n.next_number FROM invoice_numbers n WHERE n.id = 1");
static SET_NEXT: Statement =
    Statement::new("set next invoice number", "UPDATE invoice_numbers SET next_number = {int 1} WHERE id = 1");
static KNOWN: Statement = Statement::new(
    "accounts that have an invoice",
    "SELECT i.account_id FROM {rows account_id text, month int}
    {each invoices i: i.account_id = r.account_id AND i.month = r.month} ORDER BY i.account_id",
);
static COUNT: Statement = Statement::new(
    "count invoices",
    "SELECT COUNT(*) FROM {rows month int} {each invoices i by invoices_by_month: i.month = r.month AND i.number > 0}",
);
/// The latest invoice of each account before a month, for what it carries forward.
static CARRIED: Statement = Statement::new(
    "carried forward",
    "SELECT l.account_id, l.amount_micros FROM {rows account_id text, month int}
    {each invoice_lines l: l.account_id = r.account_id AND l.month = (SELECT i.month FROM invoices i
        WHERE i.account_id = r.account_id AND i.month < r.month ORDER BY i.month DESC LIMIT 1)}
    WHERE l.item = 'carried_forward' ORDER BY l.account_id",
);
static LAST: Statement = Statement::new(
    "last invoices",
    "SELECT i.account_id, i.month FROM {rows account_id text}
    {each invoices i: i.account_id = r.account_id AND i.month = (SELECT n.month FROM invoices n
        WHERE n.account_id = r.account_id ORDER BY n.month DESC LIMIT 1)} ORDER BY i.account_id",
);
macro_rules! columns {
    () => {
        "i.account_id, i.month, i.number, i.name, i.list_micros, i.free_micros, i.credit_micros, i.tax_micros,
        i.total_micros, i.finalized_at, i.evidence_sha256, i.terms_sha256"
    };
}
static ONE: Statement = Statement::new(
    "invoice",
    concat!("SELECT ", columns!(), " FROM invoices i WHERE i.account_id = {text 1} AND i.month = {int 2}"),
);
static LIST: Statement = Statement::new(
    "list invoices",
    concat!(
        "SELECT ",
        columns!(),
        " FROM invoices i WHERE i.account_id = {text 1} AND i.month > {int 2} ORDER BY i.month LIMIT {int 3}"
    ),
);
static LINES: Statement = Statement::new(
    "invoice lines",
    "SELECT l.account_id, l.month, l.item, l.use_month, l.from_day, l.to_day, l.card_id, l.quantity,
        l.quantity_high, l.measured, l.measured_high, l.price_micros, l.credit_id, l.tax_rate_bps, l.tax_base_micros, l.amount_micros
    FROM {rows account_id text, month int}
    {each invoice_lines l: l.account_id = r.account_id AND l.month = r.month} ORDER BY r.ord, l.line",
);
static ADD: Statement = Statement::new(
    "add invoices",
    "INSERT INTO invoices ({columns}) SELECT {r.columns} FROM {rows account_id text, month int | number int, name text,
        list_micros int, free_micros int, credit_micros int, tax_micros int, total_micros int, finalized_at int,
        evidence_sha256 bytes, terms_sha256 bytes} WHERE true",
);
static ADD_LINES: Statement = Statement::new(
    "add invoice lines",
    "INSERT INTO invoice_lines ({columns}) SELECT {r.columns} FROM {rows account_id text, month int, line int |
        item text, use_month int, from_day int, to_day int, card_id text, quantity int,
        quantity_high int, measured int, measured_high int, price_micros int, credit_id text, tax_rate_bps int, tax_base_micros int, amount_micros int} WHERE true",
);
pub(super) static STATEMENTS: &[&Statement] =
    &[&TAKE_TURNS, &NEXT, &SET_NEXT, &KNOWN, &COUNT, &CARRIED, &LAST, &ONE, &LIST, &LINES, &ADD, &ADD_LINES];

fn at_month(accounts: &BTreeSet<AccountId>, month: Month) -> Rows<'_> {
    Rows::of(accounts, |rows, account| {
        rows.text(account.as_str()).int(month.index());
    })
}

fn head(row: &mut Row) -> Answer<Invoice> {
    let (account, month, number, name) = (row.id()?, row.month()?, row.int()?, row.string()?);
    let number = known(InvoiceNumber::new(number), "an invoice's number")?;
    let (list, free, credit, tax) = (row.micros()?, row.micros()?, row.micros()?, row.micros()?);
    let total = row.micros()?;
    let status = Status::Final { number, at: row.time()? };
    let (lines, draws) = (Vec::new(), Vec::new());
    let mut digest = || row.opt_bytes()?.map(|bytes| known(bytes.try_into().ok(), "a digest")).transpose();
    let digests = digest()?.zip(digest()?).map(|(evidence, terms)| Digests { evidence, terms });
    Ok(Invoice { account, name, month, status, lines, draws, list, free, credit, tax, total, digests })
}

fn line(row: &mut Row) -> Answer<((AccountId, Month), Line)> {
    let of = (row.id()?, row.month()?);
    let item = known(Item::of_name(row.text()?), "an invoice's item")?;
    let month = row.opt_int()?.map(|index| known(Month::from_index(index), "a month")).transpose()?;
    let (from, to, card) = (row.opt_day()?, row.opt_day()?, row.opt_id::<RateCardId>()?);
    let (quantity, measured) = (row.opt_wide()?, row.opt_wide()?);
    let price = row.opt_int()?.map(|micros| known(PriceMicros::new(micros), "a price")).transpose()?;
    let used = match (month, from, to, card, quantity) {
        (Some(month), Some(from), Some(to), Some(card), Some(quantity)) => {
            Some(Used { month, from, to, card, quantity, measured, price })
        }
        (None, None, None, None, None) => None,
        (..) => return Err(StoreError::corrupt("an invoice's line")),
    };
    let credit = row.opt_id()?;
    let taxed = match (row.opt_tax_rate()?, row.opt_micros()?) {
        (Some(rate), Some(base)) => Some(Taxed { rate, base }),
        (None, None) => None,
        (..) => return Err(StoreError::corrupt("an invoice's tax line")),
    };
    Ok((of, Line { item, used, credit, taxed, amount: row.micros()? }))
}

fn write_line<'a>(rows: &mut Rows<'a>, invoice: &'a Invoice, place: usize, line: &'a Line) -> Answer<()> {
    let place = i64::try_from(place).map_err(|_| StoreError::Overflow)?;
    rows.text(invoice.account.as_str()).int(invoice.month.index()).int(place).text(line.item.name());
    let used = line.used.as_ref();
    rows.opt_int(used.map(|used| used.month.index()));
    rows.opt_int(used.map(|used| Day::index(used.from))).opt_int(used.map(|used| Day::index(used.to)));
    rows.opt_text(used.map(|used| used.card.as_str()));
    rows.opt_wide(used.map(|used| used.quantity))?.opt_wide(used.and_then(|used| used.measured))?;
    rows.opt_int(used.and_then(|used| used.price).map(PriceMicros::micros_per_hour));
    rows.opt_text(line.credit.as_ref().map(GrantId::as_str));
    rows.opt_int(line.taxed.map(|taxed| taxed.rate.bps())).opt_int(line.taxed.map(|taxed| taxed.base.count()));
    rows.int(line.amount.count());
    Ok(())
}

impl Tx {
    /// Locks the numbers, so that engines take turns, and answers the next one.
    pub async fn lock_invoice_numbers(&mut self) -> Answer<InvoiceNumber> {
        self.execute(&TAKE_TURNS, &[]).await?;
        let found = self.fetch(&NEXT, &[]).await?.into_iter().next();
        let next = found.ok_or_else(|| StoreError::corrupt("no invoice numbers"))?.int()?;
        known(InvoiceNumber::new(next), "an invoice's number")
    }

    /// Which of the accounts have a final invoice of a month.
    pub async fn invoiced(&mut self, accounts: &BTreeSet<AccountId>, month: Month) -> Answer<BTreeSet<AccountId>> {
        let found = self.fetch_rows(&KNOWN, &at_month(accounts, month), &[]).await?;
        Ok(all(found, Row::id)?.into_iter().collect())
    }

    /// How many final invoices a month has.
    pub async fn count_invoices(&mut self, month: Month) -> Answer<i64> {
        let row = Rows::of([month], |rows, month| {
            rows.int(month.index());
        });
        let found = self.fetch_rows(&COUNT, &row, &[]).await?.into_iter().next();
        found.ok_or_else(|| StoreError::corrupt("no count"))?.int()
    }

    /// What each account's latest invoice before a month carries forward, as what the next begins with: below zero.
    pub async fn carried_over(
        &mut self,
        accounts: &BTreeSet<AccountId>,
        month: Month,
    ) -> Answer<BTreeMap<AccountId, Micros>> {
        let found = self.fetch_rows(&CARRIED, &at_month(accounts, month), &[]).await?;
        let read = |row: &mut Row| {
            let account = row.id()?;
            let amount = known(Micros::new(row.int()?), "an amount")?;
            Ok((account, Micros::ZERO.minus(amount)?))
        };
        Ok(all(found, read)?.into_iter().collect())
    }

    /// The month of each account's latest final invoice.
    pub async fn last_invoices(&mut self, accounts: &BTreeSet<AccountId>) -> Answer<BTreeMap<AccountId, Month>> {
        let found = self.fetch_rows(&LAST, &account_rows(accounts), &[]).await?;
        Ok(all(found, |row| Ok((row.id()?, row.month()?)))?.into_iter().collect())
    }

    /// Adds final invoices with their lines and sets the next number; the caller holds the numbers.
    /// [`StoreError::Constraint`] when one is there already.
    pub async fn add_invoices(&mut self, invoices: &[Invoice], next: InvoiceNumber) -> Answer<()> {
        let mut lines = Rows::default();
        for invoice in invoices {
            for (place, line) in invoice.lines.iter().enumerate() {
                write_line(&mut lines, invoice, place, line)?;
                lines.end();
            }
        }
        // The lines and draws first: once the invoice is there, it takes no more.
        self.write(&ADD_LINES, &lines).await?;
        self.add_credit_draws(invoices).await?;
        let heads = Rows::try_of(invoices, |rows, invoice| {
            let Status::Final { number, at } = invoice.status else {
                return Err(StoreError::corrupt("a draft is not kept"));
            };
            rows.text(invoice.account.as_str()).int(invoice.month.index()).int(number.count()).text(&invoice.name);
            rows.int(invoice.list.count()).int(invoice.free.count());
            rows.int(invoice.credit.count()).int(invoice.tax.count()).int(invoice.total.count()).int(Timestamp::ms(at));
            let digests = invoice.digests.as_ref();
            rows.opt_bytes(digests.map(|digests| &digests.evidence[..]));
            rows.opt_bytes(digests.map(|digests| &digests.terms[..]));
            Ok(())
        })?;
        self.write(&ADD, &heads).await?;
        self.execute(&SET_NEXT, &[Value::int(next.count())]).await.map(drop)
    }

    /// An account's final invoice of a month.
    pub async fn invoice(&mut self, account: &AccountId, month: Month) -> Answer<Option<Invoice>> {
        let values = [Value::text(account.as_str()), Value::int(month.index())];
        let heads = all(self.fetch(&ONE, &values).await?, head)?;
        Ok(self.with_lines(heads).await?.pop())
    }

    /// An account's final invoices of the months after `after`, ascending, at most `limit`.
    pub async fn list_invoices(
        &mut self,
        account: &AccountId,
        after: Option<Month>,
        limit: i64,
    ) -> Answer<Vec<Invoice>> {
        let after = after.map_or(-1, Month::index);
        let values = [Value::text(account.as_str()), Value::int(after), Value::int(limit)];
        let heads = all(self.fetch(&LIST, &values).await?, head)?;
        self.with_lines(heads).await
    }

    async fn with_lines(&mut self, mut invoices: Vec<Invoice>) -> Answer<Vec<Invoice>> {
        let rows = Rows::of(&invoices, |rows, invoice| {
            rows.text(invoice.account.as_str()).int(invoice.month.index());
        });
        let mut lines: BTreeMap<(AccountId, Month), Vec<Line>> = BTreeMap::new();
        for (of, line) in all(self.fetch_rows(&LINES, &rows, &[]).await?, line)? {
            lines.entry(of).or_default().push(line);
        }
        let mut draws = self.draws_of_invoices(&rows).await?;
        for invoice in &mut invoices {
            let of = (invoice.account.clone(), invoice.month);
            invoice.draws = draws.remove(&of).unwrap_or_default();
            invoice.lines = lines.remove(&of).unwrap_or_default();
        }
        Ok(invoices)
    }
}
