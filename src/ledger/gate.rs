//! A batch of gate commands: admissions and extensions, decided one after another.
//!
//! A command that would be refused for money first settles what is due of its account, and is decided again in the same
//! step: so a refusal is right for a state that was committed between request and answer, due leases settled.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::batch::{AtGate, Engine, Gate, Passed, each, may_be_one, send};
use super::callers::Confirmed;
use super::command::{AdmitRequest, Admitted, CommandError, Quote};
use super::lanes::GateJob;
use super::load::Asks;
use super::onward::{Onward, Start};
use super::outbox::Outbox;
use super::retry::{Attempts, Failed};
use super::unseen::is_proved;
use super::working_set::WorkingSet;
use super::{Answer, load};
use crate::domain::admission::Refusal;
use crate::domain::id::{AccountId, KeyId, LeaseId};
use crate::domain::lease::Lease;
use crate::store::changes::RefusalNote;
use crate::store::{StoreError, Tx};

/// What the attempts at one batch hand on.
#[derive(Debug, Default)]
struct Handed {
    /// Whose secrets were confirmed. What may have been done for them is not refused afterwards.
    may_pass: Option<Vec<bool>>,
    /// Which commands an earlier attempt took for new; none is any more.
    taken_for_new: Option<Vec<bool>>,
}

impl Engine {
    /// Carries out gate commands that were taken together.
    pub(super) async fn gates(
        &self,
        jobs: Vec<GateJob>,
        outbox: &mut Outbox,
        onward: &mut Onward,
        more_waits: impl Fn() -> bool,
    ) {
        if jobs.is_empty() {
            return;
        }
        let (mut commands, replies): (Vec<AtGate>, Vec<_>) =
            jobs.into_iter().map(|job| (job.command, job.reply)).unzip();
        share_ids(&mut commands);
        let answers = match self.in_time(self.pass(&commands, onward, &more_waits)).await {
            Err(error) if may_be_one(&error) && commands.len() > 1 => {
                let mut answers = Vec::with_capacity(commands.len());
                for command in &commands {
                    answers.extend(each(
                        self.in_time(self.pass(std::slice::from_ref(command), onward, &more_waits)).await,
                        1,
                    ));
                }
                answers
            }
            outcome => each(outcome, commands.len()),
        };
        outbox.tell(|kept| send(replies, answers, &kept)).await;
    }

    /// `more_waits`: whether the next batch may begin with the commit of this one.
    async fn pass(
        &self,
        commands: &[AtGate],
        onward: &mut Onward,
        more_waits: &impl Fn() -> bool,
    ) -> Result<Vec<Answer<Passed>>, StoreError> {
        let mut attempts = Attempts::new();
        let mut handed = Handed::default();
        loop {
            let is_first = handed.taken_for_new.is_none();
            let outcome = Box::pin(self.try_gates(commands, &mut handed, onward, more_waits)).await;
            let in_vain = outcome.as_ref().is_err_and(Failed::is_stale);
            if is_first && handed.taken_for_new.as_ref().is_some_and(|taken| taken.contains(&true)) {
                if outcome.is_ok() || in_vain {
                    self.tally.count_taken_for_new(!in_vain);
                }
                if in_vain {
                    // Whose secrets they are is another transaction's to say.
                    handed.may_pass = None;
                    continue;
                }
            }
            if let Some(answers) = attempts.after(outcome).await {
                return answers;
            }
            if !attempts.may_be_done() {
                handed.may_pass = None;
            }
        }
    }

