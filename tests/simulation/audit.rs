//! Checkpoints: every view of the ledger against the auditor's model, and the promise.

use runtab::domain::lease::LeaseState;
use runtab::domain::money::Micros;
use runtab::ledger::command::Page;
use runtab::ledger::view::{DayBalance, GrantView, Granularity, GroupBy, LeaseFilter, SandboxState};

use crate::driver::{Driver, Kind};
use crate::model::days::Day;
use crate::model::{Account, DAY, HOUR, Lease, MICRO, SETTLE_AFTER, ceil, floor};
use crate::send;
use crate::tables::Sum;

const GROUPS: [GroupBy; 5] = [GroupBy::None, GroupBy::Sandbox, GroupBy::Lease, GroupBy::Key, GroupBy::Resource];

impl Driver {
    /// Checks everything of one account, and the promise of all.
    pub(crate) async fn check(&mut self) {
        for owner in self.accounts.keys().cloned().collect::<Vec<_>>() {
            self.check_promise(&owner);
            self.check_balance(&owner).await;
            self.check_grants(&owner).await;
            self.check_leases(&owner).await;
            self.check_sandboxes(&owner).await;
            self.check_costs(&owner).await;
        }
    }

    async fn check_costs(&mut self, owner: &str) {
        let from = (self.began - 3 * HOUR) / HOUR * HOUR;
        let to = (self.now / HOUR + 2) * HOUR;
        let group = *self.rng.pick(&GROUPS).unwrap();
        self.check_table(owner, (from, to), Granularity::Hour, group).await;
        let group = *self.rng.pick(&GROUPS).unwrap();
        self.check_table(owner, (from, to), Granularity::Total, group).await;
        let (first, last) = (from / DAY * DAY, (to / DAY + 1) * DAY);
        let granularity = if self.rng.chance(50) { Granularity::Day } else { Granularity::Month };
        let group = *self.rng.pick(&GROUPS).unwrap();
        self.check_table(owner, (first, last), granularity, group).await;
        // A range that is split anywhere: both parts are the auditor's, so they sum to the whole.
        let cut = from + HOUR * self.rng.within(1, (to - from) / HOUR - 1);
        self.check_table(owner, (from, cut), Granularity::Month, GroupBy::None).await;
        self.check_table(owner, (cut, to), Granularity::Month, GroupBy::Lease).await;
    }

    /// No limit is ever passed by what came in order and in time at the cards known at admission.
    fn check_promise(&self, owner: &str) {
        let account = &self.accounts[owner];
        let held = |day: i64| account.repriced_from.is_none_or(|from| day < from);
        let promised = account.promised();
        let mut sums = std::collections::BTreeMap::new();
        for ((id, day), cost) in promised.iter().filter(|((_, day), _)| held(*day)) {
            *sums.entry(*day).or_insert(0) += cost;
            let key = &account.keys[id];
            if let Some(limit) = key.limit.filter(|_| !key.limit_was_changed) {
                assert!(*cost <= i128::from(limit) * MICRO, "{owner} {id} {day}: {} of {limit}", ceil(*cost));
            }
        }
        for (day, cost) in sums {
            if let Some(limit) = account.limit.filter(|_| !account.limit_was_changed) {
                assert!(cost <= i128::from(limit) * MICRO, "{owner} {day}: {} of {limit}", ceil(cost));
            }
        }
        if self.kind == Kind::Orderly {
            self.check_orderly(account);
        }
    }

    /// Without corrections the compute that is used on a day is the promised, to the unit.
    fn check_orderly(&self, account: &Account) {
        let mut promised = account.promised();
        for ((key, day), (used, _)) in account.key_days() {
            if account.repriced_from.is_some_and(|from| from <= day) {
                promised.remove(&(key, day));
                continue;
            }
            let compute = runtab::domain::usage::Usage { storage_mib_ms: 0, ..used };
            assert_eq!(promised.remove(&(key, day)).unwrap_or(0), account.price(day, compute));
        }
        assert!(promised.values().all(|cost| *cost == 0), "{promised:?} at {}", self.now);
    }

    async fn check_balance(&self, owner: &str) {
        let account = &self.accounts[owner];
        let balance = self.ledger.balance(&send::account(owner)).await.unwrap().unwrap();
        let today = self.now / DAY;
        let days = account.key_days();
        for shown in &balance.keys {
            let id = shown.key.as_ref().unwrap().to_string();
            let day = days.get(&(id.clone(), today)).copied().unwrap_or_default();
            self.say(|| format!("balance {owner} {id} {day:?}"));
            assert_day(account, shown, today, day, account.keys[&id].limit);
        }
        assert_eq!(
            balance.keys.len(),
            account
                .keys
                .iter()
                .filter(|(id, key)| {
                    !key.revoked || balance.keys.iter().any(|shown| shown.key.as_ref().unwrap().as_str() == *id)
                })
                .count()
        );
        let all = Account::account_days(&days).get(&today).copied().unwrap_or_default();
        assert_day(account, &balance.account_day, today, all, account.limit);
        let month = send::ts(self.now).month();
        let mut sum = Sum::default();
        for row in account.rows().iter().filter(|row| send::ts(row.hour * HOUR).month() == month) {
            let part = account.sum_of(row);
            sum = Sum { usage: sum.usage, list: sum.list + part.list, net: sum.net + part.net };
        }
        sum.assert_shown(balance.amounts);
        let granted: i64 = account.grants.iter().map(|grant| grant.granted).sum();
        let used: i64 = account.grants.iter().map(|grant| grant.used).sum();
        let lapsed = account.grants.iter().filter(|grant| grant.expires.is_some_and(|end| end <= today));
        let expired: i64 = lapsed.map(|grant| grant.granted - grant.used).sum();
        let free = balance.free;
        let shown = (free.granted_ms, free.used_ms, free.expired_ms, free.remaining_ms);
        assert_eq!(shown, (granted, used, expired, granted - used - expired));
    }

