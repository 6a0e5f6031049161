//! Evidence for corrections: pages around late samples and early ends, and the hours and draws that they change.
//!
//! A sample in order needs none of this. A page never spans a UTC hour, so the store finds the pages around an instant
//! by scans of their key alone.

use std::collections::{BTreeMap, BTreeSet};

use super::load::Loaded;
use super::working_set::{LeaseKey, SandboxKey, WorkingSet};
use crate::domain::id::LeaseId;
use crate::domain::lease::Lease;
use crate::domain::sample::{Reading, StorageReport};
use crate::domain::sample_page::{self, PageSample};
use crate::domain::sandbox::Sandbox;
use crate::domain::storage_meter::{self, Holders, Reporter, StoragePoint};
use crate::domain::time::{Hour, Span, Timestamp};
use crate::store::changes::PageOwner;
use crate::store::shapes::{LeaseHours, OwnedPage, PageProbe};
use crate::store::{StoreError, Tx};

/// Loads what moving ends needs: readings where an end lies before the last one, hours of what changes.
pub async fn for_cuts(tx: &mut Tx, set: &mut WorkingSet, cuts: &BTreeMap<LeaseKey, Timestamp>) -> Loaded<()> {
    let mut spans: BTreeMap<LeaseKey, Span> = BTreeMap::new();
    let mut late: BTreeMap<LeaseKey, Span> = BTreeMap::new();
    for (key, at) in cuts {
        let Some(lease) = set.leases.get(key) else { continue };
        let metered = lease.metered_until();
        let posted = lease.end.and_then(|end| end.proven_until).map_or(metered, |until| until.max(metered));
        let last = lease.meter.last.map_or(lease.window.start, |last| last.at);
        if *at < last {
            late.insert(key.clone(), Span { start: *at, end: last });
        }
        // From the minute of what is metered (its floor may change) to the later of both ends.
        let span = Span { start: metered.min(*at), end: posted.max(*at).max(lease.effective_end().min(set.now)) };
        spans.insert(key.clone(), span);
    }
    load_readings(tx, set, &late).await?;
    load_hours(tx, set, &spans).await
}

/// Loads what late samples need. `late`: of each lease, from the earliest to the latest late sample of the batch.
pub async fn for_late(tx: &mut Tx, set: &mut WorkingSet, late: &BTreeMap<LeaseKey, Span>) -> Loaded<()> {
    load_readings(tx, set, late).await?;
    let mut spans = BTreeMap::new();
    for (key, span) in late {
        let Some(lease) = set.leases.get(key) else { continue };
        let around = set.readings.get(key).map(Vec::as_slice).unwrap_or_default();
        let before = around.iter().rev().find(|other| other.at < span.start).map_or(lease.window.start, |one| one.at);
        let after = around.iter().find(|other| other.at > span.end).map_or(span.end, |one| one.at);
        let posted = lease.end.and_then(|end| end.proven_until).unwrap_or(after);
        spans.insert(key.clone(), Span { start: before.min(span.start), end: after.max(posted) });
    }
    load_hours(tx, set, &spans).await
}

/// Loads hours and draws that samples after an end change: those of the tail.
pub async fn for_tails(tx: &mut Tx, set: &mut WorkingSet, leases: &BTreeSet<LeaseKey>) -> Loaded<()> {
    let mut spans = BTreeMap::new();
    for key in leases {
        let Some(lease) = set.leases.get(key) else { continue };
        spans.insert(key.clone(), Span { start: lease.metered_until(), end: lease.effective_end() });
    }
    load_hours(tx, set, &spans).await
}

