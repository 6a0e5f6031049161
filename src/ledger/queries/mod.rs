//! Reads: each from one snapshot, priced by the cards of each day, adding up, and changing nothing.
//!
//! What is due to settle counts as settled, whether or not a sweep has run: reads subtract such holds.

mod balance;
pub mod bill;
mod costs;
pub mod invoices;
mod leases;
mod report;
mod sandboxes;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::batch::told;
use super::command::{CommandError, Page, Principal, Role, Token};
use super::view::{CardsInForce, GrantView, Listed};
use super::{Answer, Ledger};
use crate::domain::cost::Priced;
use crate::domain::customer::{Account, Key};
use crate::domain::id::{AccountId, KeyId};
use crate::domain::lease::HourTotals;
use crate::domain::rate_card::{PriceBook, RateCardEntry};
use crate::domain::time::Day;
use crate::domain::void::Void;
use crate::store::shapes::{TokenRecord, TokenRole};
use crate::store::{StoreError, Tx};

/// Cuts a list that was asked for one more row than wanted, and says where the next page begins.
pub(super) fn listed<T>(mut items: Vec<T>, limit: i64, key: impl Fn(&T) -> String) -> Listed<T> {
    let limit = usize::try_from(limit).unwrap_or(0);
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(key);
    Listed { items, next }
}

/// One row more than a page has, to know whether there is a next one.
pub(super) fn one_more(page: &Page) -> i64 {
    page.limit.saturating_add(1)
}

/// Prices a day's usage: all of it at list, and what is to be paid.
fn priced(book: &PriceBook, day: Day, totals: HourTotals) -> Result<Priced, StoreError> {
    Ok(Priced { usage: totals.usage, list: book.price(day, totals.usage)?, net: book.price(day, totals.net()?)? })
}

impl Ledger {
    pub(super) async fn snapshot(&self) -> Answer<Tx> {
        self.engine.store.read().await.map_err(told)
    }

    /// A snapshot for lists, costs and balances: of the read replica, where there is one.
    async fn report(&self) -> Answer<Tx> {
        self.engine.store.read_reports().await.map_err(told)
    }

    /// A snapshot for a report of what belongs to an account; not found when there is none of that id.
    pub(super) async fn snapshot_of(&self, account: &AccountId) -> Answer<Tx> {
        let mut tx = self.report().await?;
        match tx.accounts(&[account.clone()].into()).await.map_err(told)?.pop() {
            Some(_) => Ok(tx),
            None => Err(CommandError::NotFound("account")),
        }
    }

    /// The price book of an account.
    pub(super) async fn book(&self, tx: &mut Tx, account: &AccountId) -> Result<Arc<PriceBook>, StoreError> {
        let entries = tx.rate_card_entries(&[account.clone()].into()).await?;
        Ok(Arc::new(PriceBook::new(self.engine.rules.list.clone(), account, &entries)))
    }

    /// Whether the store answers, and there is somebody to take commands.
    pub async fn ready(&self) -> Answer<()> {
        if self.has_failed() {
            let why = "a worker of the ledger failed, see the log: start runtab again";
            return Err(CommandError::Unavailable(why.to_owned()));
        }
        self.engine.store.ready().await.map_err(told)
    }

    /// Whose secret has this SHA-256; `None` for nobody's, a revoked one's too.
    pub async fn authenticate(&self, sha256: [u8; 32]) -> Answer<Option<Principal>> {
        self.callers.ask(sha256).await
    }

    /// Accounts by id.
    pub async fn accounts(&self, page: Page) -> Answer<Listed<Account>> {
        let mut tx = self.report().await?;
        let found = tx.list_accounts(page.after.as_deref(), one_more(&page)).await.map_err(told)?;
        Ok(listed(found, page.limit, |account| account.id.to_string()))
    }

    /// One account.
    pub async fn account(&self, id: &AccountId) -> Answer<Option<Account>> {
        let mut tx = self.snapshot().await?;
        Ok(tx.accounts(&[id.clone()].into()).await.map_err(told)?.pop())
    }

    /// Keys of an account by id, revoked ones too.
    pub async fn keys(&self, account: &AccountId, page: Page) -> Answer<Listed<Key>> {
        let mut tx = self.snapshot_of(account).await?;
        let found = tx.list_keys(account, page.after.as_deref(), one_more(&page)).await.map_err(told)?;
        Ok(listed(found, page.limit, |key| key.id.to_string()))
    }

    /// One key.
    pub async fn key(&self, account: &AccountId, key: &KeyId) -> Answer<Option<Key>> {
        let mut tx = self.snapshot().await?;
        Ok(tx.keys(&[(account.clone(), key.clone())].into()).await.map_err(told)?.pop())
    }

