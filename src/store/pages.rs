//! Closed pages of evidence: appended, and found around late samples.
//!
//! A page never spans a UTC hour, and its first instant is itself a sample; so bounds are found on first instants by
//! looking from one end of the primary key, and one hour more to the left takes in every page that overlaps them.

use std::collections::BTreeMap;

use crate::domain::id::LeaseId;
use crate::domain::sample_page::ClosedPage;
use crate::domain::time::{Month, Timestamp};

use super::changes::{Changes, PageOwner};
use super::dialect::Row;
use super::read::known;
use super::shapes::{KeptPage, OwnedPage, PageProbe};
use super::statement::Statement;
use super::{Answer, Rows, Tx, all};

/// No lease: at rest.
const AT_REST: &str = "";
/// Longest time that a page spans, in milliseconds: it lies in one UTC hour.
pub(super) const PAGE_MS_MAX: i64 = 3_600_000;

/// Pages of one life that begin in `(low, high]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRange<'a> {
    pub(super) account: &'a str,
    pub(super) sandbox: &'a str,
    pub(super) life: i64,
    /// Of this lease; `None`: all that carry storage.
    pub(super) lease: Option<&'a str>,
    pub(super) low: i64,
    pub(super) high: i64,
}

macro_rules! owner {
    ($alias:literal) => {
        concat!(
            $alias,
            ".account_id = r.account_id AND ",
            $alias,
            ".sandbox_id = r.sandbox_id AND ",
            $alias,
            ".life = r.life"
        )
    };
}
/// The last page of the lease that begins at or before the samples.
macro_rules! before {
    () => {
        concat!(
            "(SELECT p.first_at FROM sample_pages p WHERE ",
            owner!("p"),
            " AND p.lease_id = r.lease_id AND p.first_at <= r.since ORDER BY p.first_at DESC LIMIT 1)"
        )
    };
}
/// The first page of the lease that begins at or after the samples.
macro_rules! after {
    () => {
        concat!(
            "(SELECT p.first_at FROM sample_pages p WHERE ",
            owner!("p"),
            " AND p.lease_id = r.lease_id AND p.first_at >= r.until ORDER BY p.first_at LIMIT 1)"
        )
    };
}

