//! Rate cards, and which one holds for an account on a UTC day.
//!
//! A card takes effect at 00:00 UTC of a day and holds until the next one, so every day has exactly one price per
//! account. An account's own card wins over the default one, until an entry returns the account to the default
//! (DESIGN.md section 2).

use std::collections::BTreeMap;

use super::checked::Overflow;
use super::id::{AccountId, RateCardId};
use super::money::{Cost, PriceMicros};
use super::time::{Day, Timestamp};
use super::units::Millicores;
use super::usage::Usage;

/// A card may be added or removed up to this long before its day, in milliseconds: one hour.
pub const CHANGE_LEAD_MS: i64 = 3_600_000;

/// Prices and the CPU floor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateCard {
    /// Its id.
    pub id: RateCardId,
    /// Per vCPU-hour.
    pub cpu: PriceMicros,
    /// Per GiB-hour of memory.
    pub memory: PriceMicros,
    /// Per GiB-hour of storage.
    pub storage: PriceMicros,
    /// What a running sandbox's CPU costs at least, by the minute.
    pub floor: Millicores,
}

impl RateCard {
    /// The exact cost of a usage at these prices: CPU as billed, memory and storage.
    pub fn price(&self, usage: Usage) -> Result<Cost, Overflow> {
        let cpu = self.cpu.of_cpu(usage.cpu_us)?;
        cpu.plus(self.memory.of_bytes(usage.memory_mib_ms)?)?.plus(self.storage.of_bytes(usage.storage_mib_ms)?)
    }
}

/// From a day on, a scope (all accounts, or one) is billed by a card, or (one account only) by the default again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateCardEntry {
    /// `None`: the default for all accounts.
    pub account: Option<AccountId>,
    /// The first day.
    pub effective_on: Day,
    /// `None`: back to the default; only with an account.
    pub card: Option<RateCard>,
    /// When it was added.
    pub created_at: Timestamp,
}

impl RateCardEntry {
    /// Whether it can still be added or removed: `now` is at least an hour before its day.
    #[must_use]
    pub fn can_change(&self, now: Timestamp) -> bool {
        self.effective_on.start().since(now) >= CHANGE_LEAD_MS
    }
}

/// The prices of one account by day.
#[derive(Clone, Debug)]
pub struct PriceBook {
    fallback: RateCard,
    default: BTreeMap<Day, RateCard>,
    own: BTreeMap<Day, Option<RateCard>>,
}

impl PriceBook {
    /// The book of `account` from all entries of the default scope and of that account (others are passed over).
    /// `list` holds where no default entry does: the first default card, in effect from the beginning of time.
    #[must_use]
    pub fn new(list: RateCard, account: &AccountId, entries: &[RateCardEntry]) -> Self {
        let mut book = Self { fallback: list, default: BTreeMap::new(), own: BTreeMap::new() };
        for entry in entries {
            match (&entry.account, &entry.card) {
                (None, Some(card)) => drop(book.default.insert(entry.effective_on, card.clone())),
                (Some(owner), card) if owner == account => drop(book.own.insert(entry.effective_on, card.clone())),
                (None, None) | (Some(_), _) => {}
            }
        }
        book
    }

    /// The card that holds on a day.
    #[must_use]
    pub fn on(&self, day: Day) -> &RateCard {
        let own = self.own.range(..=day).next_back().and_then(|(_, card)| card.as_ref());
        let default = || self.default.range(..=day).next_back().map(|(_, card)| card);
        own.or_else(default).unwrap_or(&self.fallback)
    }

    /// The exact cost of a usage on a day.
    pub fn price(&self, day: Day, usage: Usage) -> Result<Cost, Overflow> {
        self.on(day).price(usage)
    }
}
