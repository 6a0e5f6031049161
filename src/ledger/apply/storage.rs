//! Storage: reports of a sandbox's disk, and to which key its time is attributed.

use super::super::working_set::WorkingSet;
use crate::domain::Overflow;
use crate::domain::id::{AccountId, SandboxId};
use crate::domain::sandbox::{LatestLease, Sandbox};
use crate::domain::storage_meter::{self, Holders, StorageByHour, StoragePoint};
use crate::domain::time::{Span, Timestamp};

impl WorkingSet {
    /// Posts a report of a life's disk, in order or late. The sandbox is known.
    pub(super) fn report_storage(
        &mut self,
        account: &AccountId,
        id: &SandboxId,
        life: i64,
        point: StoragePoint,
    ) -> Result<(), Overflow> {
        let Some(known) = self.life(account, id, life) else { return Ok(()) };
        let mut sandbox = known.clone();
        let last_at = sandbox.storage.last.as_ref().map(|last| last.at);
        let holders = self.holders_from(&sandbox, last_at.map_or(point.at, |at| at.min(point.at)));
        let change = if last_at.is_none_or(|at| at <= point.at) {
            let (last, change) = sandbox.storage.take(point.clone(), sandbox.deleted_at, &holders)?;
            sandbox.storage.last = last;
            change
        } else {
            let around = self.storage_points(&sandbox);
            storage_meter::take_late(&around, point.clone(), sandbox.deleted_at, &holders)?
        };
        self.remember_storage(&sandbox, point);
        self.post_storage(&mut sandbox, &change)?;
        self.put_sandbox(sandbox);
        Ok(())
    }

    /// What a deletion at `at` adds to (or takes from) a life's storage.
    pub(super) fn storage_to_deletion(&self, sandbox: &Sandbox, at: Timestamp) -> Result<StorageByHour, Overflow> {
        let from = sandbox.storage.last.as_ref().map_or(at, |last| last.at.min(at));
        sandbox.storage.delete(at, &self.storage_points(sandbox), &self.holders_from(sandbox, from))
    }

    /// Attributes the storage that is posted beyond the start of a lease in the past to that lease's key.
    pub(super) fn reattribute(&mut self, sandbox: &mut Sandbox, lease: &LatestLease) -> Result<(), Overflow> {
        let Some(posted_until) = sandbox.storage.last.as_ref().map(|last| last.at) else { return Ok(()) };
        if posted_until <= lease.starts_at {
            return Ok(());
        }
        let before = self.holders_from(sandbox, lease.starts_at);
        let mut after = before.clone();
        after.changes.push((lease.starts_at, lease.key.clone()));
        after.changes.sort_by_key(|(at, _)| *at);
        let span = Span { start: lease.starts_at, end: posted_until };
        let change = storage_meter::reattribute(&self.storage_points(sandbox), span, &before, &after)?;
        self.holders.insert(((sandbox.account.clone(), sandbox.id.clone()), sandbox.life), after);
        self.post_storage(sandbox, &change)
    }

    /// Reports that count around what this batch looks at, ascending: those that were loaded, else the latest.
    fn storage_points(&self, sandbox: &Sandbox) -> Vec<StoragePoint> {
        let key = ((sandbox.account.clone(), sandbox.id.clone()), sandbox.life);
        self.storage.get(&key).cloned().unwrap_or_else(|| sandbox.storage.last.clone().into_iter().collect())
    }

    fn remember_storage(&mut self, sandbox: &Sandbox, point: StoragePoint) {
        let key = ((sandbox.account.clone(), sandbox.id.clone()), sandbox.life);
        if let Some(points) = self.storage.get_mut(&key) {
            points.push(point);
            *points = storage_meter::counting(std::mem::take(points));
        }
    }

    /// To which keys a life's storage is attributed from an instant on.
    fn holders_from(&self, sandbox: &Sandbox, from: Timestamp) -> Holders {
        let key = ((sandbox.account.clone(), sandbox.id.clone()), sandbox.life);
        if let Some(holders) = self.holders.get(&key) {
            return holders.clone();
        }
        match &sandbox.latest {
            Some(latest) if latest.starts_at <= from => Holders { first: latest.key.clone(), changes: Vec::new() },
            // Not loaded because there is no other: before its only lease a sandbox is its first key's.
            Some(latest) => {
                Holders { first: sandbox.first_key.clone(), changes: vec![(latest.starts_at, latest.key.clone())] }
            }
            None => Holders { first: sandbox.first_key.clone(), changes: Vec::new() },
        }
    }
}
