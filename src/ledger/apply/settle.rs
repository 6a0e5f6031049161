//! Settling: a lease that is over, and of which no more is awaited, gives back what it holds.
//!
//! A lease counts as settled by the clock, whether or not a sweep has run: every command that touches a lease settles
//! it first when its time has come.

use std::sync::Arc;

use super::super::working_set::{LeaseKey, WorkingSet};
use super::Fault;
use crate::domain::id::AccountId;
use crate::domain::lease::Lease;
use crate::domain::time::Timestamp;
use crate::store::changes::PageOwner;

/// Whose evidence a lease's samples are.
pub(super) fn page_owner(lease: &Lease) -> PageOwner {
    PageOwner {
        account: lease.account.clone(),
        sandbox: lease.sandbox.clone(),
        life: lease.life,
        lease: Some(lease.id.clone()),
    }
}

impl WorkingSet {
    /// A lease for a command to change: settled first, when its time has come. The change of its hold from what is
    /// answered here is the caller's to post.
    pub(in crate::ledger) fn lease_for_change(&mut self, key: &LeaseKey) -> Result<Option<Arc<Lease>>, Fault> {
        let Some(lease) = self.leases.get(key).cloned() else { return Ok(None) };
        if lease.settled_at.is_some() || self.now < lease.settles_at {
            return Ok(Some(lease));
        }
        let at = lease.settles_at;
        self.settle(&lease, at).map(Some)
    }

    /// Settles a lease: closes its open hour and page, and gives back its hold.
    pub(super) fn settle(&mut self, lease: &Lease, at: Timestamp) -> Result<Arc<Lease>, Fault> {
        let mut settled = lease.clone();
        settled.settled_at = Some(at);
        self.close(&mut settled)?;
        self.post_hold(Some(lease), &settled)?;
        self.count_unproven(&settled);
        let settled = Arc::new(settled);
        self.put_lease(Arc::clone(&settled));
        Ok(settled)
    }

    /// Closes what a lease keeps open in its row: it is no longer its sandbox's running lease.
    pub(super) fn close(&mut self, lease: &mut Lease) -> Result<(), Fault> {
        lease.open = false;
        self.close_hour(lease)?;
        if let Some(page) = lease.page.close()? {
            self.changes.pages.push((page_owner(lease), page));
        }
        Ok(())
    }

    /// Settles every locked lease of an account whose time has come. Answers how many.
    pub fn settle_due(&mut self, account: &AccountId) -> Result<usize, Fault> {
        let due: Vec<LeaseKey> = self
            .leases
            .iter()
            .filter(|(key, lease)| {
                let due = lease.settled_at.is_none() && self.now >= lease.settles_at;
                key.0 == *account && due && self.may_change(key)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in &due {
            self.lease_for_change(key)?;
        }
        Ok(due.len())
    }
}
