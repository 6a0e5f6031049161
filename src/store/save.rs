//! Saving a batch: a handful of statements, counters last; and what is written of a lease.

use crate::domain::id::{HostId, LeaseId};
use crate::domain::lease::{HourTotals, Lease};
use crate::domain::meter::Meter;
use crate::domain::money::Micros;
use crate::domain::sample_page::OpenPage;
use crate::domain::time::{Hour, Minute, Month, Timestamp};
use crate::domain::units::MebiBytes;

use super::bundle::Bundle;
use super::changes::Changes;
use super::leases::{kind_text, reason_text};
use super::read::known;
use super::statement::Statement;
use super::{Answer, Rows, StoreError, Tx, Value, days, sandboxes};

/// What of a lease its samples change.
macro_rules! metered {
    () => {
        "last_at int, last_epoch int, last_cpu_usage_us int, last_memory_mib int, last_storage_mib int, minute int,
        minute_used_us int, minute_run_ms int, open_hour int, run_ms int, cpu_used_us int, cpu_us int,
        memory_mib_ms int, storage_mib_ms int, free_ms int, free_cpu_us int, free_memory_mib_ms int, page_bytes bytes,
        page_next_number int, page_month int"
    };
}
/// What else changes after its admission.
macro_rules! lived {
    () => {
        "ends_at int, ended_at int, end_reason text, proven_until int, end_month int, effective_end int, host_id text,
        is_open int, settles_at int, settled_at int, voided_until int"
    };
}

static METER_LEASES: Statement = Statement::new(
    "meter leases",
    concat!(
        "UPDATE leases AS l SET {set_r} FROM {rows row_id row_id, account_id text, lease_id text | ",
        metered!(),
        "} {at leases l: l.account_id = r.account_id AND l.lease_id = r.lease_id}"
    ),
);
static METER_ASSUMED: Statement = Statement::new(
    "meter assumed leases",
    concat!(
        "UPDATE leases AS l SET {set_r} FROM {rows written_by xid, account_id text, lease_id text | ",
        metered!(),
        "} {unchanged leases l: l.account_id = r.account_id AND l.lease_id = r.lease_id AND {server} = {int 1}}"
    ),
);
static CHANGE_LEASES: Statement = Statement::new(
    "change leases",
    concat!(
        "UPDATE leases AS l SET {set_r} FROM {rows account_id text, lease_id text | ",
        lived!(),
        ", ",
        metered!(),
        "} {found leases l: l.account_id = r.account_id AND l.lease_id = r.lease_id}"
    ),
);
/// A lease that has only been granted: the rest of its row is as it begins.
static ADD_GRANTED: Statement = Statement::new(
    "add granted leases",
    "INSERT INTO leases ({columns}, run_ms, cpu_used_us, cpu_us, memory_mib_ms, storage_mib_ms, free_ms, free_cpu_us,
        free_memory_mib_ms, page_next_number, page_bytes)
    SELECT {r.columns}, 0, 0, 0, 0, 0, 0, 0, 0, 0, {no_bytes} FROM {rows account_id text, lease_id text | key_id text,
        sandbox_id text, life int, kind text, vcpus int, memory_mib int, starts_at int, asked_starts_at int,
        asked_timeout_ms int, asked_max_cost_micros int, asked_host_id text, asked_replaces text, created_at int,
        ends_at int, effective_end int, host_id text, is_open int, settles_at int}
    WHERE true",
);
pub(super) static ADD_NEW: Bundle<2> =
    Bundle::of_writes("begin sandboxes and leases", [&sandboxes::ADD_BEGUN, &ADD_GRANTED]);
/// The same with what they count. The order in which they are run does not matter: nobody else can want the new rows, so
/// nobody waits for who holds them, and counters are still last of all that somebody may wait for.
pub(super) static ADD_COUNTED: Bundle<3> =
    Bundle::of_writes("begin and count leases", [&sandboxes::ADD_BEGUN, &ADD_GRANTED, &days::ADD_KEY_DAYS]);
static ADD_LEASES: Statement = Statement::new(
    "add leases",
    concat!(
        "INSERT INTO leases ({columns}) SELECT {r.columns} FROM {rows account_id text, lease_id text | key_id text,
        sandbox_id text, life int, kind text, vcpus int, memory_mib int, starts_at int, asked_starts_at int,
        asked_timeout_ms int, asked_max_cost_micros int, asked_host_id text, asked_replaces text, created_at int, ",
        lived!(),
        ", ",
        metered!(),
        "} WHERE true"
    ),
);
static ADD_EXTENSIONS: Statement = Statement::new(
    "add extensions",
    "INSERT INTO lease_extensions ({columns}) SELECT {r.columns} FROM {rows account_id text, lease_id text,
        extend_id text | timeout_ms int, max_cost_micros int, at int} WHERE true",
);
static ADD_REFUSALS: Statement = Statement::new(
    "add refusals",
    "INSERT INTO refusals ({columns}) SELECT {r.columns} FROM {rows account_id text, at int, key_id text,
        lease_id text, code text} WHERE true",
);
pub(super) static STATEMENTS: &[&Statement] =
    &[&METER_LEASES, &METER_ASSUMED, &CHANGE_LEASES, &ADD_GRANTED, &ADD_LEASES, &ADD_EXTENSIONS, &ADD_REFUSALS];

