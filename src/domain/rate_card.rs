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
    default: BTreeMap<Day, (Timestamp, RateCard)>,
    own: BTreeMap<Day, (Timestamp, Option<RateCard>)>,
    /// When the latest of the entries was added.
    changed_at: Option<Timestamp>,
}

impl PriceBook {
    /// The book of `account` from all entries of the default scope and of that account (others are passed over).
    /// `list` holds where no default entry does: the first default card, in effect from the beginning of time.
    #[must_use]
    pub fn new(list: RateCard, account: &AccountId, entries: &[RateCardEntry]) -> Self {
        let mut book = Self { fallback: list, default: BTreeMap::new(), own: BTreeMap::new(), changed_at: None };
        for entry in entries {
            let (day, added) = (entry.effective_on, entry.created_at);
            match (&entry.account, &entry.card) {
                (None, Some(card)) => drop(book.default.insert(day, (added, card.clone()))),
                (Some(owner), card) if owner == account => drop(book.own.insert(day, (added, card.clone()))),
                (None, None) | (Some(_), _) => continue,
            }
            book.changed_at = book.changed_at.max(Some(added));
        }
        book
    }

    /// The card that holds on a day.
    #[must_use]
    pub fn on(&self, day: Day) -> &RateCard {
        let own = self.own.range(..=day).next_back().and_then(|(_, (_, card))| card.as_ref());
        let default = || self.default.range(..=day).next_back().map(|(_, (_, card))| card);
        own.or_else(default).unwrap_or(&self.fallback)
    }

    /// The card that would hold on a day if none had been added after `at`.
    fn on_as_known(&self, day: Day, at: Timestamp) -> &RateCard {
        let known = |added: Timestamp| added <= at;
        let own = self.own.range(..=day).rev().find(|(_, (added, _))| known(*added));
        let default =
            || self.default.range(..=day).rev().find(|(_, (added, _))| known(*added)).map(|(_, (_, card))| card);
        own.and_then(|(_, (_, card))| card.as_ref()).or_else(default).unwrap_or(&self.fallback)
    }

    /// What cards that were added after `at` add to the cost of a usage on a day; zero when they make it cheaper. The
    /// floor that the usage was metered with is the day's own.
    pub fn repriced(&self, day: Day, usage: Usage, at: Timestamp) -> Result<Cost, Overflow> {
        if self.changed_at <= Some(at) {
            return Ok(Cost::ZERO);
        }
        let more = self.price(day, usage)?.minus(self.on_as_known(day, at).price(usage)?)?;
        Ok(more.max(Cost::ZERO))
    }

    /// The exact cost of a usage on a day.
    pub fn price(&self, day: Day, usage: Usage) -> Result<Cost, Overflow> {
        self.on(day).price(usage)
    }
}

#[cfg(test)]
mod tests {
    use super::{PriceBook, RateCard, RateCardEntry};
    use crate::domain::id::{AccountId, RateCardId};
    use crate::domain::money::{Cost, PriceMicros};
    use crate::domain::time::{Day, Timestamp};
    use crate::domain::units::Millicores;
    use crate::domain::usage::Usage;

    fn card(id: &str, cpu: i64) -> RateCard {
        let price = |micros| PriceMicros::new(micros).unwrap();
        RateCard {
            id: RateCardId::parse(id).unwrap(),
            cpu: price(cpu),
            memory: price(0),
            storage: price(0),
            floor: Millicores::new(50).unwrap(),
        }
    }

    #[test]
    fn what_a_later_card_adds_is_told() {
        let (day, account) = (Day::from_index(20_000).unwrap(), AccountId::parse("acme").unwrap());
        let at = |ms| Timestamp::from_ms(ms).unwrap();
        let entry = |added, cpu| RateCardEntry {
            account: None,
            effective_on: day,
            card: Some(card("later", cpu)),
            created_at: at(added),
        };
        let hour = Usage { cpu_us: 3_600_000_000, ..Usage::ZERO };
        let added = |entry: RateCardEntry, admitted| {
            let book = PriceBook::new(card("list", 25_000), &account, &[entry]);
            book.repriced(day, hour, at(admitted)).unwrap().floor().unwrap().count()
        };
        assert_eq!(added(entry(1_000, 40_000), 999), 15_000);
        assert_eq!(added(entry(1_000, 40_000), 1_000), 0, "known at admission");
        assert_eq!(added(entry(1_000, 10_000), 999), 0, "cheaper");
        let book = PriceBook::new(card("list", 25_000), &account, &[entry(1_000, 40_000)]);
        let before = Day::from_index(19_999).unwrap();
        assert_eq!(book.repriced(before, hour, at(0)).unwrap(), Cost::ZERO, "before its day");
    }
}
