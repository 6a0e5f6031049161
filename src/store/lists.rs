//! Lists for people: by id after the last one seen, so that a page costs the same wherever it is.

use crate::domain::customer::{Account, Key};
use crate::domain::free_hours::Grant;
use crate::domain::id::{AccountId, HostId, KeyId};
use crate::domain::lease::Lease;
use crate::domain::rate_card::RateCardEntry;
use crate::domain::sandbox::Sandbox;
use crate::domain::time::Day;

use super::customers::{account, account_columns, grant, grant_columns, key, key_columns};
use super::leases::{lease, lease_columns};
use super::rate_cards::{DEFAULT_SCOPE, card_columns, entry};
use super::sandboxes::{sandbox, sandbox_columns};
use super::shapes::LeaseQuery;
use super::statement::Statement;
use super::{Answer, Rows, Tx, Value, all};

static ACCOUNTS: Statement = Statement::new(
    "list accounts",
    concat!(
        "SELECT ",
        account_columns!(),
        " FROM accounts a WHERE a.account_id > {text 1} ORDER BY a.account_id LIMIT {int 2}"
    ),
);
static KEYS: Statement = Statement::new(
    "list keys",
    concat!(
        "SELECT ",
        key_columns!(),
        " FROM keys k WHERE k.account_id = {text 1} AND k.key_id > {text 2} ORDER BY k.key_id LIMIT {int 3}"
    ),
);
static GRANTS: Statement = Statement::new(
    "list grants",
    concat!(
        "SELECT ",
        grant_columns!(),
        " FROM grants g WHERE g.account_id = {text 1} AND g.grant_id > {text 2} ORDER BY g.grant_id LIMIT {int 3}"
    ),
);
static RATE_CARDS: Statement = Statement::new(
    "list rate cards",
    concat!(
        "SELECT ",
        card_columns!(),
        " FROM rate_cards c WHERE (c.scope, c.effective_on) > ({text 1}, {int 2})
        ORDER BY c.scope, c.effective_on LIMIT {int 3}"
    ),
);
static LEASES: Statement = Statement::new(
    "list leases",
    concat!(
        "SELECT ",
        lease_columns!(),
        " FROM leases l WHERE l.account_id = {text 5} AND l.lease_id > {text 1}
        AND ({text 2} IS NULL OR l.key_id = {text 2}) AND ({text 3} IS NULL OR l.host_id = {text 3})
        ORDER BY l.lease_id LIMIT {int 4}"
    ),
);
static LEASES_OF_SANDBOX: Statement = Statement::new(
    "list leases of a sandbox",
    concat!(
        "SELECT ",
        lease_columns!(),
        " FROM {rows account_id text, sandbox_id text}
        {each leases l by leases_by_end: l.account_id = r.account_id AND l.sandbox_id = r.sandbox_id
            AND l.effective_end >= 0}
        WHERE l.lease_id > {text 1} AND ({text 2} IS NULL OR l.key_id = {text 2})
        AND ({text 3} IS NULL OR l.host_id = {text 3}) ORDER BY l.lease_id LIMIT {int 4}"
    ),
);
static SANDBOXES: Statement = Statement::new(
    "list sandboxes",
    concat!(
        "SELECT ",
        sandbox_columns!(),
        " FROM sandboxes s WHERE s.account_id = {text 1} AND s.sandbox_id > {text 2}
        AND s.life = (SELECT MAX(n.life) FROM sandboxes n WHERE n.account_id = s.account_id
            AND n.sandbox_id = s.sandbox_id)
        ORDER BY s.sandbox_id LIMIT {int 3}"
    ),
);
pub(super) static STATEMENTS: &[&Statement] =
    &[&ACCOUNTS, &KEYS, &GRANTS, &RATE_CARDS, &LEASES, &LEASES_OF_SANDBOX, &SANDBOXES];

impl Tx {
    /// Accounts by id after `after`, at most `limit`.
    pub async fn list_accounts(&mut self, after: Option<&str>, limit: i64) -> Answer<Vec<Account>> {
        let values = [Value::text(after.unwrap_or_default()), Value::int(limit)];
        all(self.fetch(&ACCOUNTS, &values).await?, account)
    }

    /// An account's keys by id after `after`, at most `limit`.
    pub async fn list_keys(&mut self, of: &AccountId, after: Option<&str>, limit: i64) -> Answer<Vec<Key>> {
        all(self.fetch(&KEYS, &page(of, after, limit)).await?, key)
    }

    /// An account's grants by id after `after`, at most `limit`.
    pub async fn list_grants(&mut self, of: &AccountId, after: Option<&str>, limit: i64) -> Answer<Vec<Grant>> {
        all(self.fetch(&GRANTS, &page(of, after, limit)).await?, grant)
    }

    /// Rate card entries of all scopes, the default first, then by account; within a scope by day. `after`: scope
    /// (`None`: the default) and day of the last one seen.
    pub async fn list_rate_cards(
        &mut self,
        after: Option<(Option<&AccountId>, Day)>,
        limit: i64,
    ) -> Answer<Vec<RateCardEntry>> {
        let (scope, day) = after.map_or((None, -1), |(scope, day)| (scope, day.index()));
        let values = [Value::text(scope.map_or(DEFAULT_SCOPE, AccountId::as_str)), Value::int(day), Value::int(limit)];
        all(self.fetch(&RATE_CARDS, &values).await?, entry)
    }

    /// An account's leases by id after `after`, at most `limit`; filtered.
    pub async fn list_leases(
        &mut self,
        of: &AccountId,
        query: &LeaseQuery,
        after: Option<&str>,
        limit: i64,
    ) -> Answer<Vec<Lease>> {
        let mut values = vec![
            Value::text(after.unwrap_or_default()),
            Value::Text(query.key.as_ref().map(KeyId::as_str)),
            Value::Text(query.host.as_ref().map(HostId::as_str)),
            Value::int(limit),
        ];
        let rows = if let Some(sandbox) = &query.sandbox {
            let row = Rows::of([sandbox], |rows, sandbox| {
                rows.text(of.as_str()).text(sandbox.as_str());
            });
            self.fetch_rows(&LEASES_OF_SANDBOX, &row, &values).await?
        } else {
            values.push(Value::text(of.as_str()));
            self.fetch(&LEASES, &values).await?
        };
        all(rows, lease)
    }

    /// The newest life of each of an account's sandboxes, by id after `after`, at most `limit`.
    pub async fn list_sandboxes(&mut self, of: &AccountId, after: Option<&str>, limit: i64) -> Answer<Vec<Sandbox>> {
        all(self.fetch(&SANDBOXES, &page(of, after, limit)).await?, sandbox)
    }
}

fn page<'a>(of: &'a AccountId, after: Option<&'a str>, limit: i64) -> [Value<'a>; 3] {
    [Value::text(of.as_str()), Value::text(after.unwrap_or_default()), Value::int(limit)]
}
