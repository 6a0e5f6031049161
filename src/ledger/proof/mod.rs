//! The evidence of final invoices, read from what is kept: at the closing, to be digested, and later, to be exported
//! and verified. It is the same each time, however much came since: samples, ends and draws are known by the month in
//! which they were accepted.
//!
//! It goes life by life, so it holds little however long the month was. Lives and leases are those that the hours'
//! table has as billed by the month.

mod life;

use std::collections::{BTreeMap, BTreeSet};

use super::batch::told;
use super::command::CommandError;
use super::{Answer, Ledger};
use crate::domain::credit::CreditBook;
use crate::domain::id::{AccountId, GrantId, LeaseId};
use crate::domain::invoice::{Invoice, Status};
use crate::domain::lease::HourTotals;
use crate::domain::lease::LEASE_MS_MAX;
use crate::domain::money::Micros;
use crate::domain::proof::credits;
use crate::domain::proof::{GrantTerms, LifeId, ProofHead, Record, cards_of};
use crate::domain::rate_card::PriceBook;
use crate::domain::time::{Day, Hour, Month, Timestamp};
use crate::report::evidence::{Body, Digester};
use crate::store::shapes::{BilledPart, PageSpan};
use crate::store::{StoreError, Tx};
use life::LifeEvidence;

/// Lives read in one statement: a month of one that is sampled every ten seconds takes 2 MB in pages.
const LIVES_MAX: usize = 16;
/// Leases whose draws are read in one statement.
const LEASES_MAX: usize = 1_000;
/// Grants of one account.
const GRANTS_MAX: i64 = 100_000;
/// How far ahead of the clock a sample may be, in milliseconds.
const AHEAD_MS: i64 = 60_000;

/// What earlier months had billed of a month's late usage, by day.
type BilledBefore = Vec<(Day, HourTotals)>;

/// What of a life (or of one of its leases) an invoice bills.
#[derive(Clone, Debug, Default)]
struct Bills {
    /// Usage of its own month.
    own: bool,
    /// Late usage, by month of use.
    late: BTreeMap<Month, BilledBefore>,
}

impl Bills {
    /// Months of use that are billed.
    fn months(&self, own: Month) -> Vec<Month> {
        self.late.keys().copied().chain(self.own.then_some(own)).collect()
    }
}

/// What of a life an invoice bills.
#[derive(Clone, Debug, Default)]
struct LifeBills {
    storage: Bills,
    leases: BTreeMap<LeaseId, Bills>,
}

/// Which evidence.
#[derive(Clone, Copy, Debug)]
pub(in crate::ledger) struct Wanted<'a> {
    /// Of which account.
    pub(in crate::ledger) account: &'a AccountId,
    /// Of which month's invoice.
    pub(in crate::ledger) month: Month,
    /// The account's prices.
    pub(in crate::ledger) book: &'a PriceBook,
    /// When the invoice was made final, or now: nothing that was accepted by then is later than this and a minute.
    pub(in crate::ledger) at: Timestamp,
    /// The records of the credits that it draws on, where it is known already.
    pub(in crate::ledger) credits: &'a [Record],
}

/// Takes evidence as it is read.
pub trait Sink: Send {
    /// The header of an invoice's evidence: first, once, and only where the invoice is final.
    fn head(&mut self, head: &ProofHead);
    /// The next record.
    fn record(&mut self, record: &Record);
    /// Called between lives: passes on what it has taken. An error, for people, ends the reading.
    fn pass_on(&mut self) -> impl Future<Output = Result<(), String>> + Send;
}

impl Sink for Digester {
    fn head(&mut self, _: &ProofHead) {}

    fn record(&mut self, record: &Record) {
        self.take(record);
    }

