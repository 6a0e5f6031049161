//! What the evidence of an invoice is read from: what a month billed, lives and leases of it, and the pages in and
//! around months, all as of the closing of a month.

use std::collections::BTreeMap;

use crate::domain::id::{AccountId, GrantId, LeaseId};
use crate::domain::lease::Lease;
use crate::domain::proof::LifeId;
use crate::domain::sandbox::Sandbox;
use crate::domain::time::{Day, Hour, Month, Span, Timestamp};

use super::hours::sums;
use super::leases::{lease, lease_columns};
use super::pages::{PAGE_MS_MAX, PageRange};
use super::sandboxes::{sandbox, sandbox_columns};
use super::shapes::{BilledPart, DrawRow, KeptPage, OwnedPage, PageSpan};
use super::statement::Statement;
use super::{Answer, Rows, Tx, Value, all};

/// By day only where asked for.
static PARTS: Statement = Statement::new(
    "usage by lease and billed month",
    concat!(
        "SELECT h.sandbox_id, h.life, h.lease_id, CASE {int 2} WHEN 1 THEN h.hour / 24 ELSE r.since / 24 END,
        h.billed_month, ",
        sums!("h"),
        " FROM {rows account_id text, since int, until int}
        {each usage_hours h: h.account_id = r.account_id AND h.hour >= r.since AND h.hour < r.until
            AND h.billed_month <= {int 1}}
        GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5"
    ),
);
static LIVES: Statement = Statement::new(
    "lives by key",
    concat!(
        "SELECT ",
        sandbox_columns!(),
        " FROM {rows account_id text, sandbox_id text, life int}
        {each sandboxes s: s.account_id = r.account_id AND s.sandbox_id = r.sandbox_id AND s.life = r.life}
        ORDER BY r.ord"
    ),
);
static LEASES: Statement = Statement::new(
    "leases of lives by start",
    concat!(
        "SELECT ",
        lease_columns!(),
        " FROM {rows account_id text, sandbox_id text, life int, since int, until int}
        {each leases l by leases_by_start: l.account_id = r.account_id AND l.sandbox_id = r.sandbox_id
            AND l.life = r.life AND l.starts_at >= r.since AND l.starts_at <= r.until AND l.starts_at >= 0}
        ORDER BY r.ord, l.lease_id"
    ),
);
/// The pages of a lease next to a span: the last that begins before it, the first that begins at or after its end.
static LEASE_BOUNDS: Statement = Statement::new(
    "pages next to a lease's span",
    "SELECT r.ord, (SELECT p.first_at FROM sample_pages p WHERE p.account_id = r.account_id
            AND p.sandbox_id = r.sandbox_id AND p.life = r.life AND p.lease_id = r.lease_id AND p.first_at < r.since
            AND COALESCE(p.accepted_month, 0) <= {int 1} ORDER BY p.first_at DESC LIMIT 1),
        (SELECT p.first_at FROM sample_pages p WHERE p.account_id = r.account_id
            AND p.sandbox_id = r.sandbox_id AND p.life = r.life AND p.lease_id = r.lease_id AND p.first_at >= r.until
            AND p.first_at <= {int 2} AND COALESCE(p.accepted_month, 0) <= {int 1} ORDER BY p.first_at LIMIT 1)
    FROM {rows account_id text, sandbox_id text, life int, lease_id text, since int, until int}",
);
/// The same of reports of storage, whoever made them.
static STORAGE_BOUNDS: Statement = Statement::new(
    "pages next to a sandbox's span",
    "SELECT r.ord, (SELECT p.first_at FROM sample_pages p WHERE p.account_id = r.account_id
            AND p.sandbox_id = r.sandbox_id AND p.life = r.life AND p.first_at < r.since
            AND p.storage_first_at < r.since
            AND COALESCE(p.accepted_month, 0) <= {int 1} ORDER BY p.first_at DESC LIMIT 1),
        (SELECT p.storage_last_at FROM sample_pages p WHERE p.account_id = r.account_id
            AND p.sandbox_id = r.sandbox_id AND p.life = r.life AND p.first_at >= r.until AND p.first_at <= {int 2}
            AND p.storage_first_at IS NOT NULL
            AND COALESCE(p.accepted_month, 0) <= {int 1} ORDER BY p.first_at LIMIT 1)
    FROM {rows account_id text, sandbox_id text, life int, since int, until int}",
);
static LATE_DRAWS: Statement = Statement::new(
    "draws billed after a month",
    "SELECT d.account_id, d.lease_id, d.hour, d.grant_id, d.drawn_ms FROM {rows account_id text, lease_id text}
    {each late_draws d: d.account_id = r.account_id AND d.lease_id = r.lease_id AND d.billed_month > {int 1}}
    ORDER BY r.ord, d.hour, d.grant_id",
);
static DRAWN: Statement = Statement::new(
    "drawn by grant",
    "SELECT d.grant_id, CAST(SUM(d.drawn_ms) AS BIGINT) FROM draws d
    WHERE d.account_id = {text 1} AND d.hour < {int 2} GROUP BY d.grant_id ORDER BY d.grant_id",
);
static DRAWN_LATE: Statement = Statement::new(
    "drawn late by grant",
    "SELECT d.grant_id, CAST(SUM(d.drawn_ms) AS BIGINT) FROM late_draws d
    WHERE d.account_id = {text 1} AND d.hour < {int 2} AND d.billed_month > {int 3}
    GROUP BY d.grant_id ORDER BY d.grant_id",
);
static KEPT: Statement = Statement::new(
    "kept pages of lives",
    "SELECT k.account_id, k.sandbox_id, k.life, k.lease_id, k.first_at, k.accepted_month, k.bytes
    FROM {rows account_id text, sandbox_id text, life int}
    {each kept_pages k: k.account_id = r.account_id AND k.sandbox_id = r.sandbox_id AND k.life = r.life}
    ORDER BY r.ord, k.first_at, k.lease_id",
);
pub(super) static STATEMENTS: &[&Statement] =
    &[&PARTS, &LIVES, &LEASES, &LEASE_BOUNDS, &STORAGE_BOUNDS, &LATE_DRAWS, &DRAWN, &DRAWN_LATE, &KEPT];

