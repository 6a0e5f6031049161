//! The gate before a lease: one decision, its rules in order, and what a refusal says.

use std::collections::BTreeMap;

use super::checked::Overflow;
use super::credit::CreditBook;
use super::customer::{Account, AccountStatus, Key};
use super::free_hours::Grant;
use super::funds::{Running, can_pay};
use super::id::{AccountId, HostId, KeyId, LeaseId, SandboxId};
use super::lease::{LeaseKind, Shape};
use super::limits::DayTotals;
use super::money::{Cost, Micros};
use super::rate_card::PriceBook;
use super::time::{Day, Span, Timestamp};
use super::units::{MebiBytes, Vcpus};
use super::usage::Usage;

/// Most leases of one request.
pub const REQUEST_LEASES_MAX: usize = 1_000;

/// A request for one or more leases of one key: all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmitRequest {
    /// The account.
    pub account: AccountId,
    /// The key that asks and pays.
    pub key: KeyId,
    /// 1 to 1,000 leases with different ids.
    pub leases: Vec<LeaseRequest>,
}

/// One lease that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Its id.
    pub id: LeaseId,
    /// The sandbox, new or known.
    pub sandbox: SandboxId,
    /// What it is for.
    pub kind: LeaseKind,
    /// What it is given.
    pub shape: Shape,
    /// For how long, in milliseconds: whole seconds, 1 s to 31 days.
    pub timeout_ms: i64,
    /// The most that its worst case may cost.
    pub max_cost: Option<Micros>,
    /// The host that will report.
    pub host: Option<HostId>,
    /// When it starts; `None`: now.
    pub starts_at: Option<Timestamp>,
    /// The lease of the same sandbox that it takes the place of.
    pub replaces: Option<LeaseId>,
}

/// Whose limit binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The key's.
    Key,
    /// The account's.
    Account,
}

/// Why a lease may not start. A refusal changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The account is suspended.
    AccountSuspended,
    /// The account has no such key.
    UnknownKey,
    /// The key was revoked.
    KeyRevoked,
    /// The key may only read.
    ReadOnlyKey,
    /// Another lease of the sandbox is on in the asked window.
    LeaseRunning {
        /// The one that is on.
        lease: LeaseId,
    },
    /// The worst case costs more than `max_cost`.
    MaxCostExceeded {
        /// The lease asked for.
        lease: LeaseId,
        /// Its worst case, rounded up.
        worst_case: Micros,
        /// The most that it may cost.
        max_cost: Micros,
    },
    /// No card is on file, and the shape or the disk is beyond what free time covers.
    CardRequired {
        /// The lease asked for.
        lease: LeaseId,
    },
    /// No card is on file, and the free time does not cover everything unmetered.
    FreeHoursExhausted {
        /// Free time needed, in milliseconds.
        needed_ms: i64,
        /// Free time that is there for it, in milliseconds.
        available_ms: i64,
    },
    /// No card is on file, and free time and credit do not cover the worst case.
    CreditExhausted {
        /// The lease asked for.
        lease: LeaseId,
        /// The worst case that free time is not sure to pay, of all leases, rounded up by day.
        needed: Micros,
        /// How much of it credit would pay.
        available: Micros,
    },
    /// A daily limit would be passed.
    SpendingLimitReached(Box<LimitReached>),
}

/// The limit that binds, and what would fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// Whose limit.
    pub scope: Scope,
    /// The key that asked.
    pub key: KeyId,
    /// The lease that does not fit.
    pub lease: LeaseId,
    /// The day on which it does not fit.
    pub day: Day,
    /// The limit.
    pub limit: Micros,
    /// Used on that day, rounded down.
    pub used: Micros,
    /// Held on that day, rounded up.
    pub reserved: Micros,
    /// What this request needs on that day, the leases before it included, rounded up.
    pub needed: Micros,
    /// What the limit leaves, rounded down, never below zero.
    pub available: Micros,
    /// When the day ends.
    pub resets_at: Timestamp,
    /// The longest timeout with which this lease would fit, in seconds; 0: none.
    pub longest_timeout_s: i64,
}

/// One window that is asked for: of a new lease, or what an extension adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The lease.
    pub lease: LeaseId,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// What it is given.
    pub shape: Shape,
    /// The window asked for.
    pub window: Span,
    /// The most that the window's worst case may cost.
    pub max_cost: Option<Micros>,
    /// The sandbox's disk as last reported.
    pub disk: MebiBytes,
}