    async fn pass_on(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Reads the records of an invoice's evidence, in their order.
pub(in crate::ledger) async fn read(tx: &mut Tx, wanted: Wanted<'_>, sink: &mut impl Sink) -> Result<(), StoreError> {
    let lives = billed_lives(tx, wanted).await?;
    let all = lives.values().flat_map(|life| life.leases.values().chain([&life.storage]));
    let months: BTreeSet<Month> = all.flat_map(|bills| bills.months(wanted.month)).collect();
    for month in months {
        for span in cards_of(month, wanted.book) {
            sink.record(&Record::Card(span));
        }
    }
    let draws = draws(tx, wanted, &lives).await?;
    for grant in grants(tx, wanted, &draws).await? {
        sink.record(&Record::Grant(grant));
    }
    for record in wanted.credits {
        sink.record(record);
    }
    let lives: Vec<(LifeId, LifeBills)> = lives.into_iter().collect();
    for some in lives.chunks(LIVES_MAX) {
        some_lives(tx, wanted, some, &draws, sink).await?;
    }
    Ok(())
}

/// Reads the records and digests them.
pub(in crate::ledger) async fn digest(tx: &mut Tx, wanted: Wanted<'_>) -> Result<Body, StoreError> {
    let mut digester = Digester::default();
    read(tx, wanted, &mut digester).await?;
    Ok(digester.finish())
}

/// The header of the evidence of a final invoice; `None`: it is not final.
pub(in crate::ledger) fn head_of(invoice: &Invoice, carried_over: Micros) -> Option<ProofHead> {
    let Status::Final { number, at } = invoice.status else { return None };
    let (account, name, month) = (invoice.account.clone(), invoice.name.clone(), invoice.month);
    let tax = invoice.lines.iter().find_map(|line| line.taxed).map(|taxed| taxed.rate);
    Some(ProofHead { account, name, month, number, at, carried_over, tax })
}

/// The account's credits with what invoices before this one drew on them.
pub(in crate::ledger) async fn credits_before(tx: &mut Tx, invoice: &Invoice) -> Result<CreditBook, StoreError> {
    if invoice.draws.is_empty() {
        return Ok(CreditBook::default());
    }
    let mut book = CreditBook::new(tx.credits(&[invoice.account.clone()].into()).await?);
    for draw in tx.credit_draws_before(&invoice.account, invoice.month).await? {
        book.note(&[draw])?;
    }
    Ok(book)
}

/// Whether the evidence of a month's invoice is not archived: of the month, and of those whose late usage it bills.
pub(in crate::ledger) async fn at_hand(tx: &mut Tx, account: &AccountId, month: Month) -> Result<bool, StoreError> {
    let late = tx.late_months(&[account.clone()].into(), month).await?;
    let first = late.iter().map(|(_, used)| *used).min().unwrap_or(month).min(month);
    Ok(first >= tx.evidence_from().await?)
}

async fn billed_lives(tx: &mut Tx, wanted: Wanted<'_>) -> Result<BTreeMap<LifeId, LifeBills>, StoreError> {
    let mut lives: BTreeMap<LifeId, LifeBills> = BTreeMap::new();
    let own = tx.billed_parts(wanted.account, wanted.month, wanted.month, false).await?;
    for part in own.into_iter().filter(|part| part.totals != HourTotals::default()) {
        bills_of(&mut lives, &part).own = true;
    }
    for (_, used) in tx.late_months(&[wanted.account.clone()].into(), wanted.month).await? {
        let parts = tx.billed_parts(wanted.account, used, wanted.month, true).await?;
        let parts: Vec<BilledPart> = parts.into_iter().filter(|part| part.totals != HourTotals::default()).collect();
        for part in parts.iter().filter(|part| part.billed == wanted.month) {
            bills_of(&mut lives, part).late.entry(used).or_default();
        }
        for part in parts.iter().filter(|part| part.billed < wanted.month) {
            let Some(life) = lives.get_mut(&part.of) else { continue };
            let bills = match &part.lease {
                Some(lease) => life.leases.get_mut(lease),
                None => Some(&mut life.storage),
            };
            let Some(days) = bills.and_then(|bills| bills.late.get_mut(&used)) else { continue };
            match days.last_mut().filter(|(day, _)| *day == part.day) {
                Some((_, sum)) => *sum = sum.plus(part.totals)?,
                None => days.push((part.day, part.totals)),
            }
        }
    }
    Ok(lives)
}

fn bills_of<'l>(lives: &'l mut BTreeMap<LifeId, LifeBills>, part: &BilledPart) -> &'l mut Bills {
    let life = lives.entry(part.of.clone()).or_default();
    match &part.lease {
        Some(lease) => life.leases.entry(lease.clone()).or_default(),
        None => &mut life.storage,
    }
}

