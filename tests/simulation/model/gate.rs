//! The gate: the same request decided by the rules as they are written.

use std::collections::BTreeMap;

use runtab::domain::usage::Usage;

use super::days::Day;
use super::lives::restored;
use super::post::covered;
use super::usage::worst_by_day;
use super::{Account, COVER, DAY, End, HOUR, Lease, MICRO, MINUTE, SECOND, ceil, floor, plus};

/// One lease that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) id: String,
    pub(crate) sandbox: String,
    pub(crate) vcpus: i64,
    pub(crate) memory: i64,
    pub(crate) timeout: i64,
    pub(crate) max_cost: Option<i64>,
    pub(crate) host: Option<String>,
    pub(crate) starts_at: Option<i64>,
    pub(crate) replaces: Option<String>,
}

/// A window that the gate is asked about.
struct Window<'a> {
    lease: &'a str,
    sandbox: &'a str,
    vcpus: i64,
    memory: i64,
    span: (i64, i64),
    max_cost: Option<i64>,
}

/// What the gate says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Yes; `false`: known already.
    Yes(bool),
    /// A code with nothing more to compare.
    No(&'static str),
    MaxCost {
        lease: String,
        worst: i64,
    },
    CardRequired {
        lease: String,
    },
    FreeHours {
        needed: i64,
        available: i64,
    },
    Limit(Box<Limit>),
}

/// The limit that binds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    pub(crate) of_key: bool,
    pub(crate) lease: String,
    pub(crate) day: i64,
    pub(crate) most: i64,
    pub(crate) used: i64,
    pub(crate) reserved: i64,
    pub(crate) needed: i64,
    pub(crate) available: i64,
    pub(crate) longest_s: i64,
}

/// The limits of a key and its account, with the days under them.
struct Limits<'a> {
    account: &'a Account,
    key: (Option<i64>, BTreeMap<i64, Day>),
    all: (Option<i64>, BTreeMap<i64, Day>),
}

impl Limits<'_> {
    fn of<'a>(account: &'a Account, key: &str) -> Limits<'a> {
        let days = account.key_days();
        let all = Account::account_days(&days);
        let mine = days.into_iter().filter(|((other, _), _)| other == key).map(|((_, day), sum)| (day, sum)).collect();
        Limits { account, key: (account.keys[key].limit, mine), all: (account.limit, all) }
    }

    /// The first day, and on it the first limit (`true`: the key's), that is passed.
    fn passed(&self, new: &BTreeMap<i64, Usage>, earlier: &BTreeMap<i64, Usage>) -> Option<(i64, bool)> {
        for (day, usage) in new {
            let needed = plus(*usage, earlier.get(day).copied().unwrap_or_default());
            for (of_key, (limit, days)) in [(true, &self.key), (false, &self.all)] {
                let (used, held) = days.get(day).copied().unwrap_or_default();
                let cost = self.account.price(*day, plus(plus(used, held), needed));
                if limit.is_some_and(|limit| cost > i128::from(limit) * MICRO) {
                    return Some((*day, of_key));
                }
            }
        }
        None
    }

    fn refusal(&self, window: &Window<'_>, earlier: &BTreeMap<i64, Usage>) -> Option<Limit> {
        let worst = |end| worst_by_day(window.vcpus, window.memory, (window.span.0, end));
        let new = worst(window.span.1);
        let (day, of_key) = self.passed(&new, earlier)?;
        let (limit, days) = if of_key { &self.key } else { &self.all };
        let (used, held) = days.get(&day).copied().unwrap_or_default();
        let price = |usage| self.account.price(day, usage);
        let needed = plus(new[&day], earlier.get(&day).copied().unwrap_or_default());
        let left = i128::from(limit.unwrap()) * MICRO - price(used) - price(held);
        let fits = |seconds: i64| self.passed(&worst(window.span.0 + seconds * SECOND), earlier).is_none();
        let mut longest_s = 0;
        for step in (0..22).rev().map(|bit| 1_i64 << bit) {
            let more = longest_s + step;
            if more * SECOND < window.span.1 - window.span.0 && fits(more) {
                longest_s = more;
            }
        }
        Some(Limit {
            of_key,
            lease: window.lease.to_owned(),
            day,
            most: limit.unwrap(),
            used: floor(price(used)),
            reserved: ceil(price(held)),
            needed: ceil(price(needed)),
            available: floor(left).max(0),
            longest_s,
        })
    }
}