/// What free time covers where no card is on file: operators' settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeCover {
    /// Most vCPUs.
    pub vcpus: Vcpus,
    /// Most memory.
    pub memory: MebiBytes,
    /// Most disk of one sandbox.
    pub disk: MebiBytes,
}

/// What a decision reads. What a replaced lease gives back is in it already.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// The account.
    pub account: &'a Account,
    /// The key that asks; `None`: there is none of that id.
    pub key: Option<&'a Key>,
    /// The account's prices.
    pub prices: &'a PriceBook,
    /// Effective windows of other leases of the sandboxes asked for.
    pub others: &'a [(SandboxId, LeaseId, Span)],
    /// The key's days; a missing one is zero.
    pub key_days: &'a [(Day, DayTotals)],
    /// The account's days; a missing one is zero.
    pub account_days: &'a [(Day, DayTotals)],
    /// What free time covers.
    pub cover: FreeCover,
    /// The account's grants; read only where no card is on file.
    pub grants: &'a [Grant],
    /// Unmetered time of all its leases by day, in milliseconds; read only where no card is on file.
    pub unmetered_ms: &'a BTreeMap<Day, i64>,
    /// The account's credits, with what final invoices drew; read only where no card is on file.
    pub credits: &'a CreditBook,
    /// Its leases that are not settled; read only where credit is.
    pub running: &'a [Running],
    /// The exact net cost of usage that no final invoice has billed; read only where credit is.
    pub unbilled: &'a BTreeMap<Day, Cost>,
}

/// A rule that prices: what it refuses, or nothing.
type Rule = fn(&[Ask], &Standing<'_>) -> Result<Result<(), Refusal>, Overflow>;

/// Decides a request: rule by rule, and within a rule leases as sent, days ascending, the key before the account.
/// What a refusal says it needs includes the leases before it.
pub fn decide(asks: &[Ask], standing: &Standing<'_>) -> Result<Result<(), Refusal>, Overflow> {
    let may = may_ask(standing).and_then(|()| sandboxes_are_free(asks, standing));
    if let Err(refusal) = may {
        return Ok(Err(refusal));
    }
    let rules: [Rule; 3] = [within_max_cost, can_pay, within_limits];
    for rule in rules {
        if let Err(refusal) = rule(asks, standing)? {
            return Ok(Err(refusal));
        }
    }
    Ok(Ok(()))
}

/// Rule 1: the key exists, is not revoked and not read-only, and its account is not suspended.
fn may_ask(standing: &Standing<'_>) -> Result<(), Refusal> {
    let key = standing.key.ok_or(Refusal::UnknownKey)?;
    if key.revoked_at.is_some() {
        Err(Refusal::KeyRevoked)
    } else if key.read_only {
        Err(Refusal::ReadOnlyKey)
    } else if standing.account.status == AccountStatus::Suspended {
        Err(Refusal::AccountSuspended)
    } else {
        Ok(())
    }
}

/// Rule 2: no effective window of another lease of the sandbox meets the new one.
fn sandboxes_are_free(asks: &[Ask], standing: &Standing<'_>) -> Result<(), Refusal> {
    if standing.others.is_empty() && asks.len() == 1 {
        return Ok(());
    }
    let mut seen: BTreeMap<&SandboxId, Vec<(&LeaseId, Span)>> = BTreeMap::new();
    for (sandbox, lease, span) in standing.others {
        seen.entry(sandbox).or_default().push((lease, *span));
    }
    for ask in asks {
        let windows = seen.entry(&ask.sandbox).or_default();
        let met = windows.iter().find(|(lease, span)| **lease != ask.lease && span.meets(ask.window));
        if let Some((lease, _)) = met {
            return Err(Refusal::LeaseRunning { lease: (*lease).clone() });
        }
        windows.push((&ask.lease, ask.window));
    }
    Ok(())
}

/// Rule 3: the worst-case list cost of each lease is at most its `max_cost`. [`Overflow`] when it is more than an amount
/// can say: a lease is not granted whose cost could not be shown.
fn within_max_cost(asks: &[Ask], standing: &Standing<'_>) -> Result<Result<(), Refusal>, Overflow> {
    for ask in asks {
        let worst = ask.shape.worst_cost(ask.window, standing.prices)?;
        let worst_case = worst.ceil()?;
        if let Some(max_cost) = ask.max_cost
            && worst > Cost::from_micros(max_cost)
        {
            let lease = ask.lease.clone();
            return Ok(Err(Refusal::MaxCostExceeded { lease, worst_case, max_cost }));
        }
    }
    Ok(Ok(()))
}

/// A limit that binds, and what stands under it.
struct Limit<'a> {
    scope: Scope,
    most: Micros,
    days: &'a [(Day, DayTotals)],
}