/// Draws of the hours that the invoice bills, by lease and hour, as they were at the closing.
type DrawsByHour = BTreeMap<(LeaseId, Hour), BTreeMap<GrantId, i64>>;

async fn draws(
    tx: &mut Tx,
    wanted: Wanted<'_>,
    lives: &BTreeMap<LifeId, LifeBills>,
) -> Result<DrawsByHour, StoreError> {
    let months: BTreeMap<&LeaseId, Vec<Month>> = lives
        .values()
        .flat_map(|life| life.leases.iter().map(|(id, bills)| (id, bills.months(wanted.month))))
        .collect();
    let ids: Vec<LeaseId> = months.keys().map(|id| (*id).clone()).collect();
    let mut drawn: DrawsByHour = BTreeMap::new();
    for some in ids.chunks(LEASES_MAX) {
        let all = tx.draws_of_leases(wanted.account, some).await?;
        let later = tx.draws_billed_after(wanted.account, some, wanted.month).await?;
        let later = later.into_iter().map(|draw| (draw, true));
        for (draw, is_later) in all.into_iter().map(|draw| (draw, false)).chain(later) {
            if months.get(&draw.lease).is_none_or(|months| !months.contains(&draw.hour.start().month())) {
                continue;
            }
            let sum = drawn.entry((draw.lease, draw.hour)).or_default().entry(draw.grant).or_default();
            let change = if is_later { draw.drawn_ms.checked_neg() } else { Some(draw.drawn_ms) };
            *sum = change.and_then(|change| sum.checked_add(change)).ok_or(StoreError::Overflow)?;
        }
    }
    // What was given back again was not drawn.
    for by_grant in drawn.values_mut() {
        by_grant.retain(|_, ms| *ms != 0);
    }
    drawn.retain(|_, by_grant| !by_grant.is_empty());
    Ok(drawn)
}

async fn grants(tx: &mut Tx, wanted: Wanted<'_>, draws: &DrawsByHour) -> Result<Vec<GrantTerms>, StoreError> {
    let mut here: BTreeMap<&GrantId, i64> = BTreeMap::new();
    for (grant, ms) in draws.values().flatten() {
        let sum = here.entry(grant).or_default();
        *sum = sum.checked_add(*ms).ok_or(StoreError::Overflow)?;
    }
    if here.is_empty() {
        return Ok(Vec::new());
    }
    let all = tx.drawn_by_grant(wanted.account, wanted.month).await?;
    let mut terms = Vec::new();
    for grant in tx.list_grants(wanted.account, None, GRANTS_MAX).await? {
        let Some(here) = here.get(&grant.id) else { continue };
        let before = all.get(&grant.id).copied().unwrap_or(0).checked_sub(*here).ok_or(StoreError::Overflow)?;
        terms.push(GrantTerms::of(&grant, before));
    }
    Ok(terms)
}

