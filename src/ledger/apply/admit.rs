//! Admission: one request for one or more leases, all or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::command::{AdmitRequest, Admitted, CommandError, LeaseRequest};
use super::super::working_set::WorkingSet;
use super::{Applied, invalid, lease_conflict};
use crate::domain::admission::{self, Ask, Standing};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, KeyId, LeaseId, SandboxId};
use crate::domain::lease::{Asked, CLOCK_TOLERANCE_MS, End, EndReason, Lease, START_BACK_MS_MAX};
use crate::domain::limits::DayTotals;
use crate::domain::meter::Meter;
use crate::domain::sample_page::OpenPage;
use crate::domain::sandbox::{LatestLease, Sandbox};
use crate::domain::storage_meter::StorageMeter;
use crate::domain::time::{Day, Span, Timestamp};
use crate::domain::units::MebiBytes;
use crate::domain::usage::UsageByHour;

/// An old lease that a new one takes the place of: as it is, as it would be, and the usage that this posts.
struct Replacement {
    before: Lease,
    after: Lease,
    change: UsageByHour,
}

/// What a request's replacements change of what the gate reads.
#[derive(Default)]
struct Given<'a> {
    /// Added to days.
    days: BTreeMap<(KeyId, Day), DayTotals>,
    /// The account's grants after them.
    grants: Vec<Grant>,
    /// Leases as their ends leave them.
    ended: BTreeMap<&'a LeaseId, &'a Lease>,
}

impl WorkingSet {
    /// Decides a request and, if the gate says yes, starts its leases. Ids are looked up before all rules: the same
    /// request again gives the same answer with the current state.
    pub fn admit(&mut self, request: &AdmitRequest) -> Applied<Admitted> {
        let prices = self.prices(&request.account);
        if let Some(leases) = self.known_request(request)? {
            return Ok(Admitted { leases, fresh: false, prices });
        }
        if !self.accounts.contains_key(&request.account) {
            return Err(CommandError::NotFound("account"));
        }
        let windows = self.windows(request)?;
        let replacements = self.replacements(request, &windows)?;
        let asks = self.asks(request, &windows);
        self.decide(&request.account, &request.key, &asks, &replacements)?;
        self.lives_allow(request, &windows)?;
        for replacement in replacements {
            self.carry_out(replacement)?;
        }
        let leases = request.leases.iter().zip(windows);
        let leases = leases.map(|(asked, window)| self.start(request, asked, window)).collect::<Applied<_>>()?;
        Ok(Admitted { leases, fresh: true, prices })
    }

    /// The leases of a request that was carried out before; `None` for a new one.
    fn known_request(&self, request: &AdmitRequest) -> Applied<Option<Vec<Arc<Lease>>>> {
        let find = |asked: &LeaseRequest| self.leases.get(&(request.account.clone(), asked.id.clone()));
        let known: Vec<&Arc<Lease>> = request.leases.iter().filter_map(find).collect();
        let Some(first) = known.first() else { return Ok(None) };
        if known.len() < request.leases.len() {
            return Err(lease_conflict(
                &first.id,
                format!("lease {} is known, but others of this request are not", first.id),
            ));
        }
        for (lease, asked) in known.iter().zip(&request.leases) {
            if !is_same(lease, request, asked) {
                let detail = format!("lease {} exists with other content; a new lease needs a new id", lease.id);
                return Err(lease_conflict(&lease.id, detail));
            }
        }
        Ok(Some(known.into_iter().cloned().collect()))
    }

    fn windows(&self, request: &AdmitRequest) -> Applied<Vec<Span>> {
        let (earliest, latest) = (self.now.near(START_BACK_MS_MAX.saturating_neg()), self.now.near(CLOCK_TOLERANCE_MS));
        let window = |(index, asked): (usize, &LeaseRequest)| {
            let start = asked.starts_at.unwrap_or(self.now);
            if start < earliest || start > latest {
                let pointer = format!("/leases/{index}/starts_at");
                return Err(invalid(pointer, "a lease starts from an hour ago to a minute ahead of now"));
            }
            Ok(Span { start, end: start.plus_ms(asked.timeout_ms)? })
        };
        request.leases.iter().enumerate().map(window).collect()
    }

    fn asks(&self, request: &AdmitRequest, windows: &[Span]) -> Vec<Ask> {
        let ask = |(asked, window): (&LeaseRequest, &Span)| Ask {
            lease: asked.id.clone(),
            sandbox: asked.sandbox.clone(),
            shape: asked.shape,
            window: *window,
            max_cost: asked.max_cost,
            disk: self.disk(&request.account, &asked.sandbox),
        };
        request.leases.iter().zip(windows).map(ask).collect()
    }

    /// The disk of a sandbox as last reported; zero for a new or deleted one.
    pub(super) fn disk(&self, account: &AccountId, sandbox: &SandboxId) -> MebiBytes {
        let life = self.newest_life(account, sandbox).filter(|life| life.deleted_at.is_none());
        life.and_then(|life| life.storage.last.as_ref()).map_or(MebiBytes::ZERO, |report| report.storage)
    }