impl Tx {
    /// Saves what a batch changed; statements without rows are left out. Known leases are written before new ones, so
    /// that an old lease is closed before its successor is open; counters come last, in the order of their keys.
    /// [`StoreError::Constraint`] when a changed lease or a drawn grant is not there.
    pub async fn save(&mut self, changes: &Changes) -> Answer<()> {
        if changes.only_admits() {
            return self.save_admitted(changes).await;
        }
        self.save_customers(changes).await?;
        self.save_credits(changes).await?;
        self.save_rate_cards(changes).await?;
        self.save_known_leases(changes).await?;
        self.save_new_leases(changes).await?;
        self.save_sandboxes(changes).await?;
        self.save_pages(changes).await?;
        self.save_voids(changes).await?;
        self.save_notes(changes).await?;
        self.save_hours(changes).await?;
        self.save_draws(changes).await?;
        self.save_days(changes).await?;
        self.save_parts(changes).await?;
        self.save_rejected(changes).await?;
        self.save_refusals(changes).await
    }

    async fn save_refusals(&mut self, changes: &Changes) -> Answer<()> {
        let refusals = Rows::of(&changes.refusals, |rows, note| {
            rows.text(note.account.as_str()).int(note.at.ms()).text(note.key.as_str()).text(note.lease.as_str());
            rows.text(note.code);
        });
        self.write(&ADD_REFUSALS, &refusals).await.map(drop)
    }

    /// What a batch that only admits has changed: its new rows and its keys' counters go together.
    async fn save_admitted(&mut self, changes: &Changes) -> Answer<()> {
        let (granted, more) = new_leases(changes);
        let (begun, days) = (sandboxes::begun_rows(changes), days::added_rows(changes)?);
        self.write_bundle(&ADD_COUNTED, [&begun, &granted_rows(granted), &days]).await?;
        self.save_other_leases(&more).await?;
        self.save_sandboxes(changes).await?;
        self.save_account_days(changes).await?;
        self.save_refusals(changes).await
    }

    async fn save_known_leases(&mut self, changes: &Changes) -> Answer<()> {
        if !self.assumed.is_empty() {
            return self.save_assumed_leases(changes).await;
        }
        // A row that is written lies elsewhere afterwards.
        let metered = changes.leases_metered.iter().map(|(key, lease)| (self.row_ids.remove(key), lease));
        let (placed, searched): (Vec<_>, Vec<_>) = metered.partition(|(row_id, _)| row_id.is_some());
        let placed = Rows::try_of(placed, |rows, (row_id, lease)| {
            rows.row_id(known(row_id, "where a lease lies")?);
            rows.text(lease.account.as_str()).text(lease.id.as_str());
            write_metered(rows, lease)
        })?;
        self.write_known(&METER_LEASES, &placed).await?;
        let searched = searched.into_iter().map(|(_, lease)| lease);
        let changed = Rows::try_of(searched.chain(changes.leases_changed.values()), |rows, lease| {
            rows.text(lease.account.as_str()).text(lease.id.as_str());
            write_lived(rows, lease);
            write_metered(rows, lease)
        })?;
        self.write_known(&CHANGE_LEASES, &changed).await
    }

    /// Leases that were assumed, of which only what samples change may have changed.
    async fn save_assumed_leases(&mut self, changes: &Changes) -> Answer<()> {
        let again = |why: &str| Err(StoreError::Again(why.to_owned()));
        if !changes.leases_changed.is_empty()
            || changes.leases_metered.keys().any(|key| !self.assumed.contains_key(key))
        {
            return again("a lease is not only metered, or not assumed");
        }
        let server = self.assumed.values().next().map_or(0, |written_by| written_by.server);
        if self.assumed.values().any(|written_by| written_by.server != server) {
            return Err(StoreError::Stale("leases of several servers".to_owned()));
        }
        let rows = Rows::try_of(&changes.leases_metered, |rows, (key, lease)| {
            rows.xid(known(self.assumed.get(key), "who wrote a lease")?.transaction);
            rows.text(lease.account.as_str()).text(lease.id.as_str());
            write_metered(rows, lease)
        })?;
        let written = self.write_with(&METER_ASSUMED, &rows, &[Value::int(server)]).await?;
        if u64::try_from(rows.count()) == Ok(written) { Ok(()) } else { Err(StoreError::Stale("a lease".to_owned())) }
    }