    async fn try_gates(
        &self,
        commands: &[AtGate],
        handed: &mut Handed,
        onward: &mut Onward,
        more_waits: impl Fn() -> bool,
    ) -> Result<Vec<Answer<Passed>>, Failed<Vec<Answer<Passed>>>> {
        let secrets: BTreeSet<[u8; 32]> = commands.iter().filter_map(|one| Some(one.by.as_ref()?.sha256)).collect();
        let secrets: Vec<[u8; 32]> = secrets.into_iter().collect();
        let takes = handed.taken_for_new.is_none();
        let for_new = || self.doubts.take_for_new(commands.iter().map(|one| &one.command));
        let taken: &Vec<bool> = handed.taken_for_new.get_or_insert_with(for_new);
        let all = commands.iter().zip(taken).map(|(one, taken)| (&one.command, takes && *taken));

        let now = self.clock.now();
        let Start { mut tx, about, held, early } = self.start(&Asks::of(all.clone()), secrets, now, onward).await?;
        let mut set = self.working_set(held.watermarks);
        // Never before what was asked for already.
        set.now = set.now.max(now);
        set.take_accounts(held.accounts);

        let confirmed = Confirmed::of(&about.secrets, &held.bearers);
        let confirm = || commands.iter().map(|one| confirmed.confirms(one.by.as_ref())).collect();
        let may_pass: &Vec<bool> = handed.may_pass.get_or_insert_with(confirm);
        let passing: Vec<(&Gate, bool)> =
            all.zip(may_pass).filter(|(_, may_pass)| **may_pass).map(|(one, _)| one).collect();
        load::gate(&mut tx, &mut set, &Asks::of(passing.iter().copied()), early).await?;
        let passing: Vec<&Gate> = passing.into_iter().map(|(command, _)| command).collect();
        let passed = decide(&mut set, &passing);
        let of_new = taken.iter().zip(may_pass).filter(|(_, may_pass)| **may_pass).map(|(taken, _)| *taken);
        let unproved = unproved(&set, passing.iter().copied().zip(&passed).zip(of_new));
        if takes && !unproved.is_empty() {
            return Err(StoreError::Stale("what was taken for new".to_owned()).into());
        }
        self.doubts.doubt(unproved);
        let mut passed = settle_for_refused(&mut tx, &mut set, &passing, passed).await?.into_iter();

        let answer = |may_pass: &bool| if *may_pass { passed.next() } else { None };
        let answers = may_pass.iter().map(answer).map(|answer| answer.unwrap_or(Err(CommandError::Unauthorized)));
        let answers = answers.collect();
        // While this one is saved.
        self.store.begin_ahead();
        let takes_any = takes && taken.contains(&true);
        let finished = self.finish_and_go_on(tx, &set, answers, about, onward, more_waits).await;
        finished.map_err(|failed| if takes_any { failed.of_new() } else { failed })
    }
}

/// Lets requests of one account and key share the texts of those ids: they are compared more than anything else.
fn share_ids(commands: &mut [AtGate]) {
    let mut latest: Option<(AccountId, KeyId)> = None;
    for one in commands {
        let Gate::Admit(request) = &mut one.command else { continue };
        match &latest {
            Some((account, key)) if *account == request.account && *key == request.key => {
                request.account = account.clone();
                request.key = key.clone();
            }
            Some(_) | None => latest = Some((request.account.clone(), request.key.clone())),
        }
    }
}

/// Which requests that were taken for new the batch does not prove to be.
fn unproved<'a>(
    set: &WorkingSet,
    decided: impl Iterator<Item = ((&'a Gate, &'a Answer<Passed>), bool)>,
) -> Vec<&'a AdmitRequest> {
    let unproved = |((command, answer), taken): ((&'a Gate, &Answer<Passed>), bool)| match command {
        Gate::Admit(request) if taken && !is_proved(set, request, answer) => Some(request),
        Gate::Admit(_) | Gate::Extend(_) => None,
    };
    decided.filter_map(unproved).collect()
}

/// Decides commands one after another; their rows are loaded.
fn decide(set: &mut WorkingSet, commands: &[&Gate]) -> Vec<Answer<Passed>> {
    commands.iter().map(|command| apply(set, command)).collect()
}

/// Settles what is due of the accounts that would be refused for money, and decides those commands again. Answers in
/// the order of the commands.
async fn settle_for_refused(
    tx: &mut Tx,
    set: &mut WorkingSet,
    commands: &[&Gate],
    mut answers: Vec<Answer<Passed>>,
) -> Result<Vec<Answer<Passed>>, StoreError> {
    let again: BTreeSet<AccountId> = commands
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| may_fit_after_settling(answer))
        .map(|(command, _)| account_of(command).clone())
        .collect();
    if !again.is_empty() {
        let passed_over = settle_due(tx, set, &again).await?;
        for (command, answer) in commands.iter().zip(&mut answers) {
            if may_fit_after_settling(answer) {
                *answer = apply(set, command);
            }
        }
        // What others are just settling counts as settled: a refusal waits for them.
        if passed_over > 0 && answers.iter().any(may_fit_after_settling) {
            return Err(StoreError::Again("others hold leases that are due".to_owned()));
        }
    }
    for (command, answer) in commands.iter().zip(&answers) {
        note_refusal(set, command, answer);
    }
    Ok(answers)
}

fn apply(set: &mut WorkingSet, command: &Gate) -> Answer<Passed> {
    match command {
        Gate::Admit(request) => set.admit(request).map(Passed::Admitted),
        Gate::Extend(extension) => set.extend(extension).map(|lease| Passed::Extended(Box::new(lease))),
    }
}

