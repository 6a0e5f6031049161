//! Lives of sandboxes: locked, loaded and saved as whole rows.

use crate::domain::id::{AccountId, KeyId, LeaseId, SandboxId};
use crate::domain::sample_page::OpenPage;
use crate::domain::sandbox::{LatestLease, Sandbox};
use crate::domain::storage_meter::{Reporter, StorageHour, StorageMeter, StoragePoint};
use crate::domain::time::{Hour, Month, Timestamp};

use super::changes::Changes;
use super::dialect::Row;
use super::read::{known, narrow};
use super::statement::Statement;
use super::{Answer, Rows, Tx, all};

macro_rules! sandbox_columns {
    () => {
        "s.account_id, s.sandbox_id, s.life, s.first_key_id, s.created_at, s.deleted_at, s.deleted_month,
        s.latest_lease_id, s.latest_key_id, s.latest_starts_at,
        s.storage_at, s.storage_mib, s.storage_lease_id, s.storage_lease_starts_at,
        s.storage_hour, s.storage_hour_key_id, s.storage_hour_mib_ms, s.page_bytes, s.page_next_number, s.page_month,
        s.voided_until"
    };
}
/// The lives of a sandbox from the one in force at an instant (else the first) to the newest.
macro_rules! lives_from {
    () => {
        "s.account_id = r.account_id AND s.sandbox_id = r.sandbox_id AND s.life >= COALESCE(
            (SELECT b.life FROM sandboxes b WHERE b.account_id = r.account_id AND b.sandbox_id = r.sandbox_id
                AND b.created_at <= r.at ORDER BY b.life DESC LIMIT 1), 0)"
    };
}
pub(super) use sandbox_columns;

pub(super) static LOCK: Statement = Statement::new(
    "lock sandboxes",
    concat!(
        "SELECT {now}, ",
        sandbox_columns!(),
        " FROM {rows account_id text, sandbox_id text, at int} {each_lock sandboxes s: ",
        lives_from!(),
        "} ORDER BY r.ord, s.life"
    ),
);
static LIVES: Statement = Statement::new(
    "sandboxes",
    concat!(
        "SELECT ",
        sandbox_columns!(),
        " FROM {rows account_id text, sandbox_id text, at int} {each sandboxes s: ",
        lives_from!(),
        "} ORDER BY r.ord, s.life"
    ),
);
/// A life that has only begun: the rest of its row is NULL.
pub(super) static ADD_BEGUN: Statement = Statement::new(
    "add begun sandboxes",
    "INSERT INTO sandboxes ({columns}, page_next_number, page_bytes) SELECT {r.columns}, 0, {no_bytes}
    FROM {rows account_id text, sandbox_id text, life int | first_key_id text, created_at int, latest_lease_id text,
        latest_key_id text, latest_starts_at int} WHERE true",
);
macro_rules! add {
    () => {
        "INSERT INTO sandboxes ({columns}) SELECT {r.columns} FROM {rows account_id text, sandbox_id text, life int |
            first_key_id text, created_at int, deleted_at int, deleted_month int, latest_lease_id text,
            latest_key_id text, latest_starts_at int, storage_at int, storage_mib int, storage_lease_id text,
            storage_lease_starts_at int, storage_hour int, storage_hour_key_id text, storage_hour_mib_ms int,
            page_bytes bytes, page_next_number int, page_month int, voided_until int}
        WHERE true"
    };
}
static ADD: Statement = Statement::new("add sandboxes", add!());
static SAVE: Statement = Statement::new(
    "save sandboxes",
    concat!(add!(), " ON CONFLICT (account_id, sandbox_id, life) DO UPDATE SET {set}"),
);
pub(super) static STATEMENTS: &[&Statement] = &[&LOCK, &LIVES, &ADD_BEGUN, &ADD, &SAVE];

/// Reads what `sandbox_columns` name.
pub(super) fn sandbox(row: &mut Row) -> Answer<Sandbox> {
    Ok(Sandbox {
        account: row.id()?,
        id: row.id()?,
        life: row.int()?,
        first_key: row.id()?,
        created_at: row.time()?,
        deleted_at: row.opt_time()?,
        deleted_in: row.opt_month()?,
        latest: latest(row)?,
        storage: StorageMeter { last: point(row)?, open_hour: open_hour(row)? },
        page: OpenPage { bytes: row.bytes()?, next_number: row.int()?, accepted_in: row.opt_month()? },
        voided_until: row.opt_time()?,
    })
}

fn latest(row: &mut Row) -> Answer<Option<LatestLease>> {
    let id: Option<LeaseId> = row.opt_id()?;
    let (key, starts_at) = (row.opt_id()?, row.opt_time()?);
    let latest = |id| {
        let key = known(key, "the latest lease's key")?;
        Ok(LatestLease { id, key, starts_at: known(starts_at, "the latest lease's start")? })
    };
    id.map(latest).transpose()
}

fn point(row: &mut Row) -> Answer<Option<StoragePoint>> {
    let (at, storage) = (row.opt_time()?, row.opt_mebibytes()?);
    let (lease, starts_at): (Option<LeaseId>, _) = (row.opt_id()?, row.opt_time()?);
    let point = |at| {
        let by = match lease {
            Some(lease) => Reporter::Lease(known(starts_at, "a reporter's start")?, lease),
            None => Reporter::AtRest,
        };
        Ok(StoragePoint { at, storage: known(storage, "a report's storage")?, by })
    };
    at.map(point).transpose()
}