fn life_rows<'a>(account: &'a AccountId, lives: impl IntoIterator<Item = &'a LifeId>) -> Rows<'a> {
    Rows::of(lives, |rows, of| {
        rows.text(account.as_str()).text(of.sandbox.as_str()).int(of.life);
    })
}

impl Tx {
    /// What hours used in a month were billed in which months, up to `billed`, by life and lease (and, if asked for,
    /// by day; else the day is the month's first).
    pub async fn billed_parts(
        &mut self,
        account: &AccountId,
        used: Month,
        billed: Month,
        by_day: bool,
    ) -> Answer<Vec<BilledPart>> {
        let (from, to) = (used.first_day().start().hour(), used.next().first_day().start().hour());
        let row = Rows::of([()], |rows, ()| {
            rows.text(account.as_str()).int(Hour::index(from)).int(Hour::index(to));
        });
        let values = [Value::int(billed.index()), Value::int(i64::from(by_day))];
        all(self.fetch_rows(&PARTS, &row, &values).await?, |row| {
            let of = LifeId { sandbox: row.id()?, life: row.int()? };
            let (lease, day, billed) = (row.key_id()?, row.day()?, row.month()?);
            Ok(BilledPart { of, lease, day, billed, totals: row.hour_totals()? })
        })
    }

    /// Lives by their keys, in the order asked.
    pub async fn lives(&mut self, account: &AccountId, lives: &[LifeId]) -> Answer<Vec<Sandbox>> {
        all(self.fetch_rows(&LIVES, &life_rows(account, lives), &[]).await?, sandbox)
    }

    /// Leases of lives that started between two instants, both included.
    pub async fn leases_started(
        &mut self,
        account: &AccountId,
        lives: &[LifeId],
        from: Timestamp,
        to: Timestamp,
    ) -> Answer<Vec<Lease>> {
        let rows = Rows::of(lives, |rows, of| {
            rows.text(account.as_str()).text(of.sandbox.as_str()).int(of.life).int(from.ms()).int(to.ms());
        });
        all(self.fetch_rows(&LEASES, &rows, &[]).await?, lease)
    }