impl Account {
    fn worst_cost(&self, window: &Window<'_>) -> i128 {
        worst_by_day(window.vcpus, window.memory, window.span).iter().map(|(day, usage)| self.price(*day, *usage)).sum()
    }

    /// The rules in their order.
    fn decide(&self, key: &str, windows: &[Window<'_>]) -> Option<Verdict> {
        let Some(known) = self.keys.get(key) else { return Some(Verdict::No("not_found")) };
        let refused =
            [(known.revoked, "key_revoked"), (known.read_only, "read_only_key"), (self.suspended, "account_suspended")];
        if let Some((_, code)) = refused.iter().find(|(is, _)| *is) {
            return Some(Verdict::No(code));
        }
        let meets = |left: (i64, i64), right: (i64, i64)| left.0.max(right.0) < left.1.min(right.1);
        for (index, window) in windows.iter().enumerate() {
            let others =
                self.leases.values().filter(|other| other.sandbox == window.sandbox && other.id != window.lease);
            let on = others.map(|other| (other.start, other.effective_end())).any(|span| meets(span, window.span));
            let before =
                windows[..index].iter().any(|one| one.sandbox == window.sandbox && meets(one.span, window.span));
            if on || before {
                return Some(Verdict::No("lease_running"));
            }
        }
        for window in windows {
            let worst = self.worst_cost(window);
            if window.max_cost.is_some_and(|most| worst > i128::from(most) * MICRO) {
                return Some(Verdict::MaxCost { lease: window.lease.to_owned(), worst: ceil(worst) });
            }
        }
        self.can_pay(windows).or_else(|| self.within_limits(key, windows))
    }

    fn can_pay(&self, windows: &[Window<'_>]) -> Option<Verdict> {
        if self.card_on_file {
            return None;
        }
        let disk = |sandbox: &str| {
            self.newest_life(sandbox).filter(|life| life.deleted_at.is_none()).map_or(0, super::Life::disk)
        };
        let beyond =
            |window: &&Window<'_>| window.vcpus > COVER.0 || window.memory > COVER.1 || disk(window.sandbox) > COVER.2;
        if let Some(window) = windows.iter().find(beyond) {
            return Some(Verdict::CardRequired { lease: window.lease.to_owned() });
        }
        let mut demand = self.unmetered_ms();
        for window in windows {
            for (day, usage) in worst_by_day(1, 1, window.span) {
                *demand.entry(day).or_default() += i64::try_from(usage.run_ms).unwrap();
            }
            let (needed, available) = (demand.values().sum(), covered(&self.grants, &demand));
            if available < needed {
                return Some(Verdict::FreeHours { needed, available });
            }
        }
        None
    }

    fn within_limits(&self, key: &str, windows: &[Window<'_>]) -> Option<Verdict> {
        let limits = Limits::of(self, key);
        if limits.key.0.is_none() && limits.all.0.is_none() {
            return None;
        }
        let mut earlier = BTreeMap::new();
        for window in windows {
            if let Some(limit) = limits.refusal(window, &earlier) {
                return Some(Verdict::Limit(Box::new(limit)));
            }
            for (day, usage) in worst_by_day(window.vcpus, window.memory, window.span) {
                let sum = earlier.entry(day).or_default();
                *sum = plus(*sum, usage);
            }
        }
        None
    }

    /// A request; what it changes is in the account only after a yes.
    pub(crate) fn admit(&mut self, now: i64, key: &str, asked: &[Asked]) -> Verdict {
        let known = asked.iter().filter(|one| self.leases.contains_key(&one.id)).count();
        if known > 0 {
            return if known == asked.len() { Verdict::Yes(false) } else { Verdict::No("lease_conflict") };
        }
        let starts: Vec<i64> = asked.iter().map(|one| one.starts_at.unwrap_or(now)).collect();
        if starts.iter().any(|start| *start < now - HOUR || *start > now + MINUTE) {
            return Verdict::No("invalid");
        }
        let mut after = self.clone();
        for (one, start) in asked.iter().zip(&starts) {
            let Some(old) = &one.replaces else { continue };
            // Two leases of one request can't replace the same one: the second finds it ended.
            let Some(old) = after.leases.get(old) else { return Verdict::No("lease_conflict") };
            let runs = old.end.is_none() && old.start <= *start && *start < old.granted_end;
            if old.sandbox != one.sandbox || !runs {
                return Verdict::No("lease_conflict");
            }
            let end = End { at: *start, proven: (!old.settled).then_some(*start) };
            let id = old.id.clone();
            after.set_end(now, &id, end, false);
        }
        let windows: Vec<Window<'_>> = asked
            .iter()
            .zip(&starts)
            .map(|(one, start)| Window {
                lease: &one.id,
                sandbox: &one.sandbox,
                vcpus: one.vcpus,
                memory: one.memory,
                span: (*start, start + one.timeout),
                max_cost: one.max_cost,
            })
            .collect();
        if let Some(refused) = after.decide(key, &windows) {
            return refused;
        }
        let deleted = |sandbox: &str| after.newest_life(sandbox).and_then(|life| life.deleted_at);
        if windows.iter().any(|window| deleted(window.sandbox).is_some_and(|at| window.span.0 < at)) {
            return Verdict::No("lease_conflict");
        }
        for (one, start) in asked.iter().zip(&starts) {
            after.start(key, one, *start);
        }
        after.settle_due(now);
        *self = after;
        Verdict::Yes(true)
    }

    fn start(&mut self, key: &str, asked: &Asked, start: i64) {
        if self.newest_life(&asked.sandbox).is_none_or(|life| life.deleted_at.is_some()) {
            self.begin_life(&asked.sandbox, key, start);
        }
        let lives = self.sandboxes.get_mut(&asked.sandbox).unwrap();
        let place = lives.len() - 1;
        lives[place].starts.push((start, key.to_owned(), asked.id.clone()));
        restored(&mut lives[place]);
        let lease = Lease {
            id: asked.id.clone(),
            key: key.to_owned(),
            sandbox: asked.sandbox.clone(),
            life: place,
            vcpus: asked.vcpus,
            memory: asked.memory,
            start,
            granted_end: start + asked.timeout,
            end: None,
            host: asked.host.clone(),
            samples: BTreeMap::new(),
            settled: false,
            posted: BTreeMap::new(),
            promised: BTreeMap::new(),
        };
        self.leases.insert(asked.id.clone(), lease);
    }

    /// More time for a lease.
    pub(crate) fn extend(&mut self, now: i64, lease: &str, id: &str, timeout: i64, max_cost: Option<i64>) -> Verdict {
        let Some(known) = self.leases.get(lease) else { return Verdict::No("not_found") };
        let extension = (lease.to_owned(), id.to_owned());
        if let Some(before) = self.extensions.get(&extension) {
            return if *before == (timeout, max_cost) { Verdict::Yes(false) } else { Verdict::No("lease_conflict") };
        }
        if known.end.is_some() || now >= known.granted_end {
            return Verdict::No("lease_conflict");
        }
        if known.granted_end + timeout - known.start > 31 * DAY {
            return Verdict::No("invalid");
        }
        let window = Window {
            lease,
            sandbox: &known.sandbox,
            vcpus: known.vcpus,
            memory: known.memory,
            span: (known.granted_end, known.granted_end + timeout),
            max_cost,
        };
        if let Some(refused) = self.decide(&known.key, &[window]) {
            return refused;
        }
        self.leases.get_mut(lease).unwrap().granted_end += timeout;
        self.extensions.insert(extension, (timeout, max_cost));
        self.post(lease, false);
        Verdict::Yes(true)
    }
}