    /// Grants of an account by id, of free time and of credit.
    pub async fn grants(&self, account: &AccountId, page: Page) -> Answer<Listed<GrantView>> {
        let mut tx = self.snapshot_of(account).await?;
        let (after, limit) = (page.after.as_deref(), one_more(&page));
        let hours = tx.list_grants(account, after, limit).await.map_err(told)?;
        let credits = tx.list_credits(account, after, limit).await.map_err(told)?;
        let credits = credits.into_iter().map(|(credit, drawn)| GrantView::Credit(credit, drawn));
        let mut found: Vec<GrantView> = hours.into_iter().map(GrantView::Time).chain(credits).collect();
        found.sort_by(|left, right| left.id().cmp(right.id()));
        Ok(listed(found, page.limit, |grant| grant.id().to_string()))
    }

    /// Voided samples of an account, by the void's id.
    pub async fn voids(&self, account: &AccountId, page: Page) -> Answer<Listed<Void>> {
        let mut tx = self.snapshot_of(account).await?;
        let found = tx.list_voids(account, page.after.as_deref(), one_more(&page)).await.map_err(told)?;
        Ok(listed(found, page.limit, |void| void.id.to_string()))
    }

    /// Rate cards: the default ones by day, then those of accounts. The first is `list`, which is in the settings.
    pub async fn rate_cards(&self, page: Page) -> Answer<Listed<RateCardEntry>> {
        let mut tx = self.report().await?;
        let after = page.after.as_deref().and_then(|text| text.rsplit_once('/'));
        let after =
            after.and_then(|(scope, day)| Some((AccountId::parse(scope).ok(), Day::from_index(day.parse().ok()?)?)));
        let mut found = Vec::new();
        if page.after.is_none() {
            found.push(self.first_entry());
        }
        found.extend(
            tx.list_rate_cards(after.as_ref().map(|(scope, day)| (scope.as_ref(), *day)), one_more(&page))
                .await
                .map_err(told)?,
        );
        Ok(listed(found, page.limit, |entry| {
            let scope = entry.account.as_ref().map_or("", |account| account.as_str());
            format!("{scope}/{}", entry.effective_on.index())
        }))
    }

    /// The first default card, as an entry: it holds from the beginning of time.
    fn first_entry(&self) -> RateCardEntry {
        RateCardEntry {
            account: None,
            effective_on: crate::domain::time::Timestamp::EPOCH.day(),
            card: Some(self.engine.rules.list.clone()),
            created_at: crate::domain::time::Timestamp::EPOCH,
        }
    }

    /// Today's card of an account, and what comes.
    pub async fn cards_in_force(&self, account: &AccountId) -> Answer<CardsInForce> {
        let mut tx = self.snapshot_of(account).await?;
        let today = self.engine.clock.now().day();
        let entries = tx.rate_card_entries(&[account.clone()].into()).await.map_err(told)?;
        let book = PriceBook::new(self.engine.rules.list.clone(), account, &entries);
        let mut coming: Vec<RateCardEntry> = entries.into_iter().filter(|entry| entry.effective_on > today).collect();
        coming.sort_by(|left, right| (left.effective_on, &left.account).cmp(&(right.effective_on, &right.account)));
        Ok(CardsInForce { card: book.on(today).clone(), coming })
    }

    /// Operator tokens by id.
    pub async fn tokens(&self, page: Page) -> Answer<Listed<Token>> {
        let mut tx = self.snapshot().await?;
        let found = tx.list_tokens(page.after.as_deref(), one_more(&page)).await.map_err(told)?;
        let token = |record: TokenRecord| Token {
            id: record.id,
            role: match record.role {
                TokenRole::Admin => Role::Admin,
                TokenRole::ControlPlane => Role::ControlPlane,
                TokenRole::Host(host) => Role::Host(host),
            },
            name: record.name,
            created_at: record.created_at,
        };
        Ok(listed(found.into_iter().map(token).collect(), page.limit, |token| token.id.to_string()))
    }

    /// The accounts of rows, for loading their prices.
    async fn books(
        &self,
        tx: &mut Tx,
        accounts: &BTreeSet<AccountId>,
    ) -> Result<std::collections::BTreeMap<AccountId, PriceBook>, StoreError> {
        let entries = tx.rate_card_entries(accounts).await?;
        let list = &self.engine.rules.list;
        Ok(accounts.iter().map(|id| (id.clone(), PriceBook::new(list.clone(), id, &entries))).collect())
    }
}
