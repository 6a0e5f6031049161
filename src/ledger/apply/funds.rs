//! What the gate reads of an account without a card: unmetered time, what its leases hold, and usage not billed yet.

use std::collections::BTreeMap;

use super::super::working_set::WorkingSet;
use super::Applied;
use crate::domain::Overflow;
use crate::domain::funds::Running;
use crate::domain::id::{AccountId, KeyId, LeaseId};
use crate::domain::lease::Lease;
use crate::domain::limits::DayTotals;
use crate::domain::money::Cost;
use crate::domain::time::Day;
use crate::domain::usage::Usage;

impl WorkingSet {
    /// Unmetered time of all leases of an account, by day; what an end has posted has drawn its free time already.
    pub(super) fn unmetered_ms(
        &self,
        account: &AccountId,
        ended: &BTreeMap<&LeaseId, &Lease>,
    ) -> Applied<BTreeMap<Day, i64>> {
        let mut days: BTreeMap<Day, i64> = BTreeMap::new();
        for ((owner, id), lease) in &self.leases {
            let lease = ended.get(id).copied().unwrap_or(lease);
            if owner == account && !lease.is_settled(self.now) {
                for (day, part) in lease.unposted().by_day() {
                    let sum = days.entry(day).or_default();
                    *sum = sum.checked_add(part.length_ms()).ok_or(Overflow)?;
                }
            }
        }
        Ok(days)
    }

    /// Leases of an account that are not settled, as ends of this request leave them.
    pub(super) fn unsettled(&self, account: &AccountId, ended: &BTreeMap<&LeaseId, &Lease>) -> Applied<Vec<Running>> {
        let prices = self.prices(account);
        let mut found = Vec::new();
        for ((owner, id), lease) in &self.leases {
            let lease = ended.get(id).copied().unwrap_or(lease);
            if owner == account && !lease.is_settled(self.now) {
                let unposted = lease.unposted().by_day().map(|(day, part)| (day, part.length_ms()));
                let held = lease.hold(&prices)?;
                found.push(Running { shape: lease.shape, held, unposted_ms: unposted.collect() });
            }
        }
        Ok(found)
    }

    /// The net cost by day of usage that no final invoice has billed: as loaded, what this batch has added, and what
    /// ends of this request add.
    pub(super) fn unbilled_costs(
        &self,
        account: &AccountId,
        given: &BTreeMap<(KeyId, Day), DayTotals>,
    ) -> Applied<BTreeMap<Day, Cost>> {
        let mut days: BTreeMap<Day, Usage> = self.unbilled.get(account).cloned().unwrap_or_default();
        let added = self.changes.key_days.iter().filter(|((owner, _, _), _)| owner == account);
        let added = added.map(|((_, _, day), totals)| (*day, totals.used));
        for (day, used) in added.chain(given.iter().map(|((_, day), totals)| (*day, totals.used))) {
            let sum = days.entry(day).or_default();
            *sum = sum.plus(used)?;
        }
        let prices = self.prices(account);
        Ok(days.into_iter().map(|(day, used)| Ok((day, prices.price(day, used)?))).collect::<Result<_, Overflow>>()?)
    }
}
