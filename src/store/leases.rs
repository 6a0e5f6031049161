//! Leases and their extensions: loads. Their columns are in `lease_columns`, what is written in `save.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::id::{AccountId, ExtendId, KeyId, LeaseId, SandboxId};
use crate::domain::lease::{Asked, End, EndReason, Lease, LeaseKind, OpenHour, Shape};
use crate::domain::meter::{Meter, OpenMinute};
use crate::domain::sample::Reading;
use crate::domain::sample_page::OpenPage;
use crate::domain::time::{Minute, Span, Timestamp};
use crate::domain::units::Vcpus;

use super::changes::Extension;
use super::customers::account_rows;
use super::dialect::Row;
use super::read::{grouped, known};
use super::statement::Statement;
use super::{Answer, Rows, Tx, Value, all};

macro_rules! lease_columns {
    () => {
        "l.account_id, l.lease_id, l.key_id, l.sandbox_id, l.life, l.kind, l.vcpus, l.memory_mib, l.starts_at, l.ends_at,
        l.asked_starts_at, l.asked_timeout_ms, l.asked_max_cost_micros, l.asked_host_id, l.asked_replaces, l.created_at,
        l.ended_at, l.end_reason, l.proven_until, l.end_month, l.host_id, l.is_open, l.settles_at, l.settled_at,
        l.last_at, l.last_epoch, l.last_cpu_usage_us, l.last_memory_mib, l.last_storage_mib,
        l.minute, l.minute_used_us, l.minute_run_ms,
        l.open_hour, l.run_ms, l.cpu_used_us, l.cpu_us, l.memory_mib_ms, l.storage_mib_ms, l.free_ms, l.free_cpu_us,
        l.free_memory_mib_ms, l.page_bytes, l.page_next_number, l.page_month, l.voided_until"
    };
}
pub(super) use lease_columns;

static LOCK: Statement = Statement::new(
    "lock leases",
    concat!(
        "SELECT {now}, {row_id l}, ",
        lease_columns!(),
        " FROM {rows account_id text, lease_id text}
        {each_lock leases l: l.account_id = r.account_id AND l.lease_id = r.lease_id} ORDER BY r.ord"
    ),
);
static BY_ID: Statement = Statement::new(
    "leases",
    concat!(
        "SELECT ",
        lease_columns!(),
        " FROM {rows account_id text, lease_id text}
        {each leases l: l.account_id = r.account_id AND l.lease_id = r.lease_id} ORDER BY r.ord"
    ),
);
/// Locks are got in the order of the keys, whichever way the leases are found.
pub(super) static LOCK_MEETING: Statement = Statement::new(
    "lock leases meeting",
    concat!(
        "SELECT {now}, ",
        lease_columns!(),
        " FROM (SELECT m.account_id, m.lease_id
            FROM {rows account_id text, lease_id text, sandbox_id text, at int}
            {each leases m: m.account_id = r.account_id AND m.lease_id = r.lease_id}
        UNION SELECT m.account_id, m.lease_id FROM {rows}
            {each leases m: m.account_id = r.account_id AND m.sandbox_id = r.sandbox_id AND m.effective_end > r.at
                AND m.effective_end >= 0}
        UNION SELECT m.account_id, m.lease_id FROM {rows}
            {each leases m by leases_one_open: m.account_id = r.account_id AND m.sandbox_id = r.sandbox_id
                AND m.is_open = 1}
        ORDER BY 1, 2) AS r
        {each_lock leases l: l.account_id = r.account_id AND l.lease_id = r.lease_id}"
    ),
);
static DUE: Statement = Statement::new(
    "due leases",
    "SELECT l.account_id, l.lease_id FROM {rows account_id text}
    {each leases l: l.account_id = r.account_id AND l.settled_at IS NULL AND l.settles_at <= {int 1}}
    ORDER BY r.ord, l.settles_at, l.lease_id LIMIT {int 2}",
);
static LOCK_DUE: Statement = Statement::new(
    "lock due leases",
    "SELECT l.account_id, l.lease_id FROM {rows account_id text, lease_id text}
    {each_skip leases l: l.account_id = r.account_id AND l.lease_id = r.lease_id}",
);
static DUE_ANYWHERE: Statement = Statement::new(
    "due leases of all accounts",
    "SELECT l.account_id, l.lease_id FROM leases l WHERE l.settled_at IS NULL AND l.settles_at <= {int 1}
    ORDER BY l.settles_at, l.account_id, l.lease_id LIMIT {int 2}",
);
static UNSETTLED: Statement = Statement::new(
    "unsettled leases",
    concat!(
        "SELECT ",
        lease_columns!(),
        " FROM {rows account_id text}
        {each leases l by leases_unsettled: l.account_id = r.account_id AND l.settled_at IS NULL}
        ORDER BY r.ord, l.settles_at, l.lease_id"
    ),
);
static STARTS: Statement = Statement::new(
    "lease starts",
    "SELECT r.ord, l.starts_at, l.key_id FROM {rows account_id text, sandbox_id text, life int, at int}
    {each leases l: l.account_id = r.account_id AND l.sandbox_id = r.sandbox_id AND l.life = r.life
        AND l.starts_at >= 0
        AND l.starts_at >= COALESCE((SELECT b.starts_at FROM leases b WHERE b.account_id = r.account_id
            AND b.sandbox_id = r.sandbox_id AND b.life = r.life AND b.starts_at >= 0 AND b.starts_at <= r.at
            ORDER BY b.starts_at DESC LIMIT 1), 0)}
    ORDER BY r.ord, l.starts_at, l.created_at, l.effective_end > l.starts_at, l.lease_id",
);
static EXTENSIONS: Statement = Statement::new(
    "extensions",
    "SELECT e.account_id, e.lease_id, e.extend_id, e.timeout_ms, e.max_cost_micros, e.at
    FROM {rows account_id text, lease_id text, extend_id text}
    {each lease_extensions e: e.account_id = r.account_id AND e.lease_id = r.lease_id AND e.extend_id = r.extend_id}
    ORDER BY r.ord",
);
pub(super) static STATEMENTS: &[&Statement] =
    &[&LOCK, &BY_ID, &LOCK_MEETING, &DUE, &LOCK_DUE, &DUE_ANYWHERE, &UNSETTLED, &STARTS, &EXTENSIONS];