fn open_hour(row: &mut Row) -> Answer<Option<StorageHour>> {
    let hour = row.opt_hour()?;
    let (key, mib_ms): (Option<KeyId>, _) = (row.opt_id()?, row.opt_int()?);
    let open = |hour| {
        let key = known(key, "a storage hour's key")?;
        Ok(StorageHour { hour, key, mib_ms: i128::from(known(mib_ms, "a storage hour's usage")?) })
    };
    hour.map(open).transpose()
}

pub(super) fn from_rows<'a>(from: impl IntoIterator<Item = (&'a AccountId, &'a SandboxId, Timestamp)>) -> Rows<'a> {
    Rows::of(from, |rows, (account, sandbox, at)| {
        rows.text(account.as_str()).text(sandbox.as_str()).int(at.ms());
    })
}

/// Whether nothing is known of a life but its leases.
fn is_only_begun(sandbox: &Sandbox) -> bool {
    sandbox.deleted_at.is_none()
        && sandbox.deleted_in.is_none()
        && sandbox.storage == StorageMeter::default()
        && sandbox.page == OpenPage::default()
        && sandbox.voided_until.is_none()
}

/// New lives of which nothing is known but their leases, as the rows of `ADD_BEGUN`.
pub(super) fn begun_rows(changes: &Changes) -> Rows<'_> {
    Rows::of(changes.sandboxes_added.values().filter(|sandbox| is_only_begun(sandbox)), |rows, sandbox| {
        rows.text(sandbox.account.as_str()).text(sandbox.id.as_str()).int(sandbox.life);
        rows.text(sandbox.first_key.as_str()).int(sandbox.created_at.ms());
        write_latest(rows, sandbox.latest.as_ref());
    })
}

fn write_latest<'a>(rows: &mut Rows<'a>, latest: Option<&'a LatestLease>) {
    rows.opt_text(latest.map(|lease| lease.id.as_str())).opt_text(latest.map(|lease| lease.key.as_str()));
    rows.opt_int(latest.map(|lease| lease.starts_at.ms()));
}

fn write<'a>(rows: &mut Rows<'a>, sandbox: &'a Sandbox) -> Answer<()> {
    rows.text(sandbox.account.as_str()).text(sandbox.id.as_str()).int(sandbox.life);
    rows.text(sandbox.first_key.as_str()).int(sandbox.created_at.ms());
    rows.opt_int(sandbox.deleted_at.map(Timestamp::ms)).opt_int(sandbox.deleted_in.map(Month::index));
    write_latest(rows, sandbox.latest.as_ref());
    let last = sandbox.storage.last.as_ref();
    rows.opt_int(last.map(|point| point.at.ms())).opt_int(last.map(|point| point.storage.mib()));
    let reporter = last.and_then(|point| match &point.by {
        Reporter::AtRest => None,
        Reporter::Lease(starts_at, lease) => Some((lease.as_str(), starts_at.ms())),
    });
    rows.opt_text(reporter.map(|(lease, _)| lease)).opt_int(reporter.map(|(_, starts_at)| starts_at));
    let hour = sandbox.storage.open_hour.as_ref();
    rows.opt_int(hour.map(|open| Hour::index(open.hour))).opt_text(hour.map(|open| open.key.as_str()));
    rows.opt_int(hour.map(|open| narrow(open.mib_ms)).transpose()?);
    rows.bytes(&sandbox.page.bytes).int(sandbox.page.next_number);
    rows.opt_int(sandbox.page.accepted_in.map(Month::index)).opt_int(sandbox.voided_until.map(Timestamp::ms));
    Ok(())
}

impl Tx {
    /// Locks each sandbox's lives from the one in force at the instant (else the first) to the newest, and loads them as
    /// they are then; in the order asked, lives ascending.
    pub async fn lock_sandboxes(&mut self, from: &[(AccountId, SandboxId, Timestamp)]) -> Answer<Vec<Sandbox>> {
        self.lock(&LOCK, &from_rows(from.iter().map(|(account, id, at)| (account, id, *at))), sandbox).await
    }

    /// [`Tx::lock_sandboxes`] without the lock; with [`Timestamp::MAX`]: the newest life.
    pub async fn sandboxes(&mut self, from: &[(AccountId, SandboxId, Timestamp)]) -> Answer<Vec<Sandbox>> {
        let rows = from_rows(from.iter().map(|(account, id, at)| (account, id, *at)));
        all(self.fetch_rows(&LIVES, &rows, &[]).await?, sandbox)
    }

    /// Saves lives as whole rows: all but [`begun_rows`]. A new one that is there already breaks a constraint.
    pub(super) async fn save_sandboxes(&mut self, changes: &Changes) -> Answer<()> {
        let more = changes.sandboxes_added.values().filter(|sandbox| !is_only_begun(sandbox));
        self.write(&ADD, &Rows::try_of(more, write)?).await?;
        self.write(&SAVE, &Rows::try_of(changes.sandboxes.values(), write)?).await.map(drop)
    }
}