/// Loads what is due of the accounts of refused commands, and settles it; answers how many others hold.
async fn settle_due(tx: &mut Tx, set: &mut WorkingSet, accounts: &BTreeSet<AccountId>) -> Result<usize, StoreError> {
    /// Most leases that one batch settles.
    const DUE_MAX: i64 = 10_000;
    let passed_over = load::due(tx, set, accounts, DUE_MAX).await?;
    for account in accounts {
        set.settle_due(account).map_err(|_| StoreError::Overflow)?;
    }
    Ok(passed_over)
}

/// Whether settling what is due could turn a refusal into a yes: what it gives back is money and free time.
fn may_fit_after_settling<T>(answer: &Answer<T>) -> bool {
    let Err(CommandError::Refused(refusal)) = answer else { return false };
    matches!(
        refusal,
        Refusal::SpendingLimitReached(_) | Refusal::FreeHoursExhausted { .. } | Refusal::CreditExhausted { .. }
    )
}

fn account_of(command: &Gate) -> &AccountId {
    match command {
        Gate::Admit(request) => &request.account,
        Gate::Extend(extension) => &extension.account,
    }
}

/// Keeps a refusal for people; no decision reads it.
fn note_refusal(set: &mut WorkingSet, command: &Gate, answer: &Answer<Passed>) {
    let Err(CommandError::Refused(refusal)) = answer else { return };
    let (key, first) = match command {
        Gate::Admit(request) => (Some(request.key.clone()), request.leases.first().map(|lease| lease.id.clone())),
        Gate::Extend(extension) => {
            let lease = set.leases.get(&(extension.account.clone(), extension.lease.clone()));
            (lease.map(|lease| lease.key.clone()), Some(extension.lease.clone()))
        }
    };
    let (code, lease) = code_of(refusal);
    if let (Some(key), Some(lease)) = (key, lease.or(first)) {
        let account = account_of(command).clone();
        set.changes.refusals.push(RefusalNote { account, at: set.now, key, lease, code });
    }
}

/// The problem code of a refusal, and the lease that it names.
fn code_of(refusal: &Refusal) -> (&'static str, Option<LeaseId>) {
    match refusal {
        Refusal::AccountSuspended => ("account_suspended", None),
        Refusal::UnknownKey => ("not_found", None),
        Refusal::KeyRevoked => ("key_revoked", None),
        Refusal::ReadOnlyKey => ("read_only_key", None),
        Refusal::LeaseRunning { .. } => ("lease_running", None),
        Refusal::MaxCostExceeded { lease, .. } => ("max_cost_exceeded", Some(lease.clone())),
        Refusal::CardRequired { lease } => ("card_required", Some(lease.clone())),
        Refusal::FreeHoursExhausted { .. } => ("free_hours_exhausted", None),
        Refusal::CreditExhausted { lease, .. } => ("credit_exhausted", Some(lease.clone())),
        Refusal::SpendingLimitReached(reached) => ("spending_limit_reached", Some(reached.lease.clone())),
    }
}

/// Answers what an admission would, and changes nothing: the caller lets the transaction go.
pub(super) async fn quote(engine: &Engine, request: &AdmitRequest) -> Result<Answer<Quote>, StoreError> {
    let command = Gate::Admit(request.clone());
    let asks = Asks::of([(&command, false)]);
    let now = engine.clock.now();
    let Start { mut tx, held, early, .. } = engine.start(&asks, Vec::new(), now, &mut Onward::default()).await?;
    let mut set = engine.working_set(held.watermarks);
    set.now = set.now.max(now);
    set.take_accounts(held.accounts);
    load::gate(&mut tx, &mut set, &asks, early).await?;
    let passed = decide(&mut set, &[&command]);
    let answer = settle_for_refused(&mut tx, &mut set, &[&command], passed).await?.pop();
    Ok(match answer {
        Some(Ok(Passed::Admitted(admitted))) => worst_cases(&admitted),
        Some(Err(CommandError::Refused(refusal))) => Ok(Err(refusal)),
        Some(Err(other)) => Err(other),
        Some(Ok(Passed::Extended(_))) | None => Err(CommandError::Unavailable("a quote was not answered".to_owned())),
    })
}

fn worst_cases(admitted: &Admitted) -> Answer<Quote> {
    let worst = |lease: &Arc<Lease>| Ok((lease.id.clone(), lease.worst_cost(&admitted.prices)?.ceil()?));
    Ok(Ok(admitted.leases.iter().map(worst).collect::<Answer<_>>()?))
}

#[cfg(test)]
mod tests;