    /// What the leases that this request replaces would become.
    fn replacements(&mut self, request: &AdmitRequest, windows: &[Span]) -> Applied<Vec<Replacement>> {
        let mut found: Vec<Replacement> = Vec::new();
        for (asked, window) in request.leases.iter().zip(windows) {
            let Some(old) = &asked.replaces else { continue };
            let known = self.lease_for_change(&(request.account.clone(), old.clone()))?;
            let known = known.ok_or_else(|| lease_conflict(old, format!("there is no lease {old} to replace")))?;
            if known.sandbox != asked.sandbox {
                return Err(lease_conflict(
                    old,
                    format!("lease {old} is of sandbox {}, not of this one", known.sandbox),
                ));
            }
            let running = known.end.is_none() && known.window.start <= window.start && window.start < known.window.end;
            if !running || found.iter().any(|other| other.before.id == *old) {
                return Err(lease_conflict(old, format!("lease {old} is not running when the new one starts")));
            }
            found.push(self.replacement(Arc::unwrap_or_clone(known), window.start)?);
        }
        Ok(found)
    }

    fn replacement(&self, before: Lease, at: Timestamp) -> Applied<Replacement> {
        let proven_until = before.settled_at.is_none().then_some(at);
        let mut after = before.clone();
        after.end = Some(End { at, reason: EndReason::Replaced, proven_until, told_in: Some(self.open_month) });
        let prices = self.prices(&before.account);
        let around = self.readings_of(&before);
        let (meter, change) = before.meter.move_end(&before.terms(&prices), &after.terms(&prices), &around)?;
        after.meter = meter;
        self.settle_if_over(&mut after);
        Ok(Replacement { before, after, change })
    }

    fn carry_out(&mut self, replacement: Replacement) -> Applied<()> {
        let Replacement { before, after, change } = replacement;
        self.finish_end(&before, after, &change)?;
        Ok(())
    }

    /// Asks the gate. What replaced leases give back counts, and the free time that their ends draw.
    fn decide(&self, account: &AccountId, key: &KeyId, asks: &[Ask], replaced: &[Replacement]) -> Applied<()> {
        let prices = self.prices(account);
        let mut given = Given { grants: self.grants.get(account).cloned().unwrap_or_default(), ..Given::default() };
        for Replacement { before, after, change } in replaced {
            for (day, used) in self.net_by_day(before, change, &mut given.grants)? {
                let sum = given.days.entry((before.key.clone(), day)).or_default();
                sum.used = sum.used.plus(used)?;
            }
            for (lease, sign) in [(before, -1), (after, 1)] {
                for (day, held) in lease.hold(&prices)? {
                    let sum = given.days.entry((before.key.clone(), day)).or_default();
                    sum.reserved = if sign > 0 { sum.reserved.plus(held)? } else { sum.reserved.minus(held)? };
                }
            }
            given.ended.insert(&before.id, after);
        }
        self.ask_gate(account, key, asks, &given)
    }

    /// Asks the gate about windows, as if what is `given` had been carried out.
    fn ask_gate(&self, account: &AccountId, key: &KeyId, asks: &[Ask], given: &Given<'_>) -> Applied<()> {
        let owner = self.accounts.get(account).ok_or(CommandError::NotFound("account"))?;
        let (mut key_days, mut account_days): (Vec<(Day, DayTotals)>, Vec<_>) = (Vec::new(), Vec::new());
        for day in asks.iter().flat_map(|ask| ask.window.by_day().map(|(day, _)| day)) {
            if key_days.iter().any(|(known, _)| *known == day) {
                continue;
            }
            let mine = given.days.get(&(key.clone(), day)).copied().unwrap_or_default();
            let all = given
                .days
                .iter()
                .filter(|((_, on), _)| *on == day)
                .try_fold(DayTotals::default(), |sum, (_, add)| sum.plus(*add))?;
            key_days.push((day, self.key_day(account, key, day)?.plus(mine)?));
            if owner.daily_limit.is_some() {
                account_days.push((day, self.account_day(account, day)?.plus(all)?));
            }
        }
        let mut others = Vec::new();
        for ask in asks {
            for lease in self.leases_of(account, &ask.sandbox) {
                let stands = given.ended.get(&lease.id).copied().unwrap_or(lease);
                others.push((ask.sandbox.clone(), lease.id.clone(), stands.effective()));
            }
        }
        let unmetered = if owner.card_on_file { BTreeMap::new() } else { self.unmetered_ms(account, &given.ended)? };
        let credits = self.credits.get(account).filter(|_| !owner.card_on_file).cloned().unwrap_or_default();
        let (running, unbilled) = if credits.is_empty() {
            (Vec::new(), BTreeMap::new())
        } else {
            (self.unsettled(account, &given.ended)?, self.unbilled_costs(account, &given.days)?)
        };
        let standing = Standing {
            account: owner,
            key: self.keys.get(&(account.clone(), key.clone())),
            prices: &self.prices(account),
            others: &others,
            key_days: &key_days,
            account_days: &account_days,
            cover: self.rules.cover,
            grants: &given.grants,
            unmetered_ms: &unmetered,
            credits: &credits,
            running: &running,
            unbilled: &unbilled,
        };
        admission::decide(asks, &standing)?.map_err(CommandError::from)
    }

