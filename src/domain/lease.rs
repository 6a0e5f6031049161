//! A lease: one continuous right to run one sandbox; its window, its ends, and what it still holds.

use std::collections::BTreeMap;

use super::checked::Overflow;
use super::id::{AccountId, HostId, KeyId, LeaseId, SandboxId};
use super::meter::{Meter, Terms};
use super::money::{Cost, Micros};
use super::rate_card::PriceBook;
use super::sample_page::OpenPage;
use super::time::{Day, Hour, Month, Span, Timestamp};
use super::units::{MebiBytes, Vcpus};
use super::usage::Usage;

/// Shortest lease, in milliseconds: 1 s.
pub const LEASE_MS_MIN: i64 = 1_000;
/// Longest lease, extensions included, in milliseconds: 31 days.
pub const LEASE_MS_MAX: i64 = 31 * 86_400_000;
/// How far back a lease may start, in milliseconds: one hour.
pub const START_BACK_MS_MAX: i64 = 3_600_000;
/// Tolerance for clocks that differ, in milliseconds: one minute.
pub const CLOCK_TOLERANCE_MS: i64 = 60_000;

/// What a sandbox is given: vCPUs and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// 1 to 1,024.
    pub vcpus: Vcpus,
    /// 1 MiB to 64 TiB.
    pub memory: MebiBytes,
}

impl Shape {
    /// All vCPUs busy and all memory held over a span: the most that compute can use.
    pub fn worst_case(self, span: Span) -> Result<Usage, Overflow> {
        let run_ms = span.length_ms();
        let cpu = self.vcpus.busy_us(run_ms)?;
        Ok(Usage {
            run_ms: i128::from(run_ms),
            cpu_used_us: cpu,
            cpu_us: cpu,
            memory_mib_ms: self.memory.held_mib_ms(run_ms)?,
            storage_mib_ms: 0,
        })
    }

    /// [`Shape::worst_case`] split by UTC day.
    pub fn worst_case_by_day(self, span: Span) -> Result<BTreeMap<Day, Usage>, Overflow> {
        span.by_day().map(|(day, part)| Ok((day, self.worst_case(part)?))).collect()
    }

    /// The exact list cost of the worst case of a span, each day at its own card.
    pub fn worst_cost(self, span: Span, prices: &PriceBook) -> Result<Cost, Overflow> {
        span.by_day().try_fold(Cost::ZERO, |sum, (day, part)| sum.plus(prices.price(day, self.worst_case(part)?)?))
    }
}

/// What a lease is for, to people; the rules are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// A new sandbox.
    Create,
    /// A paused one goes on.
    Wake,
    /// A copy of another.
    Fork,
}

/// Why a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Stopped.
    Stop,
    /// Paused: the sandbox rests.
    Pause,
    /// Stopped, and the sandbox deleted.
    Delete,
    /// The host died: it ends at its last sample, which proves nothing more.
    HostLost,
    /// It never ran: it ends where it started.
    Cancel,
    /// Another lease of the same sandbox took its place (`replaces`).
    Replaced,
}

/// The request of a lease as it came, for telling a repetition from a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// `starts_at` as sent; `None`: now.
    pub starts_at: Option<Timestamp>,
    /// The timeout as first asked, in milliseconds, before extensions.
    pub timeout_ms: i64,
    /// The most that the worst case may cost.
    pub max_cost: Option<Micros>,
    /// The host as sent.
    pub host: Option<HostId>,
    /// The lease that it replaces.
    pub replaces: Option<LeaseId>,
}

/// An end that was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// When the sandbox stopped; never later than the granted window's end.
    pub at: Timestamp,
    /// Why.
    pub reason: EndReason,
    /// Up to when ends have proved that it ran; never after `at`.
    pub proven_until: Option<Timestamp>,
    /// The earliest open month when the lease's first end was told; `None`: from before this was kept.
    pub told_in: Option<Month>,
}

/// Usage of one lease (or of a sandbox's storage) in one hour, with the part that free time pays for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HourTotals {
    /// All usage.
    pub usage: Usage,
    /// Free time drawn, in milliseconds; at most `usage.run_ms`.
    pub free_ms: i128,
    /// The free part of the compute: CPU and memory, the other components zero.
    pub free: Usage,
}

impl HourTotals {
    /// The sum.
    pub fn plus(self, other: Self) -> Result<Self, Overflow> {
        Ok(Self {
            usage: self.usage.plus(other.usage)?,
            free_ms: super::checked::add(self.free_ms, other.free_ms)?,
            free: self.free.plus(other.free)?,
        })
    }

    /// The difference; may be negative.
    pub fn minus(self, other: Self) -> Result<Self, Overflow> {
        Ok(Self {
            usage: self.usage.minus(other.usage)?,
            free_ms: super::checked::sub(self.free_ms, other.free_ms)?,
            free: self.free.minus(other.free)?,
        })
    }

    /// What is to be paid: usage less its free part.
    pub fn net(self) -> Result<Usage, Overflow> {
        self.usage.minus(self.free)
    }
}

/// The hour that a running lease is in: kept in its row until it leaves the hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHour {
    /// Which hour.
    pub hour: Hour,
    /// What was posted in it so far.
    pub totals: HourTotals,
}

