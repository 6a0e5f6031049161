//! A batch of gate commands: admissions and extensions, decided one after another.
//!
//! A command that would be refused for money first settles what is due of its account, and is decided again in the same
//! step: so a refusal is right for a state that was committed between request and answer, due leases settled.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::batch::{AtGate, Gate, Passed};
use super::command::{AdmitRequest, Admitted, CommandError, ExtendLease, Quote};
use super::working_set::WorkingSet;
use super::{Answer, load};
use crate::domain::admission::Refusal;
use crate::domain::id::{AccountId, LeaseId};
use crate::domain::lease::Lease;
use crate::store::changes::RefusalNote;
use crate::store::{StoreError, Tx};

/// The accounts that commands are about: a batch begins with them locked.
pub(super) fn accounts_of(commands: &[AtGate]) -> BTreeSet<AccountId> {
    commands.iter().map(|one| account_of(&one.command)).cloned().collect()
}

/// Loads and decides a batch whose accounts are locked. Answers in the order of the commands.
pub async fn pass(tx: &mut Tx, set: &mut WorkingSet, commands: &[&Gate]) -> Result<Vec<Answer<Passed>>, StoreError> {
    load_gate(tx, set, commands).await?;
    let mut answers: Vec<Answer<Passed>> = commands.iter().map(|command| apply(set, command)).collect();
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

async fn load_gate(tx: &mut Tx, set: &mut WorkingSet, commands: &[&Gate]) -> Result<(), StoreError> {
    let (mut admissions, mut extensions): (Vec<&AdmitRequest>, Vec<&ExtendLease>) = (Vec::new(), Vec::new());
    for command in commands {
        match command {
            Gate::Admit(request) => admissions.push(request),
            Gate::Extend(extension) => extensions.push(extension),
        }
    }
    load::gate(tx, set, &admissions, &extensions).await
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
pub async fn quote(tx: &mut Tx, set: &mut WorkingSet, request: &AdmitRequest) -> Result<Answer<Quote>, StoreError> {
    let command = Gate::Admit(request.clone());
    let answer = pass(tx, set, &[&command]).await?.pop();
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
