//! Ends: when a lease stopped, told by the control plane.
//!
//! A later end than the recorded one changes nothing; an earlier one corrects. The first end of a lease is always
//! taken. `cancel` ends where the lease started; `host_lost` at its last sample, and proves nothing. An end that is told
//! after the lease has settled proves nothing either, but can shorten. An end before samples whose evidence is
//! archived is refused: what it takes back can't be worked out any more.

use std::sync::Arc;

use super::super::command::{CommandError, ConflictCode, EndLease, MoveLease};
use super::super::working_set::WorkingSet;
use super::{Applied, invalid, lease_conflict};
use crate::domain::lease::{CLOCK_TOLERANCE_MS, End, EndReason, Lease};
use crate::domain::sample::Reading;
use crate::domain::time::Timestamp;
use crate::domain::usage::UsageByHour;

impl WorkingSet {
    /// Ends a lease. Repeating it changes nothing; `delete` also deletes its sandbox.
    pub fn end(&mut self, command: &EndLease) -> Applied<Lease> {
        let id = (command.account.clone(), command.lease.clone());
        let mut lease = self.lease_for_change(&id)?.ok_or(CommandError::NotFound("lease"))?;
        let at = self.end_instant(&lease, command)?;
        if command.reason == EndReason::Delete {
            self.may_delete(&lease)?;
        }
        if let Some(end) = self.new_end(&lease, at, command.reason)? {
            let prices = self.prices(&lease.account);
            let mut after = Lease::clone(&lease);
            after.end = Some(end);
            let around = self.readings_of(&lease);
            let (meter, change) = lease.meter.move_end(&lease.terms(&prices), &after.terms(&prices), &around)?;
            after.meter = meter;
            lease = self.finish_end(&lease, after, &change)?.into();
        }
        if command.reason == EndReason::Delete {
            self.delete_life(&lease.account, &lease.sandbox, lease.life, at)?;
        }
        Ok(Arc::unwrap_or_clone(lease))
    }

    /// The instant that a command says the lease ended at, within its granted window.
    fn end_instant(&self, lease: &Lease, command: &EndLease) -> Applied<Timestamp> {
        let at = match command.reason {
            EndReason::Cancel if lease.sampled_until().is_some() => {
                return Err(lease_conflict(
                    &lease.id,
                    "a sample proves that the lease ran; end it with another reason",
                ));
            }
            EndReason::Cancel => lease.window.start,
            EndReason::HostLost => lease.metered_until(),
            EndReason::Stop | EndReason::Pause | EndReason::Delete | EndReason::Replaced => match command.ended_at {
                None => self.now.max(lease.window.start),
                Some(at) if at < lease.window.start => {
                    return Err(invalid("/ended_at", "a lease can't end before it starts"));
                }
                Some(at) if at > self.now.near(CLOCK_TOLERANCE_MS) => {
                    return Err(invalid("/ended_at", "an end is told when it is there, at most a minute ahead of now"));
                }
                Some(at) => at,
            },
        };
        Ok(at.min(lease.window.end))
    }

    /// The end to record; `None` when the recorded one stays.
    fn new_end(&self, lease: &Lease, at: Timestamp, reason: EndReason) -> Applied<Option<End>> {
        let proves = lease.settled_at.is_none() && reason != EndReason::HostLost;
        let told = proves.then_some(at);
        let beyond = lease.meter.last.is_some_and(|last| last.at > at);
        if self.is_archived(at) && beyond && lease.end.is_none_or(|known| at < known.at) {
            return Err(CommandError::Conflict {
                code: ConflictCode::MonthClosed,
                detail: "samples lie after that end, and the evidence of its month is archived".to_owned(),
                lease: Some(lease.id.clone()),
            });
        }
        match lease.end {
            None => Ok(Some(End { at, reason, proven_until: told, told_in: Some(self.open_month) })),
            Some(known) if at >= known.at => Ok(None),
            Some(_) if at < self.open_month.span().start => Err(CommandError::Conflict {
                code: ConflictCode::MonthClosed,
                detail: "the earlier end lies in a month that is closed".to_owned(),
                lease: Some(lease.id.clone()),
            }),
            Some(known) => {
                let proven_until = told.or(known.proven_until.map(|until| until.min(at)));
                Ok(Some(End { at, reason, proven_until, told_in: known.told_in }))
            }
        }
    }

    /// Carries an end through: closes the lease, posts what it changes, gives back what lies after it, and settles the
    /// lease where a sample has reached the end.
    pub(super) fn finish_end(&mut self, before: &Lease, mut after: Lease, change: &UsageByHour) -> Applied<Lease> {
        self.close(&mut after)?;
        self.post_compute(&mut after, change, false)?;
        self.settle_if_over(&mut after);
        if before.settled_at.is_none() && after.settled_at.is_some() {
            self.count_unproven(&after);
        }
        self.post_hold(Some(before), &after)?;
        self.put_lease(after.clone());
        Ok(after)
    }

    /// Settles a lease whose end was told, where a sample has reached the end or its time to settle has passed.
    pub(super) fn settle_if_over(&self, ended: &mut Lease) {
        if ended.settled_at.is_none() {
            ended.settles_at = ended.effective_end().near(self.rules.settle_after_ms);
            if ended.unmetered().is_empty() {
                ended.settled_at = Some(self.now);
            } else if self.now >= ended.settles_at {
                ended.settled_at = Some(ended.settles_at);
            }
        }
    }

    /// Accepted readings of a lease around what this batch looks at: those that were loaded, else those of its row.
    pub(super) fn readings_of(&self, lease: &Lease) -> Vec<Reading> {
        let key = (lease.account.clone(), lease.id.clone());
        self.readings.get(&key).cloned().unwrap_or_else(|| lease.meter.last.into_iter().collect())
    }

    /// Names the host that runs a lease from now on.
    pub fn move_lease(&mut self, command: &MoveLease) -> Applied<Lease> {
        let id = (command.account.clone(), command.lease.clone());
        let lease = self.lease_for_change(&id)?.ok_or(CommandError::NotFound("lease"))?;
        let mut lease = Arc::unwrap_or_clone(lease);
        if lease.host.as_ref() != Some(&command.host) {
            lease.host = Some(command.host.clone());
            self.put_lease(lease.clone());
        }
        Ok(lease)
    }
}