    /// Asks the gate about what an extension adds to a lease.
    pub(super) fn ask_for_more(&self, account: &AccountId, key: &KeyId, ask: Ask) -> Applied<()> {
        let grants = self.grants.get(account).cloned().unwrap_or_default();
        self.ask_gate(account, key, &[ask], &Given { grants, ..Given::default() })
    }

    /// A sandbox that was deleted begins a new life, which can't start before the old one ended.
    fn lives_allow(&self, request: &AdmitRequest, windows: &[Span]) -> Applied<()> {
        for (asked, window) in request.leases.iter().zip(windows) {
            let deleted_at = self.newest_life(&request.account, &asked.sandbox).and_then(|life| life.deleted_at);
            if deleted_at.is_some_and(|at| window.start < at) {
                let detail = format!("sandbox {} was deleted after this lease's start", asked.sandbox);
                return Err(lease_conflict(&asked.id, detail));
            }
        }
        Ok(())
    }

    fn start(&mut self, request: &AdmitRequest, asked: &LeaseRequest, window: Span) -> Applied<Arc<Lease>> {
        let latest = LatestLease { id: asked.id.clone(), key: request.key.clone(), starts_at: window.start };
        let (life, is_newest) = self.join_sandbox(&request.account, &asked.sandbox, &latest)?;
        let lease = Arc::new(Lease {
            account: request.account.clone(),
            id: asked.id.clone(),
            key: request.key.clone(),
            sandbox: asked.sandbox.clone(),
            life,
            kind: asked.kind,
            shape: asked.shape,
            window,
            asked: Asked {
                starts_at: asked.starts_at,
                timeout_ms: asked.timeout_ms,
                max_cost: asked.max_cost,
                host: asked.host.clone(),
                replaces: asked.replaces.clone(),
            },
            end: None,
            host: asked.host.clone(),
            created_at: self.now,
            open: is_newest,
            settles_at: window.end.near(self.rules.settle_after_ms),
            settled_at: None,
            meter: Meter::default(),
            open_hour: None,
            page: OpenPage::default(),
            voided_until: None,
        });
        self.post_hold(None, &lease)?;
        self.add_lease(Arc::clone(&lease));
        Ok(lease)
    }

    /// Makes a lease one of its sandbox's: begins a life where there is none, closes the lease that was the newest, and
    /// attributes storage anew where the lease starts in the past. Answers the life, and whether the lease is its newest.
    fn join_sandbox(&mut self, account: &AccountId, id: &SandboxId, lease: &LatestLease) -> Applied<(i64, bool)> {
        let known = self.newest_life(account, id).cloned();
        let life = known.as_ref().map_or(0, |life| life.life);
        let mut sandbox = match known.filter(|life| life.deleted_at.is_none()) {
            Some(known) => known,
            None => Sandbox {
                account: account.clone(),
                id: id.clone(),
                life: life.checked_add(1).ok_or(crate::domain::Overflow)?,
                first_key: lease.key.clone(),
                created_at: lease.starts_at,
                deleted_at: None,
                deleted_in: None,
                latest: None,
                storage: StorageMeter::default(),
                page: OpenPage::default(),
                voided_until: None,
            },
        };
        self.reattribute(&mut sandbox, lease)?;
        let is_newest = sandbox.latest.as_ref().is_none_or(|latest| latest.starts_at <= lease.starts_at);
        if is_newest {
            sandbox.latest = Some(lease.clone());
            let open: Vec<Lease> = self.leases_of(account, id).filter(|lease| lease.open).cloned().collect();
            for mut old in open {
                self.close(&mut old)?;
                self.put_lease(old);
            }
        }
        let life = sandbox.life;
        self.put_sandbox(sandbox);
        Ok((life, is_newest))
    }
}

/// Whether a lease is what a request asks for.
fn is_same(lease: &Lease, request: &AdmitRequest, asked: &LeaseRequest) -> bool {
    lease.key == request.key
        && lease.sandbox == asked.sandbox
        && lease.kind == asked.kind
        && lease.shape == asked.shape
        && lease.asked.timeout_ms == asked.timeout_ms
        && lease.asked.max_cost == asked.max_cost
        && lease.asked.host == asked.host
        && lease.asked.starts_at == asked.starts_at
        && lease.asked.replaces == asked.replaces
}
