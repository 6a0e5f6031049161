//! Samples: what becomes of each, judged in the documented order.

use super::lives::restored;
use super::{Account, Lease, MINUTE, Reading};

/// Why a sample is not used, or what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Accepted,
    Duplicate,
    Rejected(&'static str),
}

use Outcome::{Accepted, Duplicate, Rejected};

/// Judges a reading against its neighbours.
fn contradiction(lease: &Lease, at: i64, reading: &Reading) -> Option<&'static str> {
    let before = lease.samples.range(..at).next_back();
    let after = lease.samples.range(at + 1..).next();
    let mut pairs: Vec<((i64, Reading), (i64, Reading))> = Vec::new();
    pairs.extend(before.map(|(from, other)| ((*from, *other), (at, *reading))));
    pairs.extend(after.map(|(to, other)| ((at, *reading), (*to, *other))));
    if pairs.iter().any(|((_, earlier), (_, later))| earlier.epoch > later.epoch) {
        return Some("stale_epoch");
    }
    if pairs.iter().any(|((_, earlier), (_, later))| earlier.epoch == later.epoch && earlier.cpu > later.cpu) {
        return Some("counter_regressed");
    }
    if before.is_none() && at > lease.start {
        let began = Reading { epoch: -1, cpu: 0, memory: None, storage: None };
        pairs.push(((lease.start, began), (at, *reading)));
    }
    let spike = pairs.iter().any(|((from, earlier), (to, later))| {
        let step = later.cpu - if earlier.epoch == later.epoch { earlier.cpu } else { 0 };
        step > 2 * lease.vcpus * 1_000 * (to - from) + 1_000_000
    });
    spike.then_some("cpu_implausible")
}

impl Account {
    /// A sample of a running sandbox.
    pub(crate) fn sample(
        &mut self,
        now: i64,
        host: Option<&str>,
        (sandbox, lease): (&str, &str),
        at: i64,
        reading: Reading,
    ) -> Outcome {
        let Some(known) = self.leases.get_mut(lease) else { return Rejected("unknown_lease") };
        if known.sandbox != sandbox {
            return Rejected("unknown_sandbox");
        }
        let same = known.samples.get(&at);
        if same == Some(&reading) {
            return Duplicate;
        }
        if host.is_some_and(|host| known.host.as_ref().is_some_and(|other| other != host)) {
            return Rejected("wrong_host");
        }
        if at > now + MINUTE {
            return Rejected("future");
        }
        if at < known.start - MINUTE || at > known.granted_end + MINUTE {
            return Rejected("outside_lease");
        }
        if same.is_some() {
            return Rejected("conflict");
        }
        if let Some(code) = contradiction(known, at, &reading) {
            return Rejected(code);
        }
        let late = known.settled || known.samples.range(at..).next().is_some();
        known.samples.insert(at, reading);
        known.host = known.host.clone().or_else(|| host.map(str::to_owned));
        let over = known.end.is_some() || now >= known.granted_end;
        known.settled |= over && known.last_sample().is_some_and(|last| last >= known.effective_end());
        known.settled |= over && known.effective_end() <= known.start;
        let (life, start) = (known.life, known.start);
        self.post(lease, late);
        if let Some(storage) = reading.storage {
            let life = &mut self.sandboxes.get_mut(sandbox).unwrap()[life];
            life.reports.push((at, storage, Some((start, lease.to_owned()))));
            restored(life);
        }
        Accepted
    }

    /// A sample of a sandbox at rest.
    pub(crate) fn at_rest(&mut self, now: i64, host: Option<&str>, sandbox: &str, at: i64, storage: i64) -> Outcome {
        let Some(lives) = self.sandboxes.get_mut(sandbox) else { return Rejected("unknown_sandbox") };
        let place = lives.iter().rposition(|life| life.created_at <= at).unwrap_or(0);
        let life = &mut lives[place];
        let same = life.reports.iter().find(|(when, _, by)| *when == at && by.is_none());
        if same.is_some_and(|(_, mib, _)| *mib == storage) {
            return Duplicate;
        }
        let runs_on = life.latest().and_then(|(_, _, lease)| self.leases[lease].host.as_ref());
        if host.is_some_and(|host| runs_on.is_some_and(|other| other != host)) {
            return Rejected("wrong_host");
        }
        if at > now + MINUTE {
            return Rejected("future");
        }
        if at < life.created_at - MINUTE || life.deleted_at.is_some_and(|deleted| at > deleted + MINUTE) {
            return Rejected("outside_lease");
        }
        if same.is_some() {
            return Rejected("conflict");
        }
        life.reports.push((at, storage, None));
        restored(life);
        Accepted
    }
}
