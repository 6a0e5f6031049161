//! What hosts report in a history: samples in order, late, twice, and wrong ones.

use runtab::ledger::command::Ingest;

use crate::driver::{Driver, Kind};
use crate::model::samples::Outcome;
use crate::model::{HOUR, Lease, MINUTE, Reading, SECOND};
use crate::send::{self, Sent};

impl Driver {
    /// Makes samples of some leases; sends some of them, and some that were held back, in one batch.
    pub(crate) async fn samples(&mut self) {
        let owner = self.any_account();
        let mut batch = Vec::new();
        for _ in 0..self.rng.within(1, 3) {
            let Some(lease) = self.any_lease(&owner) else { return };
            self.sample_lease(&owner, &lease, &mut batch);
        }
        if self.kind == Kind::Orderly {
            batch.sort_by_key(|sent| sent.at);
        } else {
            let hold = self.rng.chance(30);
            if hold {
                let kept = usize::try_from(self.rng.within(0, i64::try_from(batch.len()).unwrap())).unwrap();
                self.rng.shuffle(&mut batch);
                self.delayed.extend(batch.drain(kept..));
            }
            for _ in 0..self.rng.within(0, 3) {
                let last = i64::try_from(self.delayed.len()).unwrap() - 1;
                if last >= 0 {
                    batch.push(self.delayed.swap_remove(usize::try_from(self.rng.within(0, last)).unwrap()));
                }
            }
            if self.rng.chance(30) {
                batch.extend(self.rng.pick(&self.taken).cloned());
            }
            if self.rng.chance(50) {
                self.rng.shuffle(&mut batch);
            }
        }
        self.send_samples(batch).await;
    }

    fn sample_lease(&mut self, owner: &str, id: &str, batch: &mut Vec<Sent>) {
        let lease = self.accounts[owner].leases[id].clone();
        if self.kind == Kind::Orderly && lease.settled {
            return;
        }
        let planned = batch.iter().chain(&self.delayed).filter(|sent| sent.lease.as_deref() == Some(id));
        let mut seen: Vec<(i64, Reading)> = planned.map(|sent| (sent.at, sent.reading)).collect();
        seen.extend(lease.samples.iter().map(|(at, reading)| (*at, *reading)));
        seen.sort_by_key(|(at, _)| *at);
        let count = if self.rng.chance(8) { self.rng.within(20, 90) } else { self.rng.within(1, 5) };
        for _ in 0..count {
            let wild = self.kind.is_any() && self.rng.chance(10);
            let next = if wild { Some(self.wild(&lease, &seen)) } else { self.next(&lease, &seen) };
            let Some((at, reading)) = next else { break };
            if !wild {
                seen.push((at, reading));
                seen.sort_by_key(|(at, _)| *at);
            }
            let wrong = self.kind.is_any() && self.rng.chance(1);
            let sandbox = if wrong { "s-other".to_owned() } else { lease.sandbox.clone() };
            batch.push(Sent { account: owner.to_owned(), sandbox, lease: Some(id.to_owned()), at, reading });
        }
    }

    /// A reading that goes on from the last one, or lies between two.
    fn next(&mut self, lease: &Lease, seen: &[(i64, Reading)]) -> Option<(i64, Reading)> {
        let bare = Reading { epoch: 0, cpu: 0, memory: None, storage: None };
        let until = (self.now + if self.rng.chance(10) { MINUTE } else { 0 }).min(lease.granted_end + MINUTE);
        let Some((last, before)) = seen.last().copied() else {
            // A baseline, now and then; in a replayed history it begins at 0, so that it may come late.
            if self.rng.chance(30) && self.kind != Kind::Replayed {
                let at = lease.start - if self.rng.chance(50) { 0 } else { self.rng.within(0, MINUTE) };
                let cpu = self.rng.within(0, 5_000_000_000);
                return (at <= self.now).then_some((at, Reading { cpu, ..bare }));
            }
            return self.go_on(lease, (lease.start, bare), until);
        };
        if self.rng.chance(20) && self.kind != Kind::Orderly {
            let place = self.rng.within(0, i64::try_from(seen.len()).unwrap() - 1);
            let place = usize::try_from(place).unwrap();
            let (to, later) = seen[place];
            let (from, earlier) = if place == 0 { (lease.start, bare) } else { seen[place - 1] };
            if to - from < 2 || earlier.epoch != later.epoch || later.cpu < earlier.cpu {
                return None;
            }
            let at = self.rng.within(from + 1, to - 1);
            let rise = i128::from(later.cpu - earlier.cpu) * i128::from(at - from) / i128::from(to - from);
            let cpu = earlier.cpu + i64::try_from(rise).unwrap();
            return Some((at, Reading { epoch: earlier.epoch, cpu, memory: self.memory(lease), storage: self.disk() }));
        }
        self.go_on(lease, (last, before), until)
    }