async fn load_readings(tx: &mut Tx, set: &mut WorkingSet, late: &BTreeMap<LeaseKey, Span>) -> Loaded<()> {
    let probe = |(key, span): (&LeaseKey, &Span)| {
        let lease = set.leases.get(key)?;
        Some(PageProbe { owner: owner_of(lease), storage: false, from: span.start, to: span.end })
    };
    let probes: Vec<PageProbe> = late.iter().filter_map(probe).collect();
    if probes.is_empty() {
        return Ok(());
    }
    let mut by_lease: BTreeMap<LeaseKey, Vec<Reading>> = BTreeMap::new();
    for (owner, page) in tx.pages_around(&probes).await? {
        let Some(lease) = owner.lease else { continue };
        let samples = decode(&page.bytes)?;
        by_lease.entry((owner.account, lease)).or_default().extend(samples.iter().filter_map(PageSample::reading));
    }
    let voids = voids_of_leases(tx, set, late.keys()).await?;
    for key in late.keys() {
        let Some(lease) = set.leases.get(key) else { continue };
        let mut readings = by_lease.remove(key).unwrap_or_default();
        readings.extend(decode(&lease.page.bytes)?.iter().filter_map(PageSample::reading));
        readings.sort_by_key(|reading| reading.at);
        readings.dedup_by_key(|reading| reading.at);
        let is_voided = |reading: &Reading| voids.contains(&(key.clone(), reading.at));
        let (voided, counting) = readings.into_iter().partition(is_voided);
        set.voided.insert(key.clone(), voided);
        set.readings.insert(key.clone(), counting);
    }
    Ok(())
}

/// Which samples of leases are voided; nothing is asked where none is.
async fn voids_of_leases(
    tx: &mut Tx,
    set: &WorkingSet,
    keys: impl Iterator<Item = &LeaseKey>,
) -> Loaded<BTreeSet<(LeaseKey, Timestamp)>> {
    let leases = keys.filter_map(|key| set.leases.get(key)).filter(|lease| lease.voided_until.is_some());
    let lives = leases.map(|lease| (lease.account.clone(), lease.sandbox.clone(), lease.life)).collect();
    let voids = tx.voids_of_lives(&lives).await?;
    Ok(voids.into_iter().filter_map(|void| Some(((void.account, void.lease?), void.at))).collect())
}

/// Loads all hours (and draws) of a lease.
pub(super) async fn all_hours(tx: &mut Tx, set: &mut WorkingSet, key: &LeaseKey) -> Loaded<()> {
    let Some(lease) = set.leases.get(key) else { return Ok(()) };
    let span = lease.window;
    load_hours(tx, set, &[(key.clone(), span)].into()).await
}

/// Loads to which keys a life's storage is attributed from its beginning on.
pub(super) async fn holders_of_life(tx: &mut Tx, set: &mut WorkingSet, sandbox: &Sandbox) -> Loaded<()> {
    let whole = (sandbox.account.clone(), sandbox.id.clone(), sandbox.life, Timestamp::EPOCH);
    load_holders(tx, set, &[], &[whole]).await
}

/// Loads hours (and their draws) of leases, but for the open hour, which is in the lease's row.
async fn load_hours(tx: &mut Tx, set: &mut WorkingSet, spans: &BTreeMap<LeaseKey, Span>) -> Loaded<()> {
    let mut asked = Vec::new();
    for (key, span) in spans {
        let Some(lease) = set.leases.get(key) else { continue };
        let (from, to) = (span.start.max(lease.window.start), span.end.min(lease.window.end));
        asked.push(LeaseHours {
            account: lease.account.clone(),
            sandbox: lease.sandbox.clone(),
            life: lease.life,
            lease: lease.id.clone(),
            from: from.hour(),
            to: to.hour(),
        });
    }
    if asked.is_empty() {
        return Ok(());
    }
    let mut drawn: BTreeSet<(_, LeaseId, Hour)> = BTreeSet::new();
    for ((account, lease), hour, totals) in tx.hours_of_leases(&asked).await? {
        if totals.free_ms > 0 {
            drawn.insert((account.clone(), lease.clone(), hour));
        }
        set.hours.entry(((account, lease), hour)).or_insert(totals);
    }
    for lease in spans.keys().filter_map(|key| set.leases.get(key)) {
        if let Some(open) = lease.open_hour.filter(|open| open.totals.free_ms > 0) {
            drawn.insert((lease.account.clone(), lease.id.clone(), open.hour));
        }
    }
    load_draws(tx, set, &drawn).await
}

/// Loads draws of leases' hours.
pub async fn load_draws(
    tx: &mut Tx,
    set: &mut WorkingSet,
    hours: &BTreeSet<(crate::domain::id::AccountId, LeaseId, Hour)>,
) -> Loaded<()> {
    // What was loaded before stays as this batch has it.
    let unknown = |(account, lease, hour): &&(crate::domain::id::AccountId, LeaseId, Hour)| {
        !set.draws.contains_key(&((account.clone(), lease.clone()), *hour))
    };
    let hours: BTreeSet<_> = hours.iter().filter(unknown).cloned().collect();
    if hours.is_empty() {
        return Ok(());
    }
    let mut rows = tx.draws(&hours).await?;
    rows.sort_by_key(|row| row.seq);
    for row in rows {
        let key = ((row.account, row.lease), row.hour);
        set.draws.entry(key).or_default().push((row.grant, row.drawn_ms));
    }
    Ok(())
}

