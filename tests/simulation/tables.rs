//! Cost tables: every figure of the ledger's against the sum over the auditor's hours.

use std::collections::BTreeMap;

use runtab::domain::cost::Amounts;
use runtab::domain::time::Timestamp;
use runtab::domain::usage::Usage;
use runtab::ledger::view::{CostQuery, CostTable, Granularity, GroupBy};

use crate::driver::Driver;
use crate::model::{Account, DAY, HOUR, MICRO, floor, minus, plus};
use crate::send::{self, ts};

/// Usage with its exact list and net cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sum {
    pub(crate) usage: Usage,
    pub(crate) list: i128,
    pub(crate) net: i128,
}

impl Sum {
    fn plus(self, other: Self) -> Self {
        Self { usage: plus(self.usage, other.usage), list: self.list + other.list, net: self.net + other.net }
    }

    /// As a total is shown.
    pub(crate) fn assert_shown(&self, amounts: Amounts) {
        let (list, net) = (floor(self.list), floor(self.net));
        let shown = (amounts.list.count(), amounts.free.count(), amounts.net.count());
        assert_eq!(shown, (list, list - net, net));
    }
}

/// One posted figure: hour, sandbox, key, lease or none, usage, its free part.
pub(crate) struct Row {
    pub(crate) hour: i64,
    pub(crate) sandbox: String,
    pub(crate) life: usize,
    pub(crate) key: String,
    pub(crate) lease: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) free: Usage,
}

impl Account {
    /// All that was posted.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for lease in self.leases.values() {
            for (hour, posted) in &lease.posted {
                rows.push(Row {
                    hour: *hour,
                    sandbox: lease.sandbox.clone(),
                    life: lease.life,
                    key: lease.key.clone(),
                    lease: Some(lease.id.clone()),
                    usage: posted.usage,
                    free: posted.free,
                });
            }
        }
        for (sandbox, lives) in &self.sandboxes {
            for (index, life) in lives.iter().enumerate() {
                for ((hour, key), mib_ms) in &life.stored {
                    rows.push(Row {
                        hour: *hour,
                        sandbox: sandbox.clone(),
                        life: index,
                        key: key.clone(),
                        lease: None,
                        usage: Usage { storage_mib_ms: *mib_ms, ..Usage::ZERO },
                        free: Usage::ZERO,
                    });
                }
            }
        }
        rows
    }

    pub(crate) fn sum_of(&self, row: &Row) -> Sum {
        let day = row.hour * HOUR / DAY;
        Sum { usage: row.usage, list: self.price(day, row.usage), net: self.price(day, minus(row.usage, row.free)) }
    }

    /// A row's parts under a grouping.
    fn parts(&self, row: &Row, group_by: GroupBy) -> Vec<(Option<String>, Sum)> {
        let whole = |group| vec![(group, self.sum_of(row))];
        match group_by {
            GroupBy::None => whole(None),
            GroupBy::Sandbox => whole(Some(row.sandbox.clone())),
            GroupBy::Key => whole(Some(row.key.clone())),
            GroupBy::Lease => whole(row.lease.clone()),
            GroupBy::Account => panic!("of one account"),
            GroupBy::Resource => {
                let cpu = |usage: Usage| Usage { memory_mib_ms: 0, storage_mib_ms: 0, ..usage };
                let memory = |usage: Usage| Usage { memory_mib_ms: usage.memory_mib_ms, ..Usage::ZERO };
                let storage = |usage: Usage| Usage { storage_mib_ms: usage.storage_mib_ms, ..Usage::ZERO };
                let part = |name: &str, of: &dyn Fn(Usage) -> Usage| {
                    let row = Row {
                        usage: of(row.usage),
                        free: of(row.free),
                        sandbox: String::new(),
                        key: String::new(),
                        lease: None,
                        ..*row
                    };
                    (Some(name.to_owned()), self.sum_of(&row))
                };
                vec![part("cpu", &cpu), part("memory", &memory), part("storage", &storage)]
            }
        }
    }
}

fn period(granularity: Granularity, from: i64, hour: i64) -> i64 {
    let at = ts(hour * HOUR);
    let start = match granularity {
        Granularity::Hour => at,
        Granularity::Day => at.day().start(),
        Granularity::Month => at.month().span().start,
        Granularity::Total => ts(from),
    };
    start.ms().max(from)
}

impl Driver {
    /// Asks for a table and audits it.
    pub(crate) async fn check_table(&self, owner: &str, span: (i64, i64), granularity: Granularity, group_by: GroupBy) {
        let query =
            CostQuery { account: Some(send::account(owner)), from: ts(span.0), to: ts(span.1), granularity, group_by };
        let table = self.ledger.costs(query).await.unwrap();
        let account = &self.accounts[owner];
        let mut expected: BTreeMap<(Timestamp, Option<String>), Sum> = BTreeMap::new();
        for row in account.rows().iter().filter(|row| (span.0..span.1).contains(&(row.hour * HOUR))) {
            let start = ts(period(granularity, span.0, row.hour));
            for (group, part) in account.parts(row, group_by) {
                let sum = expected.entry((start, group)).or_default();
                *sum = sum.plus(part);
            }
        }
        assert_table(&table, expected);
        let unsettled = account
            .leases
            .values()
            .filter(|lease| !lease.settled && lease.start < span.1 && lease.effective_end() > span.0);
        let incomplete = unsettled.map(|lease| lease.last_sample().unwrap_or(lease.start)).min();
        let complete = incomplete.unwrap_or(i64::MAX).min(self.now).min(span.1);
        assert_eq!(table.complete_before.ms(), complete, "complete_before of {owner}");
    }
}

/// Every row is the auditor's to the unit, and the money adds up.
fn assert_table(table: &CostTable, mut expected: BTreeMap<(Timestamp, Option<String>), Sum>) {
    let total = expected.values().fold(Sum::default(), |sum, part| sum.plus(*part));
    let (mut list, mut free, mut net) = (0, 0, 0);
    for row in &table.rows {
        let exact = expected.remove(&(row.start, row.group.clone())).unwrap_or_default();
        assert_eq!(row.usage, exact.usage, "{:?} {:?}", row.start, row.group);
        let near = |shown: i64, exact: i128| (i128::from(shown) * MICRO - exact).abs() < MICRO;
        let amounts = (row.amounts.list.count(), row.amounts.free.count(), row.amounts.net.count());
        assert!(near(amounts.2, exact.net) && near(amounts.1, exact.list - exact.net), "{row:?}");
        assert_eq!(amounts.0, amounts.1 + amounts.2);
        list += amounts.0;
        free += amounts.1;
        net += amounts.2;
    }
    expected.retain(|_, sum| !sum.usage.is_zero());
    assert!(expected.is_empty(), "rows that are not shown: {expected:?}");
    assert_eq!(table.usage, total.usage);
    total.assert_shown(table.amounts);
    let shown = (table.amounts.list.count(), table.amounts.free.count(), table.amounts.net.count());
    assert_eq!((list, free, net), shown);
}
