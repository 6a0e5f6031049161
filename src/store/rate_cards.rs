//! Rate cards by scope and day. The default scope is kept as empty text, so that one key serves both.

use std::collections::BTreeSet;

use crate::domain::id::{AccountId, RateCardId};
use crate::domain::money::PriceMicros;
use crate::domain::rate_card::{RateCard, RateCardEntry};
use crate::domain::units::Millicores;

use super::changes::Changes;
use super::dialect::Row;
use super::read::known;
use super::statement::Statement;
use super::{Answer, Rows, Tx, all};

/// The scope of cards that hold for all accounts.
pub(super) const DEFAULT_SCOPE: &str = "";

macro_rules! card_columns {
    () => {
        "c.scope, c.effective_on, c.card_id, c.cpu_micros, c.memory_micros, c.storage_micros, c.floor_millicores,
        c.created_at"
    };
}
pub(super) use card_columns;

static ENTRIES: Statement = Statement::new(
    "rate card entries",
    concat!(
        "SELECT ",
        card_columns!(),
        " FROM {rows scope text} {each rate_cards c: c.scope = r.scope} ORDER BY r.ord, c.effective_on"
    ),
);
static BY_ID: Statement = Statement::new(
    "rate cards by id",
    concat!(
        "SELECT ",
        card_columns!(),
        " FROM {rows card_id text} {each rate_cards c: c.card_id = r.card_id} ORDER BY r.ord"
    ),
);
static ADD: Statement = Statement::new(
    "add rate cards",
    "INSERT INTO rate_cards ({columns}) SELECT {r.columns} FROM {rows scope text, effective_on int | card_id text,
        cpu_micros int, memory_micros int, storage_micros int, floor_millicores int, created_at int}
    WHERE true",
);
static REMOVE: Statement = Statement::new(
    "remove rate cards",
    "DELETE FROM rate_cards WHERE card_id IN (SELECT r.card_id FROM {rows card_id text})",
);
pub(super) static STATEMENTS: &[&Statement] = &[&ENTRIES, &BY_ID, &ADD, &REMOVE];

/// Reads what `card_columns` name.
pub(super) fn entry(row: &mut Row) -> Answer<RateCardEntry> {
    let account = row.key_id()?;
    let effective_on = row.day()?;
    let id: Option<RateCardId> = row.opt_id()?;
    let [cpu, memory, storage, floor] = [row.opt_int()?, row.opt_int()?, row.opt_int()?, row.opt_int()?];
    let created_at = row.time()?;
    let price = |micros: Option<i64>| known(micros.and_then(PriceMicros::new), "a price");
    let card = id.map(|id| -> Answer<RateCard> {
        Ok(RateCard {
            id,
            cpu: price(cpu)?,
            memory: price(memory)?,
            storage: price(storage)?,
            floor: known(floor.and_then(Millicores::new), "a CPU floor")?,
        })
    });
    Ok(RateCardEntry { account, effective_on, card: card.transpose()?, created_at })
}

/// The default scope and those of accounts as a row source.
pub(super) fn scope_rows(accounts: &BTreeSet<AccountId>) -> Rows<'_> {
    let scopes = [DEFAULT_SCOPE].into_iter().chain(accounts.iter().map(AccountId::as_str));
    Rows::of(scopes, |rows, scope| {
        rows.text(scope);
    })
}

impl Tx {
    /// All default entries and those of the accounts, by scope (the default first), then day.
    pub async fn rate_card_entries(&mut self, accounts: &BTreeSet<AccountId>) -> Answer<Vec<RateCardEntry>> {
        all(self.fetch_rows(&ENTRIES, &scope_rows(accounts), &[]).await?, entry)
    }

    /// Entries that bring these cards.
    pub async fn rate_cards_by_id(&mut self, ids: &BTreeSet<RateCardId>) -> Answer<Vec<RateCardEntry>> {
        let rows = Rows::of(ids, |rows, id| {
            rows.text(id.as_str());
        });
        all(self.fetch_rows(&BY_ID, &rows, &[]).await?, entry)
    }

    /// Removes and adds entries.
    pub(super) async fn save_rate_cards(&mut self, changes: &Changes) -> Answer<()> {
        let removed = Rows::of(&changes.rate_cards_removed, |rows, id| {
            rows.text(id.as_str());
        });
        self.write(&REMOVE, &removed).await?;
        let added = Rows::of(&changes.rate_cards_added, |rows, entry| {
            let card = entry.card.as_ref();
            rows.text(entry.account.as_ref().map_or(DEFAULT_SCOPE, AccountId::as_str)).int(entry.effective_on.index());
            rows.opt_text(card.map(|card| card.id.as_str()));
            rows.opt_int(card.map(|card| card.cpu.micros_per_hour()));
            rows.opt_int(card.map(|card| card.memory.micros_per_hour()));
            rows.opt_int(card.map(|card| card.storage.micros_per_hour()));
            rows.opt_int(card.map(|card| card.floor.count())).int(entry.created_at.ms());
        });
        self.write(&ADD, &added).await.map(drop)
    }
}