/// Loads what reports of storage from an instant on need: reports around late ones, and to whom time is attributed.
pub async fn for_reports(tx: &mut Tx, set: &mut WorkingSet, from: &BTreeMap<SandboxKey, Timestamp>) -> Loaded<()> {
    let (mut probes, mut starts, mut newest) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (key, at) in from {
        let lives = set.sandboxes.get(key).map_or(&[][..], |known| &known.lives);
        for sandbox in lives {
            let last = sandbox.storage.last.as_ref().map(|last| last.at);
            let around = is_among_reports(sandbox, *at)?;
            if around {
                let to = last.unwrap_or(*at).max(*at);
                probes.push(PageProbe { owner: rest_owner(sandbox), storage: true, from: *at, to });
                newest.extend(sandbox.latest.as_ref().map(|latest| (key.0.clone(), latest.id.clone())));
            }
            let since = last.map_or(*at, |last| last.min(*at));
            if around || sandbox.latest.as_ref().is_some_and(|latest| latest.starts_at > since) {
                starts.push((key.0.clone(), key.1.clone(), sandbox.life, since));
            }
        }
    }
    load_holders(tx, set, probes.as_slice(), &starts).await?;
    if probes.is_empty() {
        return Ok(());
    }
    newest.retain(|key| !set.leases.contains_key(key));
    set.take_leases(tx.leases(&newest).await?);
    let pages = tx.pages_around(&probes).await?;
    take_storage_pages(tx, set, &probes, pages).await
}

/// Whether reports at or after an instant may have been accepted that are not in the sandbox's row: those before the
/// latest that counts, one at its very instant (of which another may count), and any of a deleted sandbox.
fn is_among_reports(sandbox: &Sandbox, at: Timestamp) -> Loaded<bool> {
    if sandbox.voided_until.is_some_and(|until| at <= until) {
        return Ok(true);
    }
    let Some(last) = &sandbox.storage.last else { return Ok(sandbox.deleted_at.is_some()) };
    if at == last.at && sandbox.deleted_at.is_none() {
        return Ok(!decode(&sandbox.page.bytes)?.iter().any(|sample| sample.at == at));
    }
    Ok(at < last.at || sandbox.deleted_at.is_some())
}

async fn load_holders(
    tx: &mut Tx,
    set: &mut WorkingSet,
    probes: &[PageProbe],
    starts: &[(crate::domain::id::AccountId, crate::domain::id::SandboxId, i64, Timestamp)],
) -> Loaded<()> {
    if starts.is_empty() {
        return Ok(());
    }
    // A late report changes time from the report before it on, which may lie before a lease that started since.
    let late = |sandbox: &(_, _, i64, Timestamp)| {
        probes.iter().any(|probe| {
            probe.owner.account == sandbox.0 && probe.owner.sandbox == sandbox.1 && probe.owner.life == sandbox.2
        })
    };
    let asked: Vec<_> = starts
        .iter()
        .map(|one| (one.0.clone(), one.1.clone(), one.2, if late(one) { Timestamp::EPOCH } else { one.3 }))
        .collect();
    for (one, mut changes) in asked.iter().zip(tx.lease_starts(&asked).await?) {
        let Some(life) = set.life(&one.0, &one.1, one.2) else { continue };
        let first = life.first_key.clone();
        // Of leases that start at one instant (a replacement in the same millisecond), the life knows the latest.
        if let Some(latest) = &life.latest {
            changes.retain(|(at, key)| (at, key) != (&latest.starts_at, &latest.key));
            let place = changes.partition_point(|(at, _)| *at <= latest.starts_at);
            changes.insert(place, (latest.starts_at, latest.key.clone()));
        }
        set.holders.insert(((one.0.clone(), one.1.clone()), one.2), Holders { first, changes });
    }
    Ok(())
}