    async fn check_grants(&self, owner: &str) {
        let account = &self.accounts[owner];
        let page = Page { after: None, limit: 1_000 };
        let shown = self.ledger.grants(&send::account(owner), page).await.unwrap().items;
        assert_eq!(shown.len(), account.grants.len());
        for grant in shown {
            let GrantView::Time(grant) = grant else { panic!("nobody grants credit here") };
            let known = account.grants.iter().find(|known| known.id == grant.id.as_str()).unwrap();
            assert_eq!((grant.used_ms, grant.granted_ms), (known.used, known.granted), "{owner} {}", known.id);
            assert!((0..=known.granted).contains(&known.used));
            let mut drawn = 0;
            for lease in account.leases.values() {
                for (hour, posted) in &lease.posted {
                    assert_eq!(posted.free_ms, posted.draws.iter().map(|(_, ms)| ms).sum::<i64>());
                    for (_, ms) in posted.draws.iter().filter(|(id, ms)| *id == known.id && *ms > 0) {
                        let day = hour * HOUR / DAY;
                        assert!(known.starts <= day && known.expires.is_none_or(|end| day < end));
                        drawn += ms;
                    }
                }
            }
            assert_eq!(drawn, known.used, "{owner} {}", known.id);
        }
    }

    async fn check_leases(&self, owner: &str) {
        let account = &self.accounts[owner];
        let page = Page { after: None, limit: 1_000 };
        let shown = self.ledger.leases(&send::account(owner), LeaseFilter::default(), page).await.unwrap().items;
        assert_eq!(shown.len(), account.leases.len());
        for view in shown {
            let known = &account.leases[view.lease.id.as_str()];
            assert_eq!(view.lease.effective_end().ms(), known.effective_end(), "{}", known.id);
            assert_eq!(view.lease.window.end.ms(), known.granted_end);
            assert_eq!(view.lease.host.as_ref().map(ToString::to_string), known.host);
            assert_eq!(view.lease.meter.last.map(|last| last.at.ms()), known.samples.keys().next_back().copied());
            assert_eq!(view.state, state(known, self.now), "{}", known.id);
            let mut sum = Sum::default();
            for row in account.rows().iter().filter(|row| row.lease.as_deref() == Some(&known.id)) {
                let part = account.sum_of(row);
                let usage = crate::model::plus(sum.usage, part.usage);
                sum = Sum { usage, list: sum.list + part.list, net: sum.net + part.net };
            }
            assert_eq!(view.usage, sum.usage, "{owner} {}", known.id);
            sum.assert_shown(view.amounts);
        }
    }

    async fn check_sandboxes(&self, owner: &str) {
        let account = &self.accounts[owner];
        let page = Page { after: None, limit: 1_000 };
        let shown = self.ledger.sandboxes(&send::account(owner), page).await.unwrap().items;
        assert_eq!(shown.len(), account.sandboxes.len());
        let month = send::ts(self.now).month();
        for view in shown {
            let lives = &account.sandboxes[view.id.as_str()];
            let newest = lives.last().unwrap();
            if newest.deleted_at.is_none() {
                assert_eq!(view.storage_mib, newest.disk(), "{owner} {}", view.id);
            }
            assert_eq!(view.deleted_at.map(runtab::domain::time::Timestamp::ms), newest.deleted_at);
            assert_eq!(view.key.as_str(), newest.key());
            assert_eq!(view.state == SandboxState::Deleted, newest.deleted_at.is_some_and(|at| at <= self.now));
            let mut usage = runtab::domain::usage::Usage::ZERO;
            for row in account.rows() {
                let of_life = row.sandbox == view.id.as_str() && row.life == lives.len() - 1;
                if of_life && send::ts(row.hour * HOUR).month() == month {
                    usage = crate::model::plus(usage, row.usage);
                }
            }
            assert_eq!(view.month_usage, usage, "{owner} {}", view.id);
        }
    }
}

fn state(lease: &Lease, now: i64) -> LeaseState {
    if lease.settled || now >= lease.effective_end() + SETTLE_AFTER {
        LeaseState::Settled
    } else if lease.end.is_some() || now >= lease.granted_end {
        LeaseState::Ended
    } else {
        LeaseState::Running
    }
}

fn assert_day(account: &Account, shown: &DayBalance, today: i64, (used, held): Day, limit: Option<i64>) {
    let (used, held) = (account.price(today, used), account.price(today, held));
    let figures = (shown.used.count(), shown.reserved.count(), shown.available.map(Micros::count));
    let left = limit.map(|limit| floor(i128::from(limit) * MICRO - used - held).max(0));
    assert_eq!(figures, (floor(used), ceil(held), left), "{:?}", shown.key);
    assert_eq!(shown.daily_limit.map(Micros::count), limit);
}