const KINDS: [(LeaseKind, &str); 3] =
    [(LeaseKind::Create, "create"), (LeaseKind::Wake, "wake"), (LeaseKind::Fork, "fork")];

/// A kind as it is kept.
pub(super) fn kind_text(kind: LeaseKind) -> &'static str {
    KINDS.iter().find(|(known, _)| *known == kind).map_or("", |(_, text)| text)
}

const REASONS: [(EndReason, &str); 6] = [
    (EndReason::Stop, "stop"),
    (EndReason::Pause, "pause"),
    (EndReason::Delete, "delete"),
    (EndReason::HostLost, "host_lost"),
    (EndReason::Cancel, "cancel"),
    (EndReason::Replaced, "replaced"),
];

/// A reason as it is kept.
pub(super) fn reason_text(reason: EndReason) -> &'static str {
    REASONS.iter().find(|(known, _)| *known == reason).map_or("", |(_, text)| text)
}

fn find<T: Copy>(known_as: &[(T, &str)], text: &str, what: &str) -> Answer<T> {
    known(known_as.iter().find(|(_, known)| *known == text).map(|(value, _)| *value), what)
}

/// Reads what `lease_columns` name.
pub(super) fn lease(row: &mut Row) -> Answer<Lease> {
    Ok(Lease {
        account: row.id()?,
        id: row.id()?,
        key: row.id()?,
        sandbox: row.id()?,
        life: row.int()?,
        kind: find(&KINDS, row.text()?, "a lease's kind")?,
        shape: Shape { vcpus: known(Vcpus::new(row.int()?), "a number of vCPUs")?, memory: row.mebibytes()? },
        window: Span { start: row.time()?, end: row.time()? },
        asked: Asked {
            starts_at: row.opt_time()?,
            timeout_ms: row.int()?,
            max_cost: row.opt_micros()?,
            host: row.opt_id()?,
            replaces: row.opt_id()?,
        },
        created_at: row.time()?,
        end: end(row)?,
        host: row.opt_id()?,
        open: row.flag()?,
        settles_at: row.time()?,
        settled_at: row.opt_time()?,
        meter: Meter { last: reading(row)?, open: open_minute(row)? },
        open_hour: open_hour(row)?,
        page: OpenPage { bytes: row.bytes()?, next_number: row.int()?, accepted_in: row.opt_month()? },
        voided_until: row.opt_time()?,
    })
}

