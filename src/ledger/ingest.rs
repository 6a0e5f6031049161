//! A batch of samples: loaded together, judged one by one in the order of their time.
//!
//! Samples of one sandbox are taken in the order of their instants, whatever the order of the request: so nothing is
//! late that came with what it is late for. The bill is the same either way; this way it needs no evidence.

use std::collections::{BTreeMap, BTreeSet};

use super::apply::Fault;
use super::command::SampleOutcome;
use super::evidence;
use super::load::{self, Loaded};
use super::recall::Recalled;
use super::working_set::{LeaseKey, SandboxKey, WorkingSet};
use crate::domain::id::{AccountId, HostId, LeaseId, SandboxId};
use crate::domain::sample::{Reading, RejectCode, Sample, Seen};
use crate::domain::time::{Span, Timestamp};
use crate::store::{StoreError, Tx};

/// A sample and the host whose token sent it.
pub type Sent = (Option<HostId>, Sample);

/// Loads and takes samples. Answers one outcome each, in the order given.
///
/// Leases that are recalled are assumed, and the others of the batch must be none; [`StoreError::Again`] where a sample
/// is not simply accepted then, for what it was judged by may have changed.
pub(super) async fn ingest(
    tx: &mut Tx,
    set: &mut WorkingSet,
    sent: &[Sent],
    recalled: Option<BTreeMap<LeaseKey, Recalled>>,
) -> Loaded<Vec<SampleOutcome>> {
    let mut accounts: BTreeSet<AccountId> = BTreeSet::new();
    for (_, sample) in sent {
        if !accounts.contains(&sample.account) {
            accounts.insert(sample.account.clone());
        }
    }
    let running: BTreeSet<LeaseKey> = sent.iter().filter_map(|(_, sample)| lease_of(sample)).collect();
    let assumes = recalled.is_some();
    load::samples(tx, set, &accounts, &running, recalled).await?;
    load_sandboxes(tx, set, sent).await?;
    load_corrections(tx, set, sent, &running).await?;

    let mut order: Vec<(usize, &Sent)> = sent.iter().enumerate().collect();
    order.sort_by_key(|(index, (_, sample))| (&sample.account, &sample.sandbox, sample.seen.at(), *index));
    let mut outcomes = vec![SampleOutcome::Accepted; sent.len()];
    for (index, (host, sample)) in order {
        let outcome = set.sample(host.as_ref(), sample).unwrap_or_else(|fault| {
            SampleOutcome::Rejected(match fault {
                Fault::Overflow => RejectCode::InvalidSample,
                Fault::Corrupt => RejectCode::Archived,
            })
        });
        if let Some(place) = outcomes.get_mut(index) {
            *place = outcome;
        }
    }
    if assumes && outcomes.iter().any(|outcome| !matches!(outcome, SampleOutcome::Accepted)) {
        return Err(StoreError::Again("a sample of a lease that is assumed is not accepted".to_owned()));
    }
    Ok(outcomes)
}

/// The lease that a sample is of; `None`: at rest.
pub(super) fn lease_of(sample: &Sample) -> Option<LeaseKey> {
    match &sample.seen {
        Seen::Running(lease, _) => Some((sample.account.clone(), lease.clone())),
        Seen::AtRest(_) => None,
    }
}

/// Lives of sandboxes whose storage is reported, and the newest leases of those at rest (whose host may report).
async fn load_sandboxes(tx: &mut Tx, set: &mut WorkingSet, sent: &[Sent]) -> Loaded<()> {
    let mut lives: BTreeMap<SandboxKey, Timestamp> = BTreeMap::new();
    let mut at_rest: BTreeSet<SandboxKey> = BTreeSet::new();
    for (_, sample) in sent {
        let key = (sample.account.clone(), sample.sandbox.clone());
        let from = match &sample.seen {
            Seen::Running(lease, reading) if reading.storage.is_some() => {
                let lease = set.leases.get(&(sample.account.clone(), lease.clone()));
                lease.map(|lease| lease.window.start.min(reading.at))
            }
            Seen::Running(_, _) => None,
            Seen::AtRest(report) => {
                at_rest.insert(key.clone());
                Some(report.at)
            }
        };
        if let Some(from) = from {
            let at = lives.entry(key).or_insert(from);
            *at = from.min(*at);
        }
    }
    if lives.is_empty() {
        return Ok(());
    }
    let from: Vec<(AccountId, SandboxId, Timestamp)> =
        lives.iter().map(|((account, sandbox), at)| (account.clone(), sandbox.clone(), *at)).collect();
    set.take_sandboxes(tx.lock_sandboxes(&from).await?);
    let newest: BTreeSet<LeaseKey> = at_rest
        .iter()
        .flat_map(|key| set.sandboxes.get(key).into_iter().flat_map(|known| &known.lives))
        .filter_map(|life| life.latest.as_ref().map(|latest| (life.account.clone(), latest.id.clone())))
        .filter(|key| !set.leases.contains_key(key))
        .collect();
    if !newest.is_empty() {
        set.take_leases(tx.leases(&newest).await?);
    }
    evidence::for_reports(tx, set, &lives).await
}

/// What late samples, samples after an end, and hours that draw on free time need besides the leases' rows.
async fn load_corrections(
    tx: &mut Tx,
    set: &mut WorkingSet,
    sent: &[Sent],
    running: &BTreeSet<LeaseKey>,
) -> Loaded<()> {
    let mut late: BTreeMap<LeaseKey, Span> = BTreeMap::new();
    let mut tails: BTreeSet<LeaseKey> = BTreeSet::new();
    for (_, sample) in sent {
        let Seen::Running(lease, reading) = &sample.seen else { continue };
        let key = (sample.account.clone(), lease.clone());
        let Some(known) = set.leases.get(&key) else { continue };
        // Where the latest reading was voided, what comes is a correction: it may post hours that were left before.
        let last = known.meter.last.map(|last| last.at);
        let voided =
            known.voided_until.is_some_and(|until| reading.at <= until || last.is_none_or(|last| last < until));
        if !voided && last.is_none_or(|last| last < reading.at) {
            if !known.open {
                tails.insert(key);
            }
        } else if known.voided_until.is_some() || !is_in_row(set, &sample.account, lease, reading) {
            let span = late.entry(key).or_insert(Span { start: reading.at, end: reading.at });
            *span = Span { start: span.start.min(reading.at), end: span.end.max(reading.at) };
        }
    }
    evidence::for_late(tx, set, &late).await?;
    evidence::for_tails(tx, set, &tails).await?;
    let drawn = running.iter().filter_map(|key| {
        let open = set.leases.get(key)?.open_hour.filter(|open| open.totals.free_ms > 0)?;
        let hour = ((key.0.clone(), key.1.clone()), open.hour);
        (!set.draws.contains_key(&hour)).then(|| (key.0.clone(), key.1.clone(), open.hour))
    });
    let drawn: BTreeSet<(AccountId, LeaseId, _)> = drawn.collect();
    evidence::load_draws(tx, set, &drawn).await
}

/// Whether a lease's own row has a sample of this very instant, so that it can be judged without more evidence.
fn is_in_row(set: &WorkingSet, account: &AccountId, lease: &LeaseId, reading: &Reading) -> bool {
    let Some(lease) = set.leases.get(&(account.clone(), lease.clone())) else { return false };
    let is_last = lease.meter.last.is_some_and(|last| last.at == reading.at);
    is_last || lease.page.samples().is_ok_and(|samples| samples.iter().any(|sample| sample.at == reading.at))
}