/// The CPU curve needs one sample before the minute of the neighbour before, and one after that of the one after.
static LEASE_BOUNDS: Statement = Statement::new(
    "bounds of a lease's pages",
    concat!(
        "SELECT r.ord, (SELECT q.first_at FROM sample_pages q WHERE ",
        owner!("q"),
        " AND q.lease_id = r.lease_id AND q.first_at < ",
        before!(),
        " / 60000 * 60000 ORDER BY q.first_at DESC LIMIT 1),
        (SELECT q.first_at FROM sample_pages q WHERE ",
        owner!("q"),
        " AND q.lease_id = r.lease_id AND q.first_at >= ",
        after!(),
        " / 60000 * 60000 + 60000 ORDER BY q.first_at LIMIT 1)
        FROM {rows account_id text, sandbox_id text, life int, lease_id text, since int, until int}"
    ),
);
/// The storage meter needs one report before and one after, whoever made them.
static STORAGE_BOUNDS: Statement = Statement::new(
    "bounds of a sandbox's pages",
    concat!(
        "SELECT r.ord, (SELECT q.first_at FROM sample_pages q WHERE ",
        owner!("q"),
        " AND q.first_at < r.since AND q.storage_first_at < r.since ORDER BY q.first_at DESC LIMIT 1),
        (SELECT q.storage_last_at FROM sample_pages q WHERE ",
        owner!("q"),
        " AND q.first_at > r.until - 3600000 AND q.storage_last_at > r.until ORDER BY q.first_at LIMIT 1)
        FROM {rows account_id text, sandbox_id text, life int, since int, until int}"
    ),
);
static BETWEEN: Statement = Statement::new(
    "pages",
    concat!(
        "SELECT p.account_id, p.sandbox_id, p.life, p.lease_id, p.first_at, p.number, p.last_at, p.storage_first_at,
        p.storage_last_at, p.bytes, p.accepted_month
        FROM {rows account_id text, sandbox_id text, life int, lease_id text, storage int, low int, high int}
        {each sample_pages p: ",
        owner!("p"),
        " AND p.first_at > r.low AND p.first_at <= r.high
        AND (p.lease_id = r.lease_id OR (r.storage = 1 AND p.storage_first_at IS NOT NULL))}"
    ),
);
static ADD: Statement = Statement::new(
    "add pages",
    "INSERT INTO sample_pages ({columns}) SELECT {r.columns} FROM {rows account_id text, sandbox_id text, life int,
        first_at int, lease_id text, number int | last_at int, storage_first_at int, storage_last_at int, bytes bytes,
        accepted_month int}
    WHERE true",
);
pub(super) static STATEMENTS: &[&Statement] = &[&LEASE_BOUNDS, &STORAGE_BOUNDS, &BETWEEN, &ADD];

fn lease_text(owner: &PageOwner) -> &str {
    owner.lease.as_ref().map_or(AT_REST, LeaseId::as_str)
}

/// Reads a page and whose it is.
pub(super) fn page(row: &mut Row) -> Answer<OwnedPage> {
    let owner = PageOwner { account: row.id()?, sandbox: row.id()?, life: row.int()?, lease: row.key_id()? };
    let (first_at, number, last_at) = (row.time()?, row.int()?, row.time()?);
    let (from, to) = (row.opt_time()?, row.opt_time()?);
    let last = |from| known(to, "a page's last report").map(|to| (from, to));
    let storage_span = from.map(last).transpose()?;
    let (bytes, accepted_in) = (row.bytes()?, row.opt_month()?);
    Ok((owner, ClosedPage { number, first_at, last_at, storage_span, bytes, accepted_in }))
}

impl Tx {
    /// The closed pages around late samples, each once, by owner, first instant and number. What is in open pages is
    /// in the rows of leases and sandboxes.
    pub async fn pages_around(&mut self, probes: &[PageProbe]) -> Answer<Vec<OwnedPage>> {
        let mut ranges = Vec::new();
        for (storage, statement) in [(false, &LEASE_BOUNDS), (true, &STORAGE_BOUNDS)] {
            let asked: Vec<&PageProbe> = probes.iter().filter(|probe| probe.storage == storage).collect();
            let rows = Rows::of(&asked, |rows, probe| {
                rows.text(probe.owner.account.as_str()).text(probe.owner.sandbox.as_str()).int(probe.owner.life);
                if !storage {
                    rows.text(lease_text(&probe.owner));
                }
                rows.int(probe.from.ms()).int(probe.to.ms());
            });
            let bounds = all(self.fetch_rows(statement, &rows, &[]).await?, |row| {
                Ok((row.place()?, row.opt_int()?, row.opt_int()?))
            })?;
            for (place, low, high) in bounds {
                let probe = known(asked.get(place), "a row's place")?;
                ranges.push(PageRange {
                    account: probe.owner.account.as_str(),
                    sandbox: probe.owner.sandbox.as_str(),
                    life: probe.owner.life,
                    lease: (!storage).then(|| lease_text(&probe.owner)),
                    low: low.map_or(-1, |low| low.saturating_sub(PAGE_MS_MAX)),
                    high: high.unwrap_or(Timestamp::MAX.ms()),
                });
            }
        }
        let mut found = self.pages_between(&ranges).await?;
        // Where older evidence is archived, the samples that were kept of it stand in for it.
        let owners = Rows::of(probes, |rows, probe| {
            rows.text(probe.owner.account.as_str()).text(probe.owner.sandbox.as_str()).int(probe.owner.life);
        });
        found.extend(self.kept_pages_of(&owners).await?.into_iter().map(KeptPage::into_page));
        Ok(found)
    }

    /// The pages in ranges, each once, by owner, first instant and number.
    pub(super) async fn pages_between(&mut self, ranges: &[PageRange<'_>]) -> Answer<Vec<OwnedPage>> {
        let between = Rows::of(ranges, |rows, range| {
            rows.text(range.account).text(range.sandbox).int(range.life);
            // Reports at rest are part of every range of storage: they all carry storage.
            rows.text(range.lease.unwrap_or(AT_REST)).flag(range.lease.is_none()).int(range.low).int(range.high);
        });
        let found = all(self.fetch_rows(&BETWEEN, &between, &[]).await?, page)?;
        let once: BTreeMap<_, _> =
            found.into_iter().map(|(owner, page)| ((owner, page.first_at, page.number), page)).collect();
        Ok(once.into_iter().map(|((owner, ..), page)| (owner, page)).collect())
    }

    /// Appends pages.
    pub(super) async fn save_pages(&mut self, changes: &Changes) -> Answer<()> {
        let rows = Rows::of(&changes.pages, |rows, (owner, page)| {
            rows.text(owner.account.as_str()).text(owner.sandbox.as_str()).int(owner.life).int(page.first_at.ms());
            rows.text(lease_text(owner)).int(page.number).int(page.last_at.ms());
            rows.opt_int(page.storage_span.map(|(first, _)| first.ms()));
            rows.opt_int(page.storage_span.map(|(_, last)| last.ms())).bytes(&page.bytes);
            rows.opt_int(page.accepted_in.map(Month::index));
        });
        self.write(&ADD, &rows).await.map(drop)
    }
}
