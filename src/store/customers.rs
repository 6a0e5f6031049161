//! Accounts, their keys and their grants of free time.

use std::collections::BTreeSet;

use crate::domain::customer::{Account, AccountStatus, Key};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, KeyId};
use crate::domain::money::Micros;
use crate::domain::tax::TaxRate;
use crate::domain::time::{Day, Timestamp};

use super::changes::Changes;
use super::dialect::Row;
use super::read::known;
use super::statement::Statement;
use super::{Answer, Rows, Tx, all};

macro_rules! account_columns {
    () => {
        "a.account_id, a.name, a.status, a.card_on_file, a.daily_limit_micros, a.counted_from, a.created_at,
        a.tax_rate_bps"
    };
}
macro_rules! key_columns {
    () => {
        "k.account_id, k.key_id, k.name, k.read_only, k.daily_limit_micros, k.revoked_at, k.created_at"
    };
}
macro_rules! grant_columns {
    () => {
        "g.account_id, g.grant_id, g.granted_ms, g.used_ms, g.starts_on, g.expires_on, g.note, g.created_at"
    };
}
pub(super) use {account_columns, grant_columns, key_columns};

/// How many columns `grant_columns` names.
pub(super) const GRANT_COLUMNS: usize = 8;
/// How many columns `key_columns` names.
pub(super) const KEY_COLUMNS: usize = 7;

macro_rules! held {
    ($how:literal) => {
        concat!(
            "SELECT {now}, ",
            account_columns!(),
            " FROM {rows account_id text} {",
            $how,
            " accounts a: a.account_id = r.account_id} ORDER BY r.ord"
        )
    };
}
pub(super) static LOCK_ACCOUNTS: Statement = Statement::new("lock accounts", held!("each_lock"));
static SHARE_ACCOUNTS: Statement = Statement::new("share accounts", held!("each_share"));
static LOCK_ACCOUNTS_ALONE: Statement = Statement::new("lock accounts alone", held!("each_alone"));
static ACCOUNTS: Statement = Statement::new(
    "accounts",
    concat!(
        "SELECT ",
        account_columns!(),
        " FROM {rows account_id text} {each accounts a: a.account_id = r.account_id} ORDER BY r.ord"
    ),
);
static KEYS: Statement = Statement::new(
    "keys",
    concat!(
        "SELECT ",
        key_columns!(),
        " FROM {rows account_id text, key_id text}
        {each keys k: k.account_id = r.account_id AND k.key_id = r.key_id} ORDER BY r.ord"
    ),
);
static GRANTS: Statement = Statement::new(
    "grants",
    concat!(
        "SELECT ",
        grant_columns!(),
        " FROM {rows account_id text} {each grants g: g.account_id = r.account_id} ORDER BY r.ord, g.grant_id"
    ),
);
/// Not `save accounts`: of two that make one account at once the second breaks the key, and looks again.
static ADD_ACCOUNTS: Statement = Statement::new(
    "add accounts",
    "INSERT INTO accounts ({columns}) SELECT {r.columns} FROM {rows account_id text | name text, status text,
        card_on_file int, daily_limit_micros int, counted_from int, created_at int, tax_rate_bps int} WHERE true",
);
static SAVE_ACCOUNTS: Statement = Statement::new(
    "save accounts",
    "INSERT INTO accounts ({columns}) SELECT {r.columns} FROM {rows account_id text | name text, status text,
        card_on_file int, daily_limit_micros int, counted_from int, created_at int, tax_rate_bps int}
    WHERE true ON CONFLICT (account_id) DO UPDATE SET {set}",
);
static SAVE_KEYS: Statement = Statement::new(
    "save keys",
    "INSERT INTO keys ({columns}, secret_sha256) SELECT {r.columns}, NULL FROM {rows account_id text, key_id text |
        name text, read_only int, daily_limit_micros int, revoked_at int, created_at int}
    WHERE true ON CONFLICT (account_id, key_id) DO UPDATE SET {set}",
);
static SAVE_SECRETS: Statement = Statement::new(
    "save secrets",
    "UPDATE keys AS k SET {set_r} FROM {rows account_id text, key_id text | secret_sha256 bytes}
    {found keys k: k.account_id = r.account_id AND k.key_id = r.key_id}",
);
static ADD_GRANTS: Statement = Statement::new(
    "add grants",
    "INSERT INTO grants ({columns}) SELECT {r.columns} FROM {rows account_id text, grant_id text | granted_ms int,
        used_ms int, starts_on int, expires_on int, note text, created_at int} WHERE true",
);
static DRAW_GRANTS: Statement = Statement::new(
    "draw grants",
    "UPDATE grants AS g SET used_ms = g.used_ms + r.added_ms FROM {rows account_id text, grant_id text | added_ms int}
    {found grants g: g.account_id = r.account_id AND g.grant_id = r.grant_id}",
);
pub(super) static STATEMENTS: &[&Statement] = &[
    &LOCK_ACCOUNTS,
    &SHARE_ACCOUNTS,
    &LOCK_ACCOUNTS_ALONE,
    &ACCOUNTS,
    &KEYS,
    &GRANTS,
    &ADD_ACCOUNTS,
    &SAVE_ACCOUNTS,
    &SAVE_KEYS,
    &SAVE_SECRETS,
    &ADD_GRANTS,
    &DRAW_GRANTS,
];

/// Reads what `account_columns` name.
pub(super) fn account(row: &mut Row) -> Answer<Account> {
    Ok(Account {
        id: row.id()?,
        name: row.string()?,
        status: known(status(row.text()?), "an account's status")?,
        card_on_file: row.flag()?,
        daily_limit: row.opt_micros()?,
        counted_from: row.opt_day()?,
        created_at: row.time()?,
        tax: row.opt_tax_rate()?,
    })
}

