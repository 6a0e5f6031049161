//! Loading for a void: all evidence of the sandbox's life, the lease, its hours, and who holds the storage.
//!
//! A void is rare and may be of any sample, so it is worked out from the whole evidence, as `verify` does, with and
//! without the sample.

use std::collections::BTreeSet;

use super::apply::void::Evidence;
use super::command::{Target, VoidSample};
use super::evidence;
use super::load::Loaded;
use super::working_set::WorkingSet;
use crate::domain::lease::Lease;
use crate::domain::proof::LifeId;
use crate::domain::sample_page::{self, PageSample};
use crate::domain::sandbox::Sandbox;
use crate::domain::storage_meter::Reporter;
use crate::domain::void::Void;
use crate::store::shapes::KeptPage;
use crate::store::{StoreError, Tx};

/// Loads what a void names and changes; `None` where there is no such lease or sandbox. The account is locked.
pub async fn load(tx: &mut Tx, set: &mut WorkingSet, command: &VoidSample) -> Loaded<Option<Evidence>> {
    let account = &command.account;
    let entries = tx.rate_card_entries(&[account.clone()].into()).await?;
    set.take_rate_cards(&[account.clone()].into(), &entries);
    let (sandbox, life, from) = match &command.of {
        Target::Lease(id) => {
            set.take_locked(tx.lock_leases(&[(account.clone(), id.clone())].into()).await?);
            let Some(lease) = set.leases.get(&(account.clone(), id.clone())) else { return Ok(None) };
            (lease.sandbox.clone(), Some(lease.life), lease.window.start.min(command.at))
        }
        Target::AtRest(id) => (id.clone(), None, command.at),
    };
    set.take_sandboxes(tx.lock_sandboxes(&[(account.clone(), sandbox.clone(), from)]).await?);
    let lives = set.sandboxes.get(&(account.clone(), sandbox.clone())).map_or(&[][..], |known| &known.lives);
    let found = match life {
        Some(life) => lives.iter().find(|known| known.life == life),
        None => lives.iter().rev().find(|known| known.created_at <= command.at).or_else(|| lives.first()),
    };
    let Some(sandbox) = found.cloned() else { return Ok(None) };
    let evidence = read(tx, &sandbox).await?;
    evidence::holders_of_life(tx, set, &sandbox).await?;
    if let Target::Lease(id) = &command.of {
        evidence::all_hours(tx, set, &(account.clone(), id.clone())).await?;
    }
    Ok(Some(evidence))
}

/// All samples of a life, and which of them are voided.
async fn read(tx: &mut Tx, sandbox: &Sandbox) -> Loaded<Evidence> {
    let life = (&sandbox.account, &sandbox.id, sandbox.life);
    let leases = tx.leases_of_life(life).await?;
    let mut pages = tx.pages_of_life(life).await?;
    let of = LifeId { sandbox: sandbox.id.clone(), life: sandbox.life };
    pages.extend(tx.kept_pages(&sandbox.account, &[of]).await?.into_iter().map(KeptPage::into_page));
    let lives: BTreeSet<_> = [(sandbox.account.clone(), sandbox.id.clone(), sandbox.life)].into();
    let voids: Vec<Void> = tx.voids_of_lives(&lives).await?;
    let mut found = Evidence { sandbox: sandbox.clone(), samples: Vec::new(), voids };
    let by = |lease: Option<&Lease>| match lease {
        Some(lease) => Reporter::Lease(lease.window.start, lease.id.clone()),
        None => Reporter::AtRest,
    };
    found.take(&by(None), &decode(&sandbox.page.bytes)?);
    for lease in &leases {
        found.take(&by(Some(lease)), &decode(&lease.page.bytes)?);
    }
    for (owner, page) in pages {
        let lease = owner.lease.as_ref().and_then(|id| leases.iter().find(|lease| lease.id == *id));
        found.take(&by(lease), &decode(&page.bytes)?);
    }
    Ok(found)
}

fn decode(bytes: &[u8]) -> Loaded<Vec<PageSample>> {
    sample_page::decode(bytes).map_err(|corrupt| StoreError::Corrupt(corrupt.to_string()))
}