fn end(row: &mut Row) -> Answer<Option<End>> {
    let at = row.opt_time()?;
    let reason = row.opt_text()?.map(|text| find(&REASONS, text, "an end's reason")).transpose()?;
    let (proven_until, told_in) = (row.opt_time()?, row.opt_month()?);
    at.map(|at| Ok(End { at, reason: known(reason, "an end's reason")?, proven_until, told_in })).transpose()
}

fn reading(row: &mut Row) -> Answer<Option<Reading>> {
    let (at, epoch, cpu) = (row.opt_time()?, row.opt_int()?, row.opt_int()?);
    let (memory, storage) = (row.opt_mebibytes()?, row.opt_mebibytes()?);
    let reading = |at| {
        let (epoch, cpu_usage_us) = (known(epoch, "an epoch")?, known(cpu, "a CPU counter")?);
        Ok(Reading { at, epoch, cpu_usage_us, memory, storage })
    };
    at.map(reading).transpose()
}

fn open_minute(row: &mut Row) -> Answer<Option<OpenMinute>> {
    let (minute, used, run) = (row.opt_int()?, row.opt_int()?, row.opt_int()?);
    let open = |index| {
        let minute = known(Minute::from_index(index), "a minute")?;
        Ok(OpenMinute { minute, used_us: known(used, "a minute's CPU")?, run_ms: known(run, "a minute's time")? })
    };
    minute.map(open).transpose()
}

fn open_hour(row: &mut Row) -> Answer<Option<OpenHour>> {
    let hour = row.opt_hour()?;
    let totals = row.hour_totals()?;
    Ok(hour.map(|hour| OpenHour { hour, totals }))
}

/// Leases as a row source.
fn lease_rows(ids: &BTreeSet<(AccountId, LeaseId)>) -> Rows<'_> {
    Rows::of(ids, |rows, (account, lease)| {
        rows.text(account.as_str()).text(lease.as_str());
    })
}

/// Leases and sandboxes side by side, as few rows as may be: each is looked for by itself.
pub(super) fn meeting_rows<'a>(
    ids: &'a BTreeSet<(AccountId, LeaseId)>,
    from: &'a BTreeMap<(AccountId, SandboxId), Timestamp>,
) -> Rows<'a> {
    let (mut ids, mut from) = (ids.iter().peekable(), from.iter().peekable());
    let pairs = std::iter::from_fn(|| {
        let next =
            ids.peek().map(|(account, _)| account).into_iter().chain(from.peek().map(|((account, _), _)| account));
        let account = next.min()?;
        let lease = ids.next_if(|(owner, _)| owner == account).map(|(_, lease)| lease);
        let sandbox = from.next_if(|((owner, _), _)| owner == account).map(|((_, sandbox), at)| (sandbox, at));
        Some((account, lease, sandbox))
    });
    Rows::of(pairs, |rows, (account, lease, sandbox)| {
        rows.text(account.as_str()).opt_text(lease.map(LeaseId::as_str));
        rows.opt_text(sandbox.map(|(sandbox, _)| sandbox.as_str())).opt_int(sandbox.map(|(_, at)| at.ms()));
    })
}

impl Tx {
    /// Locks leases and loads them as they are then; knows from now on where they lie.
    pub async fn lock_leases(&mut self, ids: &BTreeSet<(AccountId, LeaseId)>) -> Answer<Vec<Lease>> {
        let found = self.lock(&LOCK, &lease_rows(ids), |row| Ok((row.row_id()?, lease(row)?))).await?;
        let found = found.into_iter().map(|(row_id, lease)| {
            self.row_ids.insert((lease.account.clone(), lease.id.clone()), row_id);
            lease
        });
        Ok(found.collect())
    }

    /// Leases by id.
    pub async fn leases(&mut self, ids: &BTreeSet<(AccountId, LeaseId)>) -> Answer<Vec<Lease>> {
        all(self.fetch_rows(&BY_ID, &lease_rows(ids), &[]).await?, lease)
    }

    /// Locks leases by id, and those of each sandbox that are open or whose effective end is after the instant; loads
    /// them as they are then. By account and id, each once. A lease that is admitted meanwhile is not among them: who
    /// must not miss one has locked its account.
    pub async fn lock_leases_meeting(
        &mut self,
        ids: &BTreeSet<(AccountId, LeaseId)>,
        from: &BTreeMap<(AccountId, SandboxId), Timestamp>,
    ) -> Answer<Vec<Lease>> {
        self.lock(&LOCK_MEETING, &meeting_rows(ids, from), lease).await
    }

