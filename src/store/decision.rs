//! What a decision reads, in two round trips: whom it is about, locked; and all that it is decided on. In one, where
//! nobody else can be writing.
//!
//! What is not locked itself here may stand beside locks, as the doctrine in [`super`] says: grants, rate cards, keys and
//! limits are their accounts', which are locked before; counters can only be lowered by others.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::customer::Account;
use crate::domain::id::{AccountId, KeyId, LeaseId, SandboxId};
use crate::domain::lease::Lease;
use crate::domain::sandbox::Sandbox;
use crate::domain::time::{Day, Month, Timestamp};

use super::bundle::Bundle;
use super::customers::{self, account_rows};
use super::dialect::Row;
use super::rate_cards::scope_rows;
use super::shapes::{Bearer, KeyDay, Terms};
use super::{Answer, Rows, Tx, all, days, known_row, leases, sandboxes, terms, tokens};

pub(super) static HOLD: Bundle<3> = Bundle::of_reads(
    "hold a decision's accounts",
    [&super::tx::OPEN_MONTH_SHARED, &tokens::BEARERS, &customers::LOCK_ACCOUNTS],
);
pub(super) static LOAD: Bundle<4> =
    Bundle::of_reads("load a decision", [&terms::TERMS, &leases::LOCK_MEETING, &sandboxes::LOCK, &days::KEY_DAYS]);
/// Both, where nothing that the second reads can change between.
static HOLD_AND_LOAD: Bundle<7> = Bundle::of_reads(
    "hold and load a decision",
    [
        &super::tx::OPEN_MONTH_SHARED,
        &tokens::BEARERS,
        &customers::LOCK_ACCOUNTS,
        &terms::TERMS,
        &leases::LOCK_MEETING,
        &sandboxes::LOCK,
        &days::KEY_DAYS,
    ],
);

/// Whom a decision is about, and who asks for it.
#[derive(Debug)]
pub struct Held {
    /// As [`Tx::hold_watermarks`] answers.
    pub watermarks: (Month, Month),
    /// As [`Tx::lock_accounts`] answers.
    pub accounts: Vec<Account>,
    /// As [`Tx::bearers`] answers.
    pub bearers: Vec<Option<Bearer>>,
}

/// What a decision asks for, beside its accounts.
#[derive(Debug)]
pub struct Asked<'a> {
    /// Whose terms.
    pub accounts: &'a BTreeSet<AccountId>,
    /// Leases by id.
    pub leases: &'a BTreeSet<(AccountId, LeaseId)>,
    /// Sandboxes, and from when on their lives and leases matter.
    pub sandboxes: &'a BTreeMap<(AccountId, SandboxId), Timestamp>,
    /// Keys and days.
    pub days: &'a BTreeSet<(AccountId, KeyId, Day)>,
}

impl<'a> Asked<'a> {
    /// What each statement of [`LOAD`] asks for.
    fn rows(&self) -> [Rows<'a>; 4] {
        [
            scope_rows(self.accounts),
            leases::meeting_rows(self.leases, self.sandboxes),
            sandboxes::from_rows(self.sandboxes.iter().map(|((account, id), at)| (account, id, *at))),
            days::day_rows(self.days),
        ]
    }
}

/// What it is decided on.
#[derive(Debug)]
pub struct Found {
    /// As [`Tx::terms`] answers.
    pub terms: Terms,
    /// As [`Tx::lock_leases_meeting`] answers.
    pub leases: Vec<Lease>,
    /// As [`Tx::lock_sandboxes`] answers.
    pub sandboxes: Vec<Sandbox>,
    /// As [`Tx::key_days`] answers.
    pub days: Vec<KeyDay>,
}

impl Tx {
    /// [`Tx::hold_watermarks`], whose secrets these are, then [`Tx::lock_accounts`].
    pub async fn hold_for_decision(&mut self, accounts: &BTreeSet<AccountId>, secrets: &[[u8; 32]]) -> Answer<Held> {
        let rows = [&Rows::default(), &tokens::secret_rows(secrets), &account_rows(accounts)];
        let found = self.fetch_bundle(&HOLD, rows).await?;
        self.held(secrets, found)
    }

    /// [`Tx::hold_for_decision`], then [`Tx::load_decision`]. Where others can be writing what is asked for has to be
    /// right whatever they do before the accounts are locked.
    pub async fn hold_and_load(&mut self, secrets: &[[u8; 32]], asked: &Asked<'_>) -> Answer<(Held, Found)> {
        if self.is_shared() {
            let held = self.hold_for_decision(asked.accounts, secrets).await?;
            return Ok((held, self.load_decision(asked).await?));
        }
        let [terms, leases, sandboxes, days] = asked.rows();
        let (secret_rows, accounts) = (tokens::secret_rows(secrets), account_rows(asked.accounts));
        let rows = [&Rows::default(), &secret_rows, &accounts, &terms, &leases, &sandboxes, &days];
        let [watermarks, bearers, locked, terms, leases, sandboxes, days] =
            self.fetch_bundle(&HOLD_AND_LOAD, rows).await?;
        let held = self.held(secrets, [watermarks, bearers, locked])?;
        Ok((held, self.found([terms, leases, sandboxes, days])?))
    }

    /// [`Tx::commit_early`]; then, in the same round trip, the next batch's [`Tx::hold_and_load`]. `None` where that
    /// failed, or where several can write.
    pub async fn commit_and_hold(self, secrets: &[[u8; 32]], asked: &Asked<'_>) -> Answer<Option<(Self, Held, Found)>> {
        let [terms, leases, sandboxes, days] = asked.rows();
        let (secret_rows, accounts) = (tokens::secret_rows(secrets), account_rows(asked.accounts));
        let rows = [&Rows::default(), &secret_rows, &accounts, &terms, &leases, &sandboxes, &days];
        let Some((mut next, found)) = self.commit_and_begin(&HOLD_AND_LOAD, rows).await? else { return Ok(None) };
        let [watermarks, bearers, locked, terms, leases, sandboxes, days] = found;
        // What can't be read now is asked for again.
        let Ok(held) = next.held(secrets, [watermarks, bearers, locked]) else { return Ok(None) };
        let Ok(found) = next.found([terms, leases, sandboxes, days]) else { return Ok(None) };
        Ok(Some((next, held, found)))
    }

    fn held(&mut self, secrets: &[[u8; 32]], [watermarks, bearers, locked]: [Vec<Row>; 3]) -> Answer<Held> {
        let mut row = known_row(watermarks)?;
        Ok(Held {
            watermarks: (row.month()?, row.month()?),
            accounts: self.locked(locked, customers::account)?,
            bearers: tokens::placed(secrets.len(), bearers)?,
        })
    }

    /// Terms; leases, locked; sandboxes, locked; keys and their days. Their accounts have to be locked.
    pub async fn load_decision(&mut self, asked: &Asked<'_>) -> Answer<Found> {
        let [terms, leases, sandboxes, days] = asked.rows();
        let found = self.fetch_bundle(&LOAD, [&terms, &leases, &sandboxes, &days]).await?;
        self.found(found)
    }

    fn found(&mut self, [terms, leases, sandboxes, days]: [Vec<Row>; 4]) -> Answer<Found> {
        Ok(Found {
            terms: terms::terms(terms)?,
            leases: self.locked(leases, leases::lease)?,
            sandboxes: self.locked(sandboxes, sandboxes::sandbox)?,
            days: all(days, days::key_day)?,
        })
    }
}