/// A lease as it is kept: the grant, its end, its meter's latest state and its open page of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The account.
    pub account: AccountId,
    /// Its id.
    pub id: LeaseId,
    /// The key that asked for it and pays.
    pub key: KeyId,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Which life of the sandbox.
    pub life: i64,
    /// What it is for.
    pub kind: LeaseKind,
    /// What it is given.
    pub shape: Shape,
    /// The granted window; an extension moves its end.
    pub window: Span,
    /// The request as it came.
    pub asked: Asked,
    /// The end that was told.
    pub end: Option<End>,
    /// The host whose samples are taken; `None` until one is named or reports.
    pub host: Option<HostId>,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// Whether it is still its sandbox's newest lease and not ended: at most one a sandbox.
    pub open: bool,
    /// When it settles by the clock alone: `settle_after` past its effective end.
    pub settles_at: Timestamp,
    /// When what it held was given back; afterwards samples are corrections.
    pub settled_at: Option<Timestamp>,
    /// The meter's state.
    pub meter: Meter,
    /// The open hour; `None` before the first usage and after an end.
    pub open_hour: Option<OpenHour>,
    /// The open page of samples.
    pub page: OpenPage,
    /// The latest of its samples that were voided; `None`: none was.
    pub voided_until: Option<Timestamp>,
}

/// The state of a lease, as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Its window is on and no end was told.
    Running,
    /// It is over, but samples of it are still awaited.
    Ended,
    /// It is over, and what it held is given back.
    Settled,
}

impl Lease {
    /// Whether nothing differs from what it was `before` but what samples change: the meter, the open hour and the page.
    #[must_use]
    pub fn is_only_metered(&self, before: &Self) -> bool {
        // Without `..`, so that a field that is added has to be placed.
        let Self {
            account,
            id,
            key,
            sandbox,
            life,
            kind,
            shape,
            window,
            asked,
            end,
            host,
            created_at,
            open,
            settles_at,
            settled_at,
            meter: _,
            open_hour: _,
            page: _,
            voided_until,
        } = before;
        (&self.account, &self.id, &self.key, &self.sandbox, &self.life) == (account, id, key, sandbox, life)
            && (&self.kind, &self.shape, &self.window, &self.asked) == (kind, shape, window, asked)
            && (&self.end, &self.host, &self.created_at, &self.open) == (end, host, created_at, open)
            && (&self.settles_at, &self.settled_at, &self.voided_until) == (settles_at, settled_at, voided_until)
    }

    /// The effective end: the end that was told, else the granted one.
    #[must_use]
    pub fn effective_end(&self) -> Timestamp {
        self.end.map_or(self.window.end, |end| end.at)
    }

    /// The effective window `[starts_at, end)`.
    #[must_use]
    pub fn effective(&self) -> Span {
        Span { start: self.window.start, end: self.effective_end() }
    }

    /// The last accepted sample at or before which time is proven; `None` while samples prove nothing.
    #[must_use]
    pub fn sampled_until(&self) -> Option<Timestamp> {
        let last = self.meter.last?.at;
        (last > self.window.start).then_some(last)
    }

    /// From where on the window is unmetered: the last sample, else the start; within the effective window.
    #[must_use]
    pub fn metered_until(&self) -> Timestamp {
        self.sampled_until().unwrap_or(self.window.start).min(self.effective_end())
    }

    /// The part of the window that is not metered yet: what it holds is the worst case of this.
    #[must_use]
    pub fn unmetered(&self) -> Span {
        Span { start: self.metered_until(), end: self.effective_end() }
    }

    /// The part of the unmetered window that no end has proved: nothing of it is posted, so it may still draw free time.
    #[must_use]
    pub fn unposted(&self) -> Span {
        let metered = self.metered_until();
        let posted = self.end.and_then(|end| end.proven_until).map_or(metered, |until| until.max(metered));
        Span { start: posted, end: self.effective_end() }
    }

    /// Whether it counts as settled at `now`: it was settled, or its time to settle has come.
    #[must_use]
    pub fn is_settled(&self, now: Timestamp) -> bool {
        self.settled_at.is_some() || now >= self.settles_at
    }

    /// Its state at `now`.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> LeaseState {
        if self.is_settled(now) {
            LeaseState::Settled
        } else if self.end.is_some() || now >= self.effective_end() {
            LeaseState::Ended
        } else {
            LeaseState::Running
        }
    }

    /// Whether it runs and has had no sample for `after_ms` milliseconds (without any: since its start).
    #[must_use]
    pub fn is_stale(&self, now: Timestamp, after_ms: i64) -> bool {
        self.state(now) == LeaseState::Running && now.since(self.metered_until()) >= after_ms
    }

    /// What its meter needs to know of it.
    #[must_use]
    pub fn terms<'a>(&self, prices: &'a PriceBook) -> Terms<'a> {
        Terms {
            window: self.window,
            end: self.effective_end(),
            proven_until: self.end.and_then(|end| end.proven_until),
            shape: self.shape,
            prices,
        }
    }

    /// What it holds, by UTC day: the worst case of its unmetered time less what is already posted for that same time
    /// (an end's tail at the floor), per component, never below zero; nothing once it is settled in its row.
    pub fn hold(&self, prices: &PriceBook) -> Result<BTreeMap<Day, Usage>, Overflow> {
        if self.settled_at.is_some() {
            return Ok(BTreeMap::new());
        }
        let worst = self.shape.worst_case_by_day(self.unmetered())?;
        let posted = self.meter.tail(&self.terms(prices))?.by_day()?;
        if posted.is_empty() {
            return Ok(worst);
        }
        worst
            .into_iter()
            .map(|(day, usage)| {
                let tail = posted.get(&day).copied().unwrap_or(Usage::ZERO);
                Ok((day, usage.minus_at_least_zero(tail)?))
            })
            .collect()
    }

    /// The worst-case list cost of its whole granted window.
    pub fn worst_cost(&self, prices: &PriceBook) -> Result<Cost, Overflow> {
        self.shape.worst_cost(self.window, prices)
    }
}
