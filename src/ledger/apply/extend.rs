//! Extending: the added window passes the same gate as a new lease.

use std::sync::Arc;

use super::super::command::{CommandError, ExtendLease};
use super::super::working_set::WorkingSet;
use super::{Applied, invalid, lease_conflict};
use crate::domain::admission::Ask;
use crate::domain::lease::{LEASE_MS_MAX, Lease};
use crate::domain::time::Span;
use crate::store::changes::Extension;

impl WorkingSet {
    /// Adds time to a lease's end. The same extension again answers the lease as it is now.
    pub fn extend(&mut self, command: &ExtendLease) -> Applied<Lease> {
        let id = (command.account.clone(), command.lease.clone());
        let lease = self.lease_for_change(&id)?.ok_or(CommandError::NotFound("lease"))?;
        let extension = Extension {
            account: command.account.clone(),
            lease: command.lease.clone(),
            id: command.id.clone(),
            timeout_ms: command.timeout_ms,
            max_cost: command.max_cost,
            at: self.now,
        };
        let key = (id.0.clone(), id.1.clone(), command.id.clone());
        if let Some(known) = self.extensions.get(&key) {
            let same = known.timeout_ms == extension.timeout_ms && known.max_cost == extension.max_cost;
            let detail = || format!("extension {} of this lease exists with other content", command.id);
            return if same { Ok(Arc::unwrap_or_clone(lease)) } else { Err(lease_conflict(&lease.id, detail())) };
        }
        if lease.end.is_some() || self.now >= lease.window.end {
            return Err(lease_conflict(&lease.id, "the lease is over; a new lease wakes its sandbox"));
        }
        let end = lease.window.end.plus_ms(command.timeout_ms)?;
        if end.since(lease.window.start) > LEASE_MS_MAX {
            return Err(invalid("/timeout_seconds", "a lease lasts at most 31 days, extensions included"));
        }
        let ask = Ask {
            lease: lease.id.clone(),
            sandbox: lease.sandbox.clone(),
            shape: lease.shape,
            window: Span { start: lease.window.end, end },
            max_cost: command.max_cost,
            disk: self.disk(&command.account, &lease.sandbox),
        };
        self.ask_for_more(&command.account, &lease.key, ask)?;
        self.extensions.insert(key, extension.clone());
        self.changes.extensions.push(extension);
        self.lengthen(&lease, end)
    }

    fn lengthen(&mut self, lease: &Lease, end: crate::domain::time::Timestamp) -> Applied<Lease> {
        let prices = self.prices(&lease.account);
        let mut longer = lease.clone();
        longer.window.end = end;
        longer.settles_at = end.near(self.rules.settle_after_ms);
        // A host whose clock is ahead may have sampled past the old end: then the longer window is partly proven.
        let around = self.readings_of(lease);
        let (meter, change) = lease.meter.move_end(&lease.terms(&prices), &longer.terms(&prices), &around)?;
        longer.meter = meter;
        self.post_compute(&mut longer, &change, false)?;
        self.post_hold(Some(lease), &longer)?;
        self.put_lease(longer.clone());
        Ok(longer)
    }
}