async fn some_lives(
    tx: &mut Tx,
    wanted: Wanted<'_>,
    lives: &[(LifeId, LifeBills)],
    draws: &DrawsByHour,
    sink: &mut impl Sink,
) -> Result<(), StoreError> {
    let ids: Vec<LifeId> = lives.iter().map(|(id, _)| id.clone()).collect();
    let mut spans = Vec::new();
    let mut earliest = wanted.month;
    for (of, bills) in lives {
        let leases = bills.leases.iter().map(|(lease, bills)| (Some(lease.clone()), bills));
        for (lease, bills) in leases.chain([(None, &bills.storage)]) {
            for month in bills.months(wanted.month) {
                earliest = earliest.min(month);
                spans.push(PageSpan { of: of.clone(), lease: lease.clone(), span: month.span() });
            }
        }
    }
    let until = wanted.at.near(AHEAD_MS);
    let from = earliest.span().start.near(LEASE_MS_MAX.saturating_neg());
    let sandboxes = tx.lives(wanted.account, &ids).await?;
    let mut leases = tx.leases_started(wanted.account, &ids, from, until).await?;
    let mut pages = tx.pages_in(wanted.account, &spans, wanted.month, until).await?;
    let kept = tx.kept_pages(wanted.account, &ids).await?;
    let keys = ids.iter().map(|of| (wanted.account.clone(), of.sandbox.clone(), of.life)).collect();
    let mut voids = tx.voids_of_lives(&keys).await?;
    voids.retain(|void| void.open_month <= wanted.month);
    // Next to a span there may be voided samples only: then all that there are say which one counts. Voids are rare.
    let with_voids: BTreeSet<LifeId> =
        voids.iter().map(|void| LifeId { sandbox: void.sandbox.clone(), life: void.life }).collect();
    for of in &with_voids {
        pages.extend(tx.pages_of_life((wanted.account, &of.sandbox, of.life)).await?);
    }
    let owners = pages.iter().map(|(owner, _)| &owner.lease).chain(kept.iter().map(|page| &page.owner.lease));
    let known: BTreeSet<&LeaseId> = leases.iter().map(|lease| &lease.id).collect();
    let missing: BTreeSet<_> =
        owners.flatten().filter(|id| !known.contains(id)).map(|id| (wanted.account.clone(), id.clone())).collect();
    leases.extend(tx.leases(&missing).await?);
    let mut evidence = LifeEvidence::by_life(wanted, sandboxes, leases, pages, kept, voids)?;
    for (of, bills) in lives {
        let Some(life) = evidence.remove(of) else {
            return Err(StoreError::Corrupt("a billed sandbox is not there".to_owned()));
        };
        for record in life.records(wanted.month, bills, draws)? {
            sink.record(&record);
        }
        sink.pass_on().await.map_err(StoreError::Unavailable)?;
    }
    Ok(())
}

impl Ledger {
    /// Reads the evidence of a final invoice into a sink. Answers the invoice; not found: there is no such final one, or
    /// its evidence is archived.
    pub async fn evidence(&self, account: &AccountId, month: Month, sink: &mut impl Sink) -> Answer<Invoice> {
        let mut tx = self.snapshot().await?;
        self.read_evidence(&mut tx, account, month, sink).await.map_err(told)?.ok_or(CommandError::NotFound("invoice"))
    }

    async fn read_evidence(
        &self,
        tx: &mut Tx,
        account: &AccountId,
        month: Month,
        sink: &mut impl Sink,
    ) -> Result<Option<Invoice>, StoreError> {
        let Some(invoice) = tx.invoice(account, month).await? else { return Ok(None) };
        if !at_hand(tx, account, month).await? {
            return Ok(None);
        }
        let carried = tx.carried_over(&[account.clone()].into(), month).await?;
        let Some(head) = head_of(&invoice, carried.get(account).copied().unwrap_or_default()) else { return Ok(None) };
        let book = self.book(tx, account).await?;
        let credits = credits::records(&credits_before(tx, &invoice).await?, &invoice);
        sink.head(&head);
        read(tx, Wanted { account, month, book: &book, at: head.at, credits: &credits }, sink).await?;
        Ok(Some(invoice))
    }
}
