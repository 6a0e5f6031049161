//! Day counters of keys and accounts: loaded, and added to.

use std::collections::BTreeSet;

use crate::domain::id::{AccountId, KeyId};
use crate::domain::limits::DayTotals;
use crate::domain::time::Day;

use super::changes::Changes;
use super::customers::{KEY_COLUMNS, key, key_columns};
use super::dialect::Row;
use super::shapes::KeyDay;
use super::statement::Statement;
use super::{Answer, Rows, Tx, Value, all};

/// How many columns `day_columns` names.
const DAY_COLUMNS: usize = 10;

macro_rules! day_columns {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            "used_run_ms",
            $after,
            ", ",
            $before,
            "used_cpu_used_us",
            $after,
            ", ",
            $before,
            "used_cpu_us",
            $after,
            ", ",
            $before,
            "used_memory_mib_ms",
            $after,
            ", ",
            $before,
            "used_storage_mib_ms",
            $after,
            ", ",
            $before,
            "reserved_run_ms",
            $after,
            ", ",
            $before,
            "reserved_cpu_used_us",
            $after,
            ", ",
            $before,
            "reserved_cpu_us",
            $after,
            ", ",
            $before,
            "reserved_memory_mib_ms",
            $after,
            ", ",
            $before,
            "reserved_storage_mib_ms",
            $after
        )
    };
}

pub(super) use day_columns;

pub(super) static KEY_DAYS: Statement = Statement::new(
    "key days",
    concat!(
        "SELECT r.account_id, r.key_id, r.day, ",
        key_columns!(),
        ", ",
        day_columns!("d.", ""),
        ", ",
        day_columns!("a.", ""),
        " FROM {rows account_id text, key_id text, day int}
        {maybe keys k: k.account_id = r.account_id AND k.key_id = r.key_id}
        {maybe key_days d: d.account_id = r.account_id AND d.day = r.day AND d.key_id = r.key_id}
        {maybe account_days a: a.account_id = r.account_id AND a.day = r.day}
        ORDER BY r.ord"
    ),
);
static KEY_DAYS_OF: Statement = Statement::new(
    "key days of an account",
    concat!(
        "SELECT d.key_id, ",
        day_columns!("d.", ""),
        " FROM key_days d WHERE d.account_id = {text 1} AND d.day = {int 2} ORDER BY d.key_id"
    ),
);
pub(super) static ADD_KEY_DAYS: Statement = Statement::new(
    "add key days",
    concat!(
        "INSERT INTO key_days ({columns}) SELECT {r.columns} FROM {rows account_id text, day int, key_id text | ",
        day_columns!("", " int"),
        "} WHERE true ON CONFLICT (account_id, day, key_id) DO UPDATE SET {add key_days}"
    ),
);
static ADD_ACCOUNT_DAYS: Statement = Statement::new(
    "add account days",
    concat!(
        "INSERT INTO account_days ({columns}) SELECT {r.columns} FROM {rows account_id text, day int | ",
        day_columns!("", " int"),
        "} WHERE true ON CONFLICT (account_id, day) DO UPDATE SET {add account_days}"
    ),
);
static COUNT_FROM: Statement = Statement::new(
    "count account days",
    concat!(
        "INSERT INTO account_days (account_id, day, ",
        day_columns!("", ""),
        ") SELECT d.account_id, d.day, ",
        day_columns!("CAST(SUM(d.", ") AS BIGINT)"),
        " FROM {rows account_id text, since int}
        {each key_days d: d.account_id = r.account_id AND d.day >= r.since}
        WHERE true GROUP BY d.account_id, d.day ORDER BY d.account_id, d.day
        ON CONFLICT (account_id, day) DO NOTHING"
    ),
);
pub(super) static STATEMENTS: &[&Statement] = &[&KEY_DAYS, &KEY_DAYS_OF, &ADD_KEY_DAYS, &ADD_ACCOUNT_DAYS, &COUNT_FROM];

/// Keys and days as a row source.
pub(super) fn day_rows(ids: &BTreeSet<(AccountId, KeyId, Day)>) -> Rows<'_> {
    Rows::of(ids, |rows, (account, key, day)| {
        rows.text(account.as_str()).text(key.as_str()).int(day.index());
    })
}

/// Reads what `KEY_DAYS` answers.
pub(super) fn key_day(row: &mut Row) -> Answer<KeyDay> {
    Ok(KeyDay {
        of: (row.id()?, row.id()?, row.day()?),
        key: if row.gap(KEY_COLUMNS)? { None } else { Some(key(row)?) },
        totals: if row.gap(DAY_COLUMNS)? { None } else { Some(row.day_totals()?) },
        of_account: if row.gap(DAY_COLUMNS)? { None } else { Some(row.day_totals()?) },
    })
}

/// Additions to keys' days, in the order of the primary key, which has the day before the key.
pub(super) fn added_rows(changes: &Changes) -> Answer<Rows<'_>> {
    let mut days: Vec<_> = changes.key_days.iter().collect();
    days.sort_by(|((account, key, day), _), ((other_account, other_key, other_day), _)| {
        (account, day, key).cmp(&(other_account, other_day, other_key))
    });
    Rows::try_of(days, |rows, ((account, key, day), totals)| {
        rows.text(account.as_str()).int(day.index()).text(key.as_str()).day_totals(totals)
    })
}

impl Tx {
    /// Keys with what they, and their accounts, use and hold on days; one for each asked, in order.
    pub async fn key_days(&mut self, ids: &BTreeSet<(AccountId, KeyId, Day)>) -> Answer<Vec<KeyDay>> {
        all(self.fetch_rows(&KEY_DAYS, &day_rows(ids), &[]).await?, key_day)
    }

    /// All keys of an account that have a row on a day, by key.
    pub async fn key_days_of(&mut self, account: &AccountId, day: Day) -> Answer<Vec<(KeyId, DayTotals)>> {
        let values = [Value::text(account.as_str()), Value::int(day.index())];
        all(self.fetch(&KEY_DAYS_OF, &values).await?, |row| Ok((row.id()?, row.day_totals()?)))
    }

    /// Begins accounts' own counters with the sums of their keys' as they are in the database, then adds to both.
    pub(super) async fn save_days(&mut self, changes: &Changes) -> Answer<()> {
        let begun = Rows::of(&changes.accounts_counted_from, |rows, (account, day)| {
            rows.text(account.as_str()).int(day.index());
        });
        self.write(&COUNT_FROM, &begun).await?;
        self.write(&ADD_KEY_DAYS, &added_rows(changes)?).await?;
        self.save_account_days(changes).await
    }

    /// Adds to accounts' days.
    pub(super) async fn save_account_days(&mut self, changes: &Changes) -> Answer<()> {
        let accounts = Rows::try_of(&changes.account_days, |rows, ((account, day), totals)| {
            rows.text(account.as_str()).int(day.index()).day_totals(totals)
        })?;
        self.write(&ADD_ACCOUNT_DAYS, &accounts).await.map(drop)
    }
}