async fn take_storage_pages(
    tx: &mut Tx,
    set: &mut WorkingSet,
    probes: &[PageProbe],
    pages: Vec<OwnedPage>,
) -> Loaded<()> {
    // Whose report wins at one instant goes by when its lease started.
    let named: BTreeSet<LeaseKey> = pages
        .iter()
        .filter_map(|(owner, _)| owner.lease.clone().map(|lease| (owner.account.clone(), lease)))
        .filter(|key| !set.leases.contains_key(key))
        .collect();
    let mut started: BTreeMap<LeaseKey, Timestamp> = BTreeMap::new();
    for lease in tx.leases(&named).await? {
        started.insert((lease.account.clone(), lease.id.clone()), lease.window.start);
    }
    started.extend(set.leases.iter().map(|(key, lease)| (key.clone(), lease.window.start)));
    let mut points: BTreeMap<(SandboxKey, i64), Vec<StoragePoint>> = BTreeMap::new();
    for (owner, page) in pages {
        let by = match &owner.lease {
            None => Reporter::AtRest,
            Some(lease) => {
                let start = started.get(&(owner.account.clone(), lease.clone())).copied();
                Reporter::Lease(start.unwrap_or(Timestamp::EPOCH), lease.clone())
            }
        };
        let key = ((owner.account, owner.sandbox), owner.life);
        points.entry(key).or_default().extend(reports(&page.bytes, &by)?);
    }
    for probe in probes {
        let key = ((probe.owner.account.clone(), probe.owner.sandbox.clone()), probe.owner.life);
        let mut found = points.remove(&key).unwrap_or_default();
        let Some(sandbox) = set.life(&key.0.0, &key.0.1, key.1) else { continue };
        found.extend(reports(&sandbox.page.bytes, &Reporter::AtRest)?);
        for lease in set.leases_of(&key.0.0, &key.0.1).filter(|lease| lease.life == key.1) {
            found.extend(reports(&lease.page.bytes, &Reporter::Lease(lease.window.start, lease.id.clone()))?);
        }
        let voids = set.life(&key.0.0, &key.0.1, key.1).filter(|life| life.voided_until.is_some());
        let lives = voids.map(|life| (life.account.clone(), life.id.clone(), life.life)).into_iter().collect();
        let voids: BTreeSet<(Option<LeaseId>, Timestamp)> =
            tx.voids_of_lives(&lives).await?.into_iter().map(|void| (void.lease, void.at)).collect();
        let is_voided = |point: &StoragePoint| {
            let lease = match &point.by {
                Reporter::AtRest => None,
                Reporter::Lease(_, lease) => Some(lease.clone()),
            };
            voids.contains(&(lease, point.at))
        };
        let (voided, counting): (Vec<StoragePoint>, Vec<StoragePoint>) = found.into_iter().partition(is_voided);
        let found = counting;
        let voided = voided.into_iter().filter(|point| point.by == Reporter::AtRest);
        let voided = voided.map(|point| StorageReport { at: point.at, storage: point.storage }).collect();
        set.voided_at_rest.insert(key.clone(), voided);
        let at_rest = found.iter().filter(|point| point.by == Reporter::AtRest).cloned().collect();
        set.at_rest.insert(key.clone(), at_rest);
        set.storage.insert(key, storage_meter::counting(found));
    }
    Ok(())
}

fn reports(bytes: &[u8], by: &Reporter) -> Loaded<Vec<StoragePoint>> {
    let samples = decode(bytes)?;
    let point = |report: StorageReport| StoragePoint { at: report.at, storage: report.storage, by: by.clone() };
    Ok(samples.iter().filter_map(PageSample::storage_report).map(point).collect())
}

fn decode(bytes: &[u8]) -> Loaded<Vec<PageSample>> {
    sample_page::decode(bytes).map_err(|corrupt| StoreError::Corrupt(corrupt.to_string()))
}

fn owner_of(lease: &Lease) -> PageOwner {
    PageOwner {
        account: lease.account.clone(),
        sandbox: lease.sandbox.clone(),
        life: lease.life,
        lease: Some(lease.id.clone()),
    }
}

fn rest_owner(sandbox: &Sandbox) -> PageOwner {
    PageOwner { account: sandbox.account.clone(), sandbox: sandbox.id.clone(), life: sandbox.life, lease: None }
}
