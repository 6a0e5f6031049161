//! Posting: how a change of usage or of a hold reaches hours, free time and day counters.
//!
//! The open hour of a running lease stays in its row; every other hour is an addition to the hours' table. What a key
//! used on a day is net of free time; what its leases hold is at list.

use std::collections::BTreeMap;

use super::working_set::WorkingSet;
use crate::domain::Overflow;
use crate::domain::free_hours::{self, Draws, Grant};
use crate::domain::lease::{HourTotals, Lease, OpenHour};
use crate::domain::limits::DayTotals;
use crate::domain::sandbox::Sandbox;
use crate::domain::storage_meter::{StorageByHour, StorageHour};
use crate::domain::time::{Day, Hour, Span};
use crate::domain::usage::{Usage, UsageByHour};
use crate::store::changes::{DrawKey, HourKey};

impl WorkingSet {
    /// Posts a change of a lease's compute. `late`: it is a correction, and what it adds is counted as such.
    pub fn post_compute(&mut self, lease: &mut Lease, change: &UsageByHour, late: bool) -> Result<(), Overflow> {
        for (hour, added) in change.iter() {
            let before = self.hour_totals(lease, hour);
            let after = self.draw_free(lease, hour, before, added)?;
            self.place_hour(lease, hour, before, after)?;
            let net = after.net()?.minus(before.net()?)?;
            let day = hour.day();
            self.count(&lease.account, &lease.key, day, DayTotals { used: net, reserved: Usage::ZERO })?;
            if late {
                self.late.push((lease.account.clone(), day, net));
            }
            if let Some(book) = self.books.get(&lease.account) {
                self.repriced = self.repriced.plus(book.repriced(day, net, lease.created_at)?)?;
            }
        }
        Ok(())
    }

    /// What a change of a lease's compute would add to its key's days, net of the free time that it would draw from (or
    /// give back to) these grants, which are brought up to date; nothing is posted.
    pub(super) fn net_by_day(
        &self,
        lease: &Lease,
        change: &UsageByHour,
        grants: &mut [Grant],
    ) -> Result<BTreeMap<Day, Usage>, Overflow> {
        let mut days: BTreeMap<Day, Usage> = BTreeMap::new();
        for (hour, added) in change.iter() {
            let before = self.hour_totals(lease, hour);
            let key = ((lease.account.clone(), lease.id.clone()), hour);
            let mut drawn = self.draws.get(&key).cloned().unwrap_or_default();
            let after = free_hours::post(hour, before, added, grants, &mut drawn)?;
            let sum = days.entry(hour.day()).or_default();
            *sum = sum.plus(after.net()?.minus(before.net()?)?)?;
        }
        Ok(days)
    }

    fn hour_totals(&self, lease: &Lease, hour: Hour) -> HourTotals {
        match lease.open_hour {
            Some(open) if open.hour == hour => open.totals,
            Some(_) | None => {
                let key = ((lease.account.clone(), lease.id.clone()), hour);
                self.hours.get(&key).copied().unwrap_or_default()
            }
        }
    }

    /// Draws free time for an hour (or gives it back), and notes what was drawn.
    fn draw_free(
        &mut self,
        lease: &Lease,
        hour: Hour,
        before: HourTotals,
        added: Usage,
    ) -> Result<HourTotals, Overflow> {
        let key = ((lease.account.clone(), lease.id.clone()), hour);
        let mut drawn = self.draws.get(&key).cloned().unwrap_or_default();
        let known = drawn.clone();
        let no_grants = &mut Vec::new();
        let grants = self.grants.get_mut(&lease.account).unwrap_or(no_grants);
        let after = free_hours::post(hour, before, added, grants, &mut drawn)?;
        if drawn != known {
            self.note_draws(lease, hour, &known, &drawn)?;
            self.draws.insert(key, drawn);
        }
        Ok(after)
    }

    fn note_draws(&mut self, lease: &Lease, hour: Hour, known: &Draws, drawn: &Draws) -> Result<(), Overflow> {
        for (seq, (grant, ms)) in drawn.iter().enumerate() {
            let added_ms = ms.checked_sub(known.get(seq).map_or(0, |(_, ms)| *ms)).ok_or(Overflow)?;
            if added_ms == 0 {
                continue;
            }
            let (account, lease) = (lease.account.clone(), lease.id.clone());
            let used = self.changes.grant_used_ms.entry((account.clone(), grant.clone())).or_default();
            *used = used.checked_add(added_ms).ok_or(Overflow)?;
            let key = DrawKey { account, lease, hour, grant: grant.clone() };
            if hour.start().month() < self.open_month {
                let late = self.changes.late_draws.entry((key.clone(), self.open_month)).or_default();
                *late = late.checked_add(added_ms).ok_or(Overflow)?;
            }
            let change = self.changes.draws.entry(key).or_default();
            change.added_ms = change.added_ms.checked_add(added_ms).ok_or(Overflow)?;
            change.seq = i64::try_from(seq).map_err(|_| Overflow)?;
        }
        Ok(())
    }

    /// Keeps an hour's new totals: in the lease's row while it is running in that hour, else as an addition.
    fn place_hour(
        &mut self,
        lease: &mut Lease,
        hour: Hour,
        before: HourTotals,
        after: HourTotals,
    ) -> Result<(), Overflow> {
        let running = lease.open;
        if running && lease.open_hour.is_none_or(|open| open.hour <= hour) {
            if lease.open_hour.is_some_and(|open| open.hour != hour) {
                self.close_hour(lease)?;
            }
            lease.open_hour = Some(OpenHour { hour, totals: after });
            return Ok(());
        }
        self.hours.insert(((lease.account.clone(), lease.id.clone()), hour), after);
        let change = HourTotals {
            usage: after.usage.minus(before.usage)?,
            free_ms: after.free_ms.checked_sub(before.free_ms).ok_or(Overflow)?,
            free: after.free.minus(before.free)?,
        };
        self.add_hour(lease, hour, change)
    }