    fn go_on(&mut self, lease: &Lease, from: (i64, Reading), until: i64) -> Option<(i64, Reading)> {
        if from.0 >= until {
            return None;
        }
        let step = match self.rng.within(0, 9) {
            0 => MINUTE - from.0 % MINUTE,
            1 => HOUR - from.0 % HOUR,
            2 => until - from.0,
            3 => lease.effective_end() - from.0,
            4..7 => self.rng.within(1, 90 * SECOND),
            _ => self.rng.within(1, until - from.0),
        };
        let at = from.0 + step;
        if step <= 0 || at > until {
            return None;
        }
        let renew = self.rng.chance(5);
        let busy = *self.rng.pick(&[0, 0, 10, 50, 51, 300, 1_000, 1_000, 1_700]).unwrap();
        let rise = (lease.vcpus * busy * step).max(0) - if busy > 0 { self.rng.within(0, 1) } else { 0 };
        let (epoch, counter) = if renew { (from.1.epoch + 1, 0) } else { (from.1.epoch, from.1.cpu) };
        Some((at, Reading { epoch, cpu: counter + rise.max(0), memory: self.memory(lease), storage: self.disk() }))
    }

    fn memory(&mut self, lease: &Lease) -> Option<i64> {
        self.rng.chance(30).then(|| self.rng.within(0, lease.memory + 100))
    }

    fn disk(&mut self) -> Option<i64> {
        self.rng.chance(15).then(|| if self.rng.chance(5) { 3_000 } else { self.rng.within(0, 1_500) })
    }

    /// A reading that may be wrong in any way.
    fn wild(&mut self, lease: &Lease, seen: &[(i64, Reading)]) -> (i64, Reading) {
        let near = self.rng.pick(seen).copied();
        let (at, base) = near.unwrap_or((lease.start, Reading { epoch: 0, cpu: 0, memory: None, storage: None }));
        let at = match self.rng.within(0, 3) {
            0 => at,
            1 => self.now + self.rng.within(0, 3 * MINUTE),
            2 => lease.start - self.rng.within(0, 2 * MINUTE),
            _ => at + self.rng.within(-100, 100_000),
        };
        let cpu = (base.cpu + self.rng.within(-1_000, 10_000_000)).max(0);
        (at, Reading { epoch: (base.epoch + self.rng.within(-1, 1)).max(0), cpu, ..base })
    }

    pub(crate) async fn at_rest(&mut self) {
        let owner = self.any_account();
        let known: Vec<String> = self.accounts[&owner].sandboxes.keys().cloned().collect();
        let mut batch = Vec::new();
        let most = if self.rng.chance(5) { 70 } else { 4 };
        for _ in 0..self.rng.within(1, most) {
            let Some(sandbox) = self.rng.pick(&known) else { return };
            let lives = &self.accounts[&owner].sandboxes[sandbox];
            let (first, newest) = (lives[0].created_at, lives.last().unwrap());
            let around = newest.reports.last().map_or(newest.created_at, |(at, _, _)| *at);
            let at = match self.rng.within(0, 9) {
                0 => self.rng.within(first - 2 * MINUTE, self.now + 2 * MINUTE),
                1 => around,
                2..4 => around + self.rng.within(-5 * MINUTE, 5 * MINUTE),
                4 => newest.deleted_at.unwrap_or(self.now) + self.rng.within(-MINUTE, MINUTE),
                _ => self.rng.within(around.min(self.now), self.now),
            };
            let storage = Some(if self.rng.chance(3) { 3_000 } else { self.rng.within(0, 1_500) });
            let reading = Reading { epoch: 0, cpu: 0, memory: None, storage };
            batch.push(Sent { account: owner.clone(), sandbox: sandbox.clone(), lease: None, at: at.max(0), reading });
        }
        self.send_samples(batch).await;
    }

    /// Sends a batch twice. The auditor takes it sandbox by sandbox in the order of time, as the ledger does.
    pub(crate) async fn send_samples(&mut self, batch: Vec<Sent>) {
        let host = (self.kind.is_any() && self.rng.chance(40)).then(|| format!("h{}", self.rng.within(1, 2)));
        for _ in 0..2 {
            let mut order: Vec<usize> = (0..batch.len()).collect();
            order.sort_by_key(|index| {
                let sent = &batch[*index];
                (sent.account.clone(), sent.sandbox.clone(), sent.at, *index)
            });
            let mut expected = vec![Outcome::Accepted; batch.len()];
            for index in order {
                let sent = &batch[index];
                let account = self.accounts.get_mut(&sent.account).unwrap();
                expected[index] = if let Some(lease) = &sent.lease {
                    account.sample(self.now, host.as_deref(), (&sent.sandbox, lease), sent.at, sent.reading)
                } else {
                    let storage = sent.reading.storage.unwrap();
                    account.at_rest(self.now, host.as_deref(), &sent.sandbox, sent.at, storage)
                };
            }
            self.say(|| format!("samples of {host:?}: {batch:?} {expected:?}"));
            let samples = batch.iter().map(Sent::sample).collect();
            let command = Ingest { host: host.as_deref().map(send::host), samples };
            let got: Vec<Outcome> = self.ledger.ingest(command).await.unwrap().into_iter().map(send::outcome).collect();
            for (index, sent) in batch.iter().enumerate() {
                let (got, expected) = (got[index], expected[index]);
                assert_eq!(got, expected, "{sent:?} at {} of {host:?}", self.now);
            }
            let accepted = batch.iter().zip(&expected).filter(|(_, outcome)| **outcome == Outcome::Accepted);
            self.taken.extend(accepted.map(|(sent, _)| sent.clone()));
        }
    }
}