    /// The pages in each span and the nearest outside it, of samples accepted up to `month`; those after it that begin
    /// at or before `until`. More pages than these may come; each comes once.
    pub async fn pages_in(
        &mut self,
        account: &AccountId,
        spans: &[PageSpan],
        month: Month,
        until: Timestamp,
    ) -> Answer<Vec<OwnedPage>> {
        let values = [Value::int(month.index()), Value::int(until.ms())];
        let mut ranges = Vec::new();
        for (storage, statement) in [(false, &LEASE_BOUNDS), (true, &STORAGE_BOUNDS)] {
            let asked: Vec<&PageSpan> = spans.iter().filter(|span| span.lease.is_none() == storage).collect();
            let rows = Rows::of(&asked, |rows, span| {
                rows.text(account.as_str()).text(span.of.sandbox.as_str()).int(span.of.life);
                if let Some(lease) = &span.lease {
                    rows.text(lease.as_str());
                }
                rows.int(span.span.start.ms()).int(span.span.end.ms());
            });
            let found = all(self.fetch_rows(statement, &rows, &values).await?, |row| {
                Ok((row.place()?, row.opt_int()?, row.opt_int()?))
            })?;
            for (place, before, after) in found {
                let Some(asked) = asked.get(place) else { continue };
                let Span { start, end } = asked.span;
                let range = |low: i64, high: i64| PageRange {
                    account: account.as_str(),
                    sandbox: asked.of.sandbox.as_str(),
                    life: asked.of.life,
                    lease: asked.lease.as_ref().map(LeaseId::as_str),
                    low,
                    high,
                };
                // Pages are within a UTC hour, so none of a span's begins before it.
                ranges.push(range(start.ms().saturating_sub(1), end.ms().saturating_sub(1)));
                ranges.extend(before.map(|before| range(before.saturating_sub(PAGE_MS_MAX), before)));
                ranges.extend(after.map(|after| range(end.ms().saturating_sub(1), after)));
            }
        }
        let mut pages = self.pages_between(&ranges).await?;
        pages.retain(|(_, page)| page.accepted_in.is_none_or(|accepted| accepted <= month));
        Ok(pages)
    }

    /// Of leases' draws, the part that months after `month` bill.
    pub async fn draws_billed_after(
        &mut self,
        account: &AccountId,
        leases: &[LeaseId],
        month: Month,
    ) -> Answer<Vec<DrawRow>> {
        let rows = Rows::of(leases, |rows, lease| {
            rows.text(account.as_str()).text(lease.as_str());
        });
        all(self.fetch_rows(&LATE_DRAWS, &rows, &[Value::int(month.index())]).await?, |row| {
            let (account, lease, hour, grant) = (row.id()?, row.id()?, row.hour()?, row.id()?);
            Ok(DrawRow { account, lease, hour, grant, drawn_ms: row.int()?, seq: 0 })
        })
    }

    /// What hours before the end of `month` had drawn by its closing, by grant, in milliseconds.
    pub async fn drawn_by_grant(&mut self, account: &AccountId, month: Month) -> Answer<BTreeMap<GrantId, i64>> {
        let until: Day = month.next().first_day();
        let until = until.start().hour().index();
        let values = [Value::text(account.as_str()), Value::int(until), Value::int(month.index())];
        let read = |row: &mut super::dialect::Row| Ok((row.id()?, row.int()?));
        let mut drawn: BTreeMap<GrantId, i64> =
            all(self.fetch(&DRAWN, values.get(..2).unwrap_or_default()).await?, read)?.into_iter().collect();
        for (grant, late) in all(self.fetch(&DRAWN_LATE, &values).await?, read)? {
            let sum: &mut i64 = drawn.entry(grant).or_default();
            *sum = sum.checked_sub(late).ok_or(super::StoreError::Overflow)?;
        }
        Ok(drawn)
    }

    /// What was kept of lives' archived evidence.
    pub async fn kept_pages(&mut self, account: &AccountId, lives: &[LifeId]) -> Answer<Vec<KeptPage>> {
        self.kept_pages_of(&life_rows(account, lives)).await
    }

    /// [`Tx::kept_pages`] of lives as rows; one that is there twice is answered twice.
    pub(super) async fn kept_pages_of(&mut self, lives: &Rows<'_>) -> Answer<Vec<KeptPage>> {
        all(self.fetch_rows(&KEPT, lives, &[]).await?, |row| {
            let owner = super::changes::PageOwner {
                account: row.id()?,
                sandbox: row.id()?,
                life: row.int()?,
                lease: row.key_id()?,
            };
            let (at, accepted_in) = (row.time()?, row.opt_month()?);
            Ok(KeptPage { owner, at, accepted_in, bytes: row.bytes()? })
        })
    }
}