fn status(text: &str) -> Option<AccountStatus> {
    [AccountStatus::Active, AccountStatus::Suspended].into_iter().find(|status| status_text(*status) == text)
}

fn status_text(status: AccountStatus) -> &'static str {
    match status {
        AccountStatus::Active => "active",
        AccountStatus::Suspended => "suspended",
    }
}

/// Reads what `key_columns` name.
pub(super) fn key(row: &mut Row) -> Answer<Key> {
    Ok(Key {
        account: row.id()?,
        id: row.id()?,
        name: row.string()?,
        read_only: row.flag()?,
        daily_limit: row.opt_micros()?,
        revoked_at: row.opt_time()?,
        created_at: row.time()?,
    })
}

/// Reads what `grant_columns` name.
pub(super) fn grant(row: &mut Row) -> Answer<Grant> {
    Ok(Grant {
        account: row.id()?,
        id: row.id()?,
        granted_ms: row.int()?,
        used_ms: row.int()?,
        starts_on: row.day()?,
        expires_on: row.opt_day()?,
        note: row.string()?,
        created_at: row.time()?,
    })
}

fn write_account<'a>(rows: &mut Rows<'a>, account: &'a Account) {
    rows.text(account.id.as_str()).text(&account.name).text(status_text(account.status));
    rows.flag(account.card_on_file).opt_int(account.daily_limit.map(Micros::count));
    rows.opt_int(account.counted_from.map(Day::index)).int(account.created_at.ms());
    rows.opt_int(account.tax.map(TaxRate::bps));
}

/// Accounts as a row source.
pub(super) fn account_rows(accounts: &BTreeSet<AccountId>) -> Rows<'_> {
    Rows::of(accounts, |rows, account| {
        rows.text(account.as_str());
    })
}

impl Tx {
    /// Locks accounts and loads them as they are then.
    pub async fn lock_accounts(&mut self, ids: &BTreeSet<AccountId>) -> Answer<Vec<Account>> {
        self.lock(&LOCK_ACCOUNTS, &account_rows(ids), account).await
    }

    /// [`Tx::lock_accounts`] against everybody, those that share them too. Whoever begins an account's day counters needs
    /// it: afterwards no addition to its keys' days is under way.
    pub async fn lock_accounts_alone(&mut self, ids: &BTreeSet<AccountId>) -> Answer<Vec<Account>> {
        self.lock(&LOCK_ACCOUNTS_ALONE, &account_rows(ids), account).await
    }

    /// Holds accounts against [`Tx::lock_accounts_alone`], beside all others, and loads them: only the beginning of their
    /// day counters can't change any more. Whoever adds to keys' days without having locked their accounts needs it.
    pub async fn share_accounts(&mut self, ids: &BTreeSet<AccountId>) -> Answer<Vec<Account>> {
        self.lock(&SHARE_ACCOUNTS, &account_rows(ids), account).await
    }

    /// Accounts by id.
    pub async fn accounts(&mut self, ids: &BTreeSet<AccountId>) -> Answer<Vec<Account>> {
        all(self.fetch_rows(&ACCOUNTS, &account_rows(ids), &[]).await?, account)
    }

    /// Keys by id.
    pub async fn keys(&mut self, ids: &BTreeSet<(AccountId, KeyId)>) -> Answer<Vec<Key>> {
        let rows = Rows::of(ids, |rows, (account, key)| {
            rows.text(account.as_str()).text(key.as_str());
        });
        all(self.fetch_rows(&KEYS, &rows, &[]).await?, key)
    }

    /// All grants of accounts, by account, then id.
    pub async fn grants(&mut self, accounts: &BTreeSet<AccountId>) -> Answer<Vec<Grant>> {
        all(self.fetch_rows(&GRANTS, &account_rows(accounts), &[]).await?, grant)
    }

    /// Saves accounts, keys, secrets and grants.
    pub(super) async fn save_customers(&mut self, changes: &Changes) -> Answer<()> {
        self.write(&ADD_ACCOUNTS, &Rows::of(changes.accounts_added.values(), write_account)).await?;
        self.write(&SAVE_ACCOUNTS, &Rows::of(changes.accounts.values(), write_account)).await?;
        let keys = Rows::of(changes.keys.values(), |rows, key| {
            rows.text(key.account.as_str()).text(key.id.as_str()).text(&key.name).flag(key.read_only);
            rows.opt_int(key.daily_limit.map(Micros::count)).opt_int(key.revoked_at.map(Timestamp::ms));
            rows.int(key.created_at.ms());
        });
        self.write(&SAVE_KEYS, &keys).await?;
        let secrets = Rows::of(&changes.key_secrets, |rows, ((account, key), sha256)| {
            rows.text(account.as_str()).text(key.as_str()).bytes(sha256);
        });
        self.write_known(&SAVE_SECRETS, &secrets).await?;
        let grants = Rows::of(changes.grants.values(), |rows, grant| {
            rows.text(grant.account.as_str()).text(grant.id.as_str()).int(grant.granted_ms).int(grant.used_ms);
            rows.int(grant.starts_on.index()).opt_int(grant.expires_on.map(Day::index));
            rows.text(&grant.note).int(grant.created_at.ms());
        });
        self.write(&ADD_GRANTS, &grants).await?;
        let drawn = Rows::of(&changes.grant_used_ms, |rows, ((account, grant), added_ms)| {
            rows.text(account.as_str()).text(grant.as_str()).int(*added_ms);
        });
        self.write_known(&DRAW_GRANTS, &drawn).await
    }
}