    fn add_hour(&mut self, lease: &Lease, hour: Hour, change: HourTotals) -> Result<(), Overflow> {
        let key = HourKey {
            account: lease.account.clone(),
            hour,
            sandbox: lease.sandbox.clone(),
            life: lease.life,
            key: lease.key.clone(),
            lease: Some(lease.id.clone()),
            billed_month: hour.start().month().max(self.open_month),
        };
        let sum = self.changes.hours.entry(key).or_default();
        *sum = sum.plus(change)?;
        Ok(())
    }

    /// Writes the open hour of a lease out of its row: it left the hour, or it ended.
    pub fn close_hour(&mut self, lease: &mut Lease) -> Result<(), Overflow> {
        let Some(open) = lease.open_hour.take() else { return Ok(()) };
        self.hours.insert(((lease.account.clone(), lease.id.clone()), open.hour), open.totals);
        self.add_hour(lease, open.hour, open.totals)
    }

    /// Posts a change of a sandbox's storage.
    pub fn post_storage(&mut self, sandbox: &mut Sandbox, change: &StorageByHour) -> Result<(), Overflow> {
        for ((hour, key), mib_ms) in change {
            let used = Usage { storage_mib_ms: *mib_ms, ..Usage::ZERO };
            self.count(&sandbox.account, key, hour.day(), DayTotals { used, reserved: Usage::ZERO })?;
            let newer = sandbox.storage.open_hour.as_ref().is_none_or(|open| (open.hour, &open.key) != (*hour, key));
            let older = sandbox.storage.open_hour.as_ref().is_some_and(|open| *hour < open.hour);
            let posted = StorageHour { hour: *hour, key: key.clone(), mib_ms: *mib_ms };
            if sandbox.deleted_at.is_some() || older {
                self.add_storage_hour(sandbox, &posted)?;
            } else if newer {
                self.close_storage_hour(sandbox)?;
                sandbox.storage.open_hour = Some(posted);
            } else if let Some(open) = &mut sandbox.storage.open_hour {
                open.mib_ms = open.mib_ms.checked_add(*mib_ms).ok_or(Overflow)?;
            }
        }
        Ok(())
    }

    /// Writes the open storage hour of a sandbox out of its row.
    pub fn close_storage_hour(&mut self, sandbox: &mut Sandbox) -> Result<(), Overflow> {
        let Some(open) = sandbox.storage.open_hour.take() else { return Ok(()) };
        self.add_storage_hour(sandbox, &open)
    }

    fn add_storage_hour(&mut self, sandbox: &Sandbox, posted: &StorageHour) -> Result<(), Overflow> {
        let key = HourKey {
            account: sandbox.account.clone(),
            hour: posted.hour,
            sandbox: sandbox.id.clone(),
            life: sandbox.life,
            key: posted.key.clone(),
            lease: None,
            billed_month: posted.hour.start().month().max(self.open_month),
        };
        let sum = self.changes.hours.entry(key).or_default();
        sum.usage.storage_mib_ms = sum.usage.storage_mib_ms.checked_add(posted.mib_ms).ok_or(Overflow)?;
        Ok(())
    }

    /// Counts how what a lease holds has changed from `before` to `after`.
    pub fn post_hold(&mut self, before: Option<&Lease>, after: &Lease) -> Result<(), Overflow> {
        // The common case, a sample in order of a running lease, needs only the days that it moved over.
        if let Some(before) = before.filter(|before| moved_on(before, after)) {
            let metered = Span { start: before.metered_until(), end: after.metered_until() };
            for (day, part) in metered.by_day() {
                let reserved = Usage::ZERO.minus(after.shape.worst_case(part)?)?;
                self.count(&after.account, &after.key, day, DayTotals { used: Usage::ZERO, reserved })?;
            }
            return Ok(());
        }
        // Of a new lease nothing is posted yet.
        if before.is_none() && after.end.is_none() && after.settled_at.is_none() {
            for (day, part) in after.unmetered().by_day() {
                let reserved = after.shape.worst_case(part)?;
                self.count(&after.account, &after.key, day, DayTotals { used: Usage::ZERO, reserved })?;
            }
            return Ok(());
        }
        let prices = self.prices(&after.account);
        let change: BTreeMap<Day, Usage> = match before {
            Some(before) => {
                let mut change = after.hold(&prices)?;
                for (day, usage) in before.hold(&prices)? {
                    let sum = change.entry(day).or_default();
                    *sum = sum.minus(usage)?;
                }
                change
            }
            None => after.hold(&prices)?,
        };
        for (day, reserved) in change {
            self.count(&after.account, &after.key, day, DayTotals { used: Usage::ZERO, reserved })?;
        }
        Ok(())
    }
}

/// Whether a lease was only metered further: nothing else of what it holds has changed, and no sample was voided.
fn moved_on(before: &Lease, after: &Lease) -> bool {
    holds_plainly(before)
        && holds_plainly(after)
        && before.window == after.window
        && before.metered_until() <= after.metered_until()
}

/// Whether a lease's hold is just the worst case of its unmetered time: no end was told, and it is not settled.
fn holds_plainly(lease: &Lease) -> bool {
    lease.end.is_none() && lease.settled_at.is_none()
}
