//! Archived evidence: from which month on it is at hand, and the samples that are kept of what is not.

use crate::domain::id::LeaseId;
use crate::domain::time::Month;

use super::shapes::KeptPage;
use super::statement::Statement;
use super::{Answer, Rows, StoreError, Tx, Value};

static FROM: Statement =
    Statement::new("evidence at hand", "SELECT e.from_month FROM evidence_watermark e WHERE e.id = 1");
/// Only ever forward, whoever comes first.
static MOVE: Statement = Statement::new(
    "move evidence watermark",
    "UPDATE evidence_watermark SET from_month = {int 1} WHERE id = 1 AND from_month < {int 1}",
);
static KEEP: Statement = Statement::new(
    "keep pages",
    "INSERT INTO kept_pages ({columns}) SELECT {r.columns} FROM {rows account_id text, sandbox_id text, life int,
        first_at int, lease_id text | accepted_month int, bytes bytes}
    WHERE true ON CONFLICT (account_id, sandbox_id, life, first_at, lease_id) DO NOTHING",
);
/// Of the accounts, those of which a month that is not closed bills usage of a month up to another one.
static WAITS: Statement = Statement::new(
    "late usage that waits",
    "SELECT COUNT(*) FROM accounts r {each late_months m: m.account_id = r.account_id AND m.billed_month >= {int 1}
        AND m.use_month <= {int 2}}",
);
pub(super) static STATEMENTS: &[&Statement] = &[&FROM, &MOVE, &KEEP, &WAITS];

impl Tx {
    /// The first month whose evidence is at hand.
    pub async fn evidence_from(&mut self) -> Answer<Month> {
        let found = self.fetch(&FROM, &[]).await?.into_iter().next();
        found.ok_or_else(|| StoreError::corrupt("no evidence watermark"))?.month()
    }

    /// Evidence of months before `month` is archived from now on.
    pub async fn move_evidence_from(&mut self, month: Month) -> Answer<()> {
        self.execute(&MOVE, &[Value::int(month.index())]).await.map(drop)
    }

    /// Whether months from `open_month` on bill late usage of months up to `month`.
    pub async fn late_usage_waits(&mut self, open_month: Month, month: Month) -> Answer<bool> {
        let values = [Value::int(open_month.index()), Value::int(month.index())];
        let found = self.fetch(&WAITS, &values).await?.into_iter().next();
        Ok(found.ok_or_else(|| StoreError::corrupt("no count"))?.int()? > 0)
    }

    /// Keeps samples of evidence that is archived; those that are kept already stay.
    pub async fn keep_pages(&mut self, pages: &[KeptPage]) -> Answer<()> {
        let rows = Rows::of(pages, |rows, page| {
            let owner = &page.owner;
            rows.text(owner.account.as_str()).text(owner.sandbox.as_str()).int(owner.life).int(page.at.ms());
            rows.text(owner.lease.as_ref().map_or("", LeaseId::as_str));
            rows.opt_int(page.accepted_in.map(Month::index)).bytes(&page.bytes);
        });
        self.write(&KEEP, &rows).await.map(drop)
    }
}
