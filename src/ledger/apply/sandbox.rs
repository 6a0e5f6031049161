//! Sandboxes without a lease: images and snapshots, and deletion.

use super::super::command::{CommandError, ConflictCode, DeleteSandbox, PutSandbox};
use super::super::working_set::WorkingSet;
use super::{Applied, id_conflict};
use crate::domain::id::{AccountId, SandboxId};
use crate::domain::lease::Lease;
use crate::domain::sample_page::OpenPage;
use crate::domain::sandbox::Sandbox;
use crate::domain::storage_meter::StorageMeter;
use crate::domain::time::{Span, Timestamp};

impl WorkingSet {
    /// Registers a sandbox that has no lease. The same again changes nothing; another key is a conflict.
    pub fn put_new_sandbox(&mut self, command: &PutSandbox) -> Applied<()> {
        if !self.accounts.contains_key(&command.account) {
            return Err(CommandError::NotFound("account"));
        }
        match self.keys.get(&(command.account.clone(), command.key.clone())) {
            None => return Err(CommandError::NotFound("key")),
            Some(key) if key.revoked_at.is_some() => {
                return Err(CommandError::Refused(crate::domain::admission::Refusal::KeyRevoked));
            }
            Some(_) => {}
        }
        let newest = self.newest_life(&command.account, &command.sandbox);
        let life = newest.map_or(0, |life| life.life);
        if let Some(known) = newest.filter(|life| life.deleted_at.is_none()) {
            return if *known.key() == command.key {
                Ok(())
            } else {
                Err(id_conflict(format!("sandbox {} exists under key {}", known.id, known.key())))
            };
        }
        if newest.and_then(|life| life.deleted_at).is_some_and(|at| at > self.now) {
            return Err(id_conflict(format!("sandbox {} is being deleted; try again in a minute", command.sandbox)));
        }
        self.put_sandbox(Sandbox {
            account: command.account.clone(),
            id: command.sandbox.clone(),
            life: life.checked_add(1).ok_or(crate::domain::Overflow)?,
            first_key: command.key.clone(),
            created_at: self.now,
            deleted_at: None,
            deleted_in: None,
            latest: None,
            storage: StorageMeter::default(),
            page: OpenPage::default(),
            voided_until: None,
        });
        Ok(())
    }

    /// Deletes a sandbox at rest; one that is deleted already stays so.
    pub fn delete_sandbox(&mut self, command: &DeleteSandbox) -> Applied<()> {
        let newest = self.newest_life(&command.account, &command.sandbox);
        let life = newest.ok_or(CommandError::NotFound("sandbox"))?.life;
        let on = Span { start: self.now, end: self.now.near(1) };
        let running = self.leases_of(&command.account, &command.sandbox);
        if let Some(lease) = running.into_iter().find(|lease| lease.life == life && is_on(lease, on)) {
            return Err(running_conflict(lease));
        }
        self.delete_life(&command.account, &command.sandbox, life, self.now)
    }

    /// Whether the sandbox of a lease may be deleted with it: no other lease of that life is on.
    pub(super) fn may_delete(&self, lease: &Lease) -> Applied<()> {
        let on = Span { start: self.now, end: self.now.near(1) };
        let mut others = self.leases_of(&lease.account, &lease.sandbox).filter(|other| other.id != lease.id);
        match others.find(|other| other.life == lease.life && is_on(other, on)) {
            Some(other) => Err(running_conflict(other)),
            None => Ok(()),
        }
    }

    /// Ends a life of a sandbox: counts the time of its last storage report up to then.
    pub(super) fn delete_life(&mut self, account: &AccountId, id: &SandboxId, life: i64, at: Timestamp) -> Applied<()> {
        let Some(known) = self.life(account, id, life).filter(|life| life.deleted_at.is_none()) else { return Ok(()) };
        let mut sandbox = known.clone();
        let change = self.storage_to_deletion(&sandbox, at)?;
        sandbox.deleted_at = Some(at);
        sandbox.deleted_in = Some(self.open_month);
        self.close_storage_hour(&mut sandbox)?;
        self.post_storage(&mut sandbox, &change)?;
        self.put_sandbox(sandbox);
        Ok(())
    }
}

fn is_on(lease: &Lease, span: Span) -> bool {
    lease.effective().meets(span)
}

fn running_conflict(lease: &Lease) -> CommandError {
    CommandError::Conflict {
        code: ConflictCode::LeaseRunning,
        detail: format!("lease {} of this sandbox is on; end it first", lease.id),
        lease: Some(lease.id.clone()),
    }
}