impl Limit<'_> {
    fn stands(&self, day: Day) -> DayTotals {
        self.days.iter().find(|(of, _)| *of == day).map_or_else(DayTotals::default, |(_, totals)| *totals)
    }
}

/// Rule 5: on every UTC day that a lease touches, used + reserved + new is at most the key's limit, and the account's.
fn within_limits(asks: &[Ask], standing: &Standing<'_>) -> Result<Result<(), Refusal>, Overflow> {
    let Some(key) = standing.key else { return Ok(Err(Refusal::UnknownKey)) };
    let by_key = key.daily_limit.map(|limit| Limit { scope: Scope::Key, most: limit, days: standing.key_days });
    let by_account = standing.account.daily_limit.map(|limit| Limit {
        scope: Scope::Account,
        most: limit,
        days: standing.account_days,
    });
    let limits = [by_key, by_account];
    let mut earlier = BTreeMap::new();
    let mut asks = asks.iter().peekable();
    while let Some(ask) = asks.next() {
        if let Some((day, needed, limit)) = first_passed(ask.shape, ask.window, &earlier, &limits, standing.prices)? {
            let (stands, prices) = (limit.stands(day), standing.prices);
            return Ok(Err(Refusal::SpendingLimitReached(Box::new(LimitReached {
                scope: limit.scope,
                key: key.id.clone(),
                lease: ask.lease.clone(),
                day,
                limit: limit.most,
                used: prices.price(day, stands.used)?.floor()?,
                reserved: prices.price(day, stands.reserved)?.ceil()?,
                needed: prices.price(day, needed)?.ceil()?,
                available: stands.available(day, prices, limit.most)?,
                resets_at: day.end(),
                longest_timeout_s: longest_timeout_s(ask, &earlier, &limits, prices)?,
            }))));
        }
        // Most requests are for one lease: nothing comes after it.
        if asks.peek().is_some() {
            for (day, part) in ask.window.by_day() {
                let sum = before(&earlier, day).plus(ask.shape.worst_case(part)?)?;
                earlier.insert(day, sum);
            }
        }
    }
    Ok(Ok(()))
}

fn before(earlier: &BTreeMap<Day, Usage>, day: Day) -> Usage {
    earlier.get(&day).copied().unwrap_or(Usage::ZERO)
}

/// The first day, and on it the first limit, that a shape's worst case on top of `earlier` would pass; and the sum of both.
fn first_passed<'a, 'b>(
    shape: Shape,
    window: Span,
    earlier: &BTreeMap<Day, Usage>,
    limits: &'b [Option<Limit<'a>>],
    prices: &PriceBook,
) -> Result<Option<(Day, Usage, &'b Limit<'a>)>, Overflow> {
    for (day, part) in window.by_day() {
        let needed = before(earlier, day).plus(shape.worst_case(part)?)?;
        for limit in limits.iter().flatten() {
            let stands = limit.stands(day);
            let with = DayTotals { reserved: stands.reserved.plus(needed)?, ..stands };
            if !with.fits(day, prices, limit.most)? {
                return Ok(Some((day, needed, limit)));
            }
        }
    }
    Ok(None)
}

/// The longest timeout, in whole seconds, with which a lease that does not fit would fit; 0: none. More time never
/// needs less, so a binary search finds it.
fn longest_timeout_s(
    ask: &Ask,
    earlier: &BTreeMap<Day, Usage>,
    limits: &[Option<Limit<'_>>],
    prices: &PriceBook,
) -> Result<i64, Overflow> {
    let (mut fits, mut too_long) = (0_i64, ask.window.length_ms() / 1_000);
    while fits.saturating_add(1) < too_long {
        let middle = fits.midpoint(too_long);
        let window = Span { end: ask.window.start.plus_ms(middle.saturating_mul(1_000))?, ..ask.window };
        if first_passed(ask.shape, window, earlier, limits, prices)?.is_none() {
            fits = middle;
        } else {
            too_long = middle;
        }
    }
    Ok(fits)
}