    /// Leases of accounts whose time to settle has come and that are not settled: locked (those that others hold are
    /// passed over) and loaded; at most `limit`, the longest due first within an account. And how many were passed over.
    pub async fn due_leases(
        &mut self,
        accounts: &BTreeSet<AccountId>,
        now: Timestamp,
        limit: i64,
    ) -> Answer<(Vec<Lease>, usize)> {
        let mut due = self.due(accounts, now, limit).await?;
        let found = due.len();
        if self.connection.is_shared() {
            let read = |row: &mut Row| Ok((row.id()?, row.id()?));
            due = all(self.fetch_rows(&LOCK_DUE, &lease_rows(&due), &[]).await?, read)?.into_iter().collect();
        }
        let passed_over = found.saturating_sub(due.len());
        let mut leases = self.leases(&due).await?;
        // Another engine may have settled some between the two statements.
        leases.retain(|lease| lease.settled_at.is_none() && lease.settles_at <= now);
        leases.sort_by(|left, right| {
            (&left.account, left.settles_at, &left.id).cmp(&(&right.account, right.settles_at, &right.id))
        });
        Ok((leases, passed_over))
    }

    /// The same leases for reading only, not locked.
    pub async fn due_leases_seen(
        &mut self,
        accounts: &BTreeSet<AccountId>,
        now: Timestamp,
        limit: i64,
    ) -> Answer<Vec<Lease>> {
        let due = self.due(accounts, now, limit).await?;
        self.leases(&due).await
    }

    async fn due(
        &mut self,
        accounts: &BTreeSet<AccountId>,
        now: Timestamp,
        limit: i64,
    ) -> Answer<BTreeSet<(AccountId, LeaseId)>> {
        let values = [Value::int(now.ms()), Value::int(limit)];
        let rows = self.fetch_rows(&DUE, &account_rows(accounts), &values).await?;
        Ok(all(rows, |row| Ok((row.id()?, row.id()?)))?.into_iter().collect())
    }

    /// Of all accounts, the leases that are longest due to settle.
    pub async fn due_anywhere(&mut self, now: Timestamp, limit: i64) -> Answer<Vec<(AccountId, LeaseId)>> {
        let values = [Value::int(now.ms()), Value::int(limit)];
        all(self.fetch(&DUE_ANYWHERE, &values).await?, |row| Ok((row.id()?, row.id()?)))
    }

    /// All leases of accounts that are not settled in their rows, by account, then time to settle.
    pub async fn unsettled_leases(&mut self, accounts: &BTreeSet<AccountId>) -> Answer<Vec<Lease>> {
        all(self.fetch_rows(&UNSETTLED, &account_rows(accounts), &[]).await?, lease)
    }

    /// For each sandbox life: start and key of the last lease that started at or before the instant, and of all later
    /// ones, ascending; of several that start at one instant the one that was admitted last, or runs, is the last; in
    /// the order asked.
    pub async fn lease_starts(
        &mut self,
        from: &[(AccountId, SandboxId, i64, Timestamp)],
    ) -> Answer<Vec<Vec<(Timestamp, KeyId)>>> {
        let rows = Rows::of(from, |rows, (account, sandbox, life, at)| {
            rows.text(account.as_str()).text(sandbox.as_str()).int(*life).int(at.ms());
        });
        let found =
            all(self.fetch_rows(&STARTS, &rows, &[]).await?, |row| Ok((row.place()?, (row.time()?, row.id()?))))?;
        Ok(grouped(from.len(), found))
    }

    /// Extensions by id.
    pub async fn extensions(&mut self, ids: &BTreeSet<(AccountId, LeaseId, ExtendId)>) -> Answer<Vec<Extension>> {
        let rows = Rows::of(ids, |rows, (account, lease, id)| {
            rows.text(account.as_str()).text(lease.as_str()).text(id.as_str());
        });
        all(self.fetch_rows(&EXTENSIONS, &rows, &[]).await?, |row| {
            Ok(Extension {
                account: row.id()?,
                lease: row.id()?,
                id: row.id()?,
                timeout_ms: row.int()?,
                max_cost: row.opt_micros()?,
                at: row.time()?,
            })
        })
    }
}
