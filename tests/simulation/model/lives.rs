//! Ends, moves, sandboxes and their storage, and the clock.

use runtab::domain::id::{KeyId, LeaseId};
use runtab::domain::lease::EndReason;
use runtab::domain::storage_meter::{Holders, Reporter, StoragePoint};
use runtab::domain::time::Timestamp;
use runtab::domain::units::MebiBytes;

use super::{Account, End, Lease, Life, MINUTE};
use crate::naive_storage;

fn ts(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms).unwrap()
}

fn key(id: &str) -> KeyId {
    KeyId::parse(id).unwrap()
}

/// Works out the storage of a life anew.
pub(crate) fn restored(life: &mut Life) {
    let reports: Vec<StoragePoint> = life
        .reports
        .iter()
        .map(|(at, mib, by)| StoragePoint {
            at: ts(*at),
            storage: MebiBytes::new(*mib).unwrap(),
            by: by
                .as_ref()
                .map_or(Reporter::AtRest, |(start, lease)| Reporter::Lease(ts(*start), LeaseId::parse(lease).unwrap())),
        })
        .collect();
    let mut changes: Vec<_> = life.starts.iter().map(|(at, holder, _)| (ts(*at), key(holder))).collect();
    changes.sort_by_key(|(at, _)| *at);
    let holders = Holders { first: key(&life.first_key), changes };
    let stored = naive_storage::storage(&reports, life.deleted_at, &holders);
    life.stored = stored.into_iter().map(|((hour, key), sum)| ((hour.index(), key.to_string()), sum)).collect();
}

/// What a command about a lease or a sandbox answers.
pub(crate) type Done = Result<(), &'static str>;

impl Account {
    /// Settles by the clock what is due.
    pub(crate) fn settle_due(&mut self, now: i64) {
        for lease in self.leases.values_mut() {
            lease.settle_by_clock(now);
        }
    }

    /// Sets an end, as told, and posts what it changes.
    pub(crate) fn set_end(&mut self, now: i64, lease: &str, end: End, late: bool) {
        let known = self.leases.get_mut(lease).unwrap();
        known.end = Some(end);
        if !known.settled {
            let (from, to) = known.unmetered();
            known.settled = from >= to;
            known.settle_by_clock(now);
        }
        self.post(lease, late);
    }

    pub(crate) fn end(&mut self, now: i64, lease: &str, ended_at: Option<i64>, reason: EndReason) -> Done {
        let known = self.leases.get(lease).ok_or("not_found")?;
        let at = match reason {
            EndReason::Cancel if known.last_sample().is_some() => return Err("lease_conflict"),
            EndReason::Cancel => known.start,
            EndReason::HostLost => known.unmetered().0,
            EndReason::Stop | EndReason::Pause | EndReason::Delete | EndReason::Replaced => match ended_at {
                None => now.max(known.start),
                Some(at) if at < known.start || at > now + MINUTE => return Err("invalid"),
                Some(at) => at,
            },
        }
        .min(known.granted_end);
        if reason == EndReason::Delete && self.runs_other_than(lease, now) {
            return Err("lease_running");
        }
        let proven = (!known.settled && reason != EndReason::HostLost).then_some(at);
        let end = match known.end {
            Some(before) if at >= before.at => None,
            Some(_) if at < self.open_from => return Err("month_closed"),
            Some(before) => Some(End { at, proven: proven.or(before.proven.map(|until| until.min(at))) }),
            None => Some(End { at, proven }),
        };
        let (sandbox, life) = (known.sandbox.clone(), known.life);
        if let Some(end) = end {
            self.set_end(now, lease, end, false);
        }
        if reason == EndReason::Delete {
            let life = &mut self.sandboxes.get_mut(&sandbox).unwrap()[life];
            if life.deleted_at.is_none() {
                life.deleted_at = Some(at);
                restored(life);
            }
        }
        Ok(())
    }

    fn is_on(lease: &Lease, now: i64) -> bool {
        lease.start <= now && now < lease.effective_end()
    }

    fn runs_other_than(&self, lease: &str, now: i64) -> bool {
        let known = &self.leases[lease];
        self.leases.values().any(|other| {
            other.id != known.id
                && other.sandbox == known.sandbox
                && other.life == known.life
                && Self::is_on(other, now)
        })
    }

    pub(crate) fn move_lease(&mut self, lease: &str, host: &str) -> Done {
        self.leases.get_mut(lease).ok_or("not_found")?.host = Some(host.to_owned());
        Ok(())
    }

    pub(crate) fn put_sandbox(&mut self, now: i64, sandbox: &str, key: &str) -> Done {
        if self.keys.get(key).ok_or("not_found")?.revoked {
            return Err("key_revoked");
        }
        if let Some(life) = self.newest_life(sandbox) {
            match life.deleted_at {
                None => return if life.key() == key { Ok(()) } else { Err("conflict") },
                Some(deleted) if deleted > now => return Err("conflict"),
                Some(_) => {}
            }
        }
        self.begin_life(sandbox, key, now);
        Ok(())
    }

    pub(crate) fn begin_life(&mut self, sandbox: &str, key: &str, created_at: i64) {
        self.sandboxes.entry(sandbox.to_owned()).or_default().push(Life {
            created_at,
            deleted_at: None,
            first_key: key.to_owned(),
            starts: Vec::new(),
            reports: Vec::new(),
            stored: std::collections::BTreeMap::new(),
        });
    }

    pub(crate) fn delete_sandbox(&mut self, now: i64, sandbox: &str) -> Done {
        let lives = self.sandboxes.get(sandbox).ok_or("not_found")?;
        let newest = lives.len() - 1;
        let on = |lease: &&Lease| lease.sandbox == sandbox && lease.life == newest && Self::is_on(lease, now);
        if self.leases.values().any(|lease| on(&lease)) {
            return Err("lease_running");
        }
        let life = self.sandboxes.get_mut(sandbox).unwrap().last_mut().unwrap();
        if life.deleted_at.is_none() {
            life.deleted_at = Some(now);
            restored(life);
        }
        Ok(())
    }
}