    /// New leases, and of sandboxes those that begin with them.
    async fn save_new_leases(&mut self, changes: &Changes) -> Answer<()> {
        let (granted, more) = new_leases(changes);
        self.write_bundle(&ADD_NEW, [&sandboxes::begun_rows(changes), &granted_rows(granted)]).await?;
        self.save_other_leases(&more).await?;
        let extensions = Rows::of(&changes.extensions, |rows, extension| {
            rows.text(extension.account.as_str()).text(extension.lease.as_str()).text(extension.id.as_str());
            rows.int(extension.timeout_ms).opt_int(extension.max_cost.map(Micros::count)).int(extension.at.ms());
        });
        self.write(&ADD_EXTENSIONS, &extensions).await.map(drop)
    }

    /// New leases to which more has happened than that they were granted.
    async fn save_other_leases(&mut self, leases: &[&Lease]) -> Answer<()> {
        let rows = Rows::try_of(leases, |rows, lease| {
            write_granted(rows, lease);
            write_lived(rows, lease);
            write_metered(rows, lease)
        })?;
        self.write(&ADD_LEASES, &rows).await.map(drop)
    }

    /// Writes rows that must be there already.
    pub(super) async fn write_known(&mut self, statement: &'static Statement, rows: &Rows<'_>) -> Answer<()> {
        let written = self.write(statement, rows).await?;
        if u64::try_from(rows.count()) == Ok(written) {
            Ok(())
        } else {
            Err(StoreError::Constraint(format!("{}: a row is not there", statement.name)))
        }
    }
}

/// New leases: those that have only been granted, and the others.
fn new_leases(changes: &Changes) -> (Vec<&Lease>, Vec<&Lease>) {
    changes.leases_added.values().map(AsRef::as_ref).partition(|lease| is_only_granted(lease))
}

fn granted_rows(leases: Vec<&Lease>) -> Rows<'_> {
    Rows::of(leases, |rows, lease| {
        write_granted(rows, lease);
        rows.int(lease.window.end.ms()).int(lease.effective_end().ms());
        rows.opt_text(lease.host.as_ref().map(HostId::as_str)).flag(lease.open).int(lease.settles_at.ms());
    })
}

/// Whether nothing has happened to a lease since it was granted.
fn is_only_granted(lease: &Lease) -> bool {
    lease.end.is_none()
        && lease.settled_at.is_none()
        && lease.meter == Meter::default()
        && lease.open_hour.is_none()
        && lease.page == OpenPage::default()
}

fn write_granted<'a>(rows: &mut Rows<'a>, lease: &'a Lease) {
    rows.text(lease.account.as_str()).text(lease.id.as_str()).text(lease.key.as_str()).text(lease.sandbox.as_str());
    rows.int(lease.life).text(kind_text(lease.kind)).int(lease.shape.vcpus.count()).int(lease.shape.memory.mib());
    rows.int(lease.window.start.ms()).opt_int(lease.asked.starts_at.map(Timestamp::ms)).int(lease.asked.timeout_ms);
    rows.opt_int(lease.asked.max_cost.map(Micros::count)).opt_text(lease.asked.host.as_ref().map(HostId::as_str));
    rows.opt_text(lease.asked.replaces.as_ref().map(LeaseId::as_str)).int(lease.created_at.ms());
}

fn write_lived<'a>(rows: &mut Rows<'a>, lease: &'a Lease) {
    let end = lease.end;
    rows.int(lease.window.end.ms()).opt_int(end.map(|end| end.at.ms()));
    rows.opt_text(end.map(|end| reason_text(end.reason)));
    rows.opt_int(end.and_then(|end| end.proven_until).map(Timestamp::ms));
    rows.opt_int(end.and_then(|end| end.told_in).map(Month::index)).int(lease.effective_end().ms());
    rows.opt_text(lease.host.as_ref().map(HostId::as_str)).flag(lease.open).int(lease.settles_at.ms());
    rows.opt_int(lease.settled_at.map(Timestamp::ms)).opt_int(lease.voided_until.map(Timestamp::ms));
}

fn write_metered<'a>(rows: &mut Rows<'a>, lease: &'a Lease) -> Answer<()> {
    let last = lease.meter.last;
    rows.opt_int(last.map(|last| last.at.ms())).opt_int(last.map(|last| last.epoch));
    rows.opt_int(last.map(|last| last.cpu_usage_us));
    rows.opt_int(last.and_then(|last| last.memory).map(MebiBytes::mib));
    rows.opt_int(last.and_then(|last| last.storage).map(MebiBytes::mib));
    let minute = lease.meter.open;
    rows.opt_int(minute.map(|open| Minute::index(open.minute))).opt_int(minute.map(|open| open.used_us));
    rows.opt_int(minute.map(|open| open.run_ms)).opt_int(lease.open_hour.map(|open| Hour::index(open.hour)));
    rows.hour_totals(&lease.open_hour.map_or_else(HourTotals::default, |open| open.totals))?;
    rows.bytes(&lease.page.bytes).int(lease.page.next_number).opt_int(lease.page.accepted_in.map(Month::index));
    Ok(())
}
