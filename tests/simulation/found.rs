//! The smallest cases of faults that histories found, each by its name.

use runtab::clock::Clock;
use runtab::domain::lease::EndReason;
use runtab::ledger::Ledger;
use runtab::ledger::command::{
    CreateAccount, CreateKey, DeleteSandbox, EndLease, Ingest, PutSandbox, SecretDigest, UpdateAccount,
};
use runtab::ledger::view::{CostQuery, Granularity, GroupBy};

use crate::driver::open;
use crate::model::gate::{Asked, Verdict};
use crate::model::samples::Outcome;
use crate::model::{DAY, HOUR, MINUTE, Reading};
use crate::send::{self, Sent, ts};

/// Noon of a day.
const NOON: i64 = 20_757 * DAY + 12 * HOUR;

/// A ledger with one account (`acme`) and one key (`ci`).
struct Small {
    ledger: Ledger,
    clock: Clock,
}

impl Small {
    async fn new(now: i64, welcome_ms: i64, card_on_file: bool, limit: Option<i64>) -> Self {
        let clock = Clock::test(ts(now));
        let ledger = open(&clock, welcome_ms).await;
        let account = CreateAccount { id: send::account("acme"), name: String::new(), card_on_file, tax: None };
        ledger.create_account(account).await.unwrap();
        let key = CreateKey {
            account: send::account("acme"),
            id: send::key("ci"),
            name: String::new(),
            read_only: false,
            daily_limit: limit.map(send::micros),
            secret: SecretDigest { sha256: [1; 32] },
        };
        ledger.create_key(key).await.unwrap();
        Self { ledger, clock }
    }

    fn at(&self, now: i64) {
        assert!(self.clock.advance_to(ts(now)));
    }

    async fn ask(&self, asked: Asked) -> Verdict {
        match self.ledger.admit(send::request("acme", "ci", &[asked])).await {
            Ok(admitted) => Verdict::Yes(admitted.fresh),
            Err(error) => send::verdict(&error),
        }
    }

    async fn end(&self, lease: &str) {
        let (account, lease) = (send::account("acme"), send::lease(lease));
        self.ledger.end(EndLease { account, lease, ended_at: None, reason: EndReason::Stop }).await.unwrap();
    }

    async fn at_rest(&self, at: i64, storage: i64) -> Outcome {
        let sent = Sent {
            account: "acme".to_owned(),
            sandbox: "s".to_owned(),
            lease: None,
            at,
            reading: Reading { epoch: 0, cpu: 0, memory: None, storage: Some(storage) },
        };
        let answer = self.ledger.ingest(Ingest { host: None, samples: vec![sent.sample()] }).await.unwrap();
        send::outcome(answer[0])
    }

    async fn put(&self) {
        let (account, sandbox, key) = (send::account("acme"), send::sandbox("s"), send::key("ci"));
        self.ledger.put_sandbox(PutSandbox { account, sandbox, key }).await.unwrap();
    }

    async fn delete(&self) {
        let (account, sandbox) = (send::account("acme"), send::sandbox("s"));
        self.ledger.delete_sandbox(DeleteSandbox { account, sandbox }).await.unwrap();
    }
}

/// 1 vCPU, 1 GiB: at worst 32,500 an hour, idle 8,750.
fn asked(id: &str, minutes: i64, starts_at: Option<i64>, replaces: Option<&str>) -> Asked {
    Asked {
        id: id.to_owned(),
        sandbox: "s".to_owned(),
        vcpus: 1,
        memory: 1_024,
        timeout: minutes * MINUTE,
        max_cost: None,
        host: None,
        starts_at,
        replaces: replaces.map(str::to_owned),
    }
}

/// Its page was closed, for a report of another hour opened the next one; that one does not count, it is too late.
#[tokio::test]
async fn a_report_at_the_instant_of_the_latest_is_a_duplicate_after_a_deletion() {
    let small = Small::new(NOON, 0, true, None).await;
    small.put().await;
    assert_eq!(small.at_rest(NOON, 5).await, Outcome::Accepted);
    small.at(NOON + 90 * MINUTE);
    small.delete().await;
    assert_eq!(small.at_rest(NOON + 90 * MINUTE + 30_000, 6).await, Outcome::Accepted);
    assert_eq!(small.at_rest(NOON, 5).await, Outcome::Duplicate);
    assert_eq!(small.at_rest(NOON, 6).await, Outcome::Rejected("conflict"));
}

/// Reports after a deletion do not count, so the latest that counts does not tell whether one came late.
#[tokio::test]
async fn a_late_report_after_a_deletion_is_a_duplicate_the_second_time() {
    let small = Small::new(NOON, 0, true, None).await;
    small.put().await;
    small.at(NOON + MINUTE);
    small.delete().await;
    small.at(NOON + 5 * MINUTE);
    for (at, storage) in [(NOON + MINUTE + 30_000, 6), (NOON + MINUTE + 10_000, 7)] {
        assert_eq!(small.at_rest(at, storage).await, Outcome::Accepted);
        assert_eq!(small.at_rest(at, storage).await, Outcome::Duplicate);
    }
}

/// The tail that the replacement posts is free, so it leaves more under the limit: 11,875 held, 17,334 asked of 32,500.
#[tokio::test]
async fn a_replaced_leases_tail_counts_net_of_free_time() {
    let small = Small::new(NOON, 50 * HOUR, true, Some(32_500)).await;
    assert_eq!(small.ask(asked("old", 60, None, None)).await, Verdict::Yes(true));
    small.at(NOON + 30 * MINUTE);
    assert_eq!(small.ask(asked("new", 32, None, Some("old"))).await, Verdict::Yes(true));
}

/// Half an hour was proved by the end and has drawn its free time; the other half is left for the next lease.
#[tokio::test]
async fn what_an_end_has_proved_asks_for_no_more_free_time() {
    let small = Small::new(NOON, HOUR, false, None).await;
    assert_eq!(small.ask(asked("first", 60, None, None)).await, Verdict::Yes(true));
    small.at(NOON + 30 * MINUTE);
    small.end("first").await;
    let too_long = small.ask(asked("second", 31, None, None)).await;
    assert_eq!(too_long, Verdict::FreeHours { needed: 31 * MINUTE, available: 30 * MINUTE });
    assert_eq!(small.ask(asked("second", 30, None, None)).await, Verdict::Yes(true));
}

/// The old lease's end lies more than `settle_after` back: it settles in the same step and holds nothing.
#[tokio::test]
async fn a_lease_that_is_replaced_long_before_now_holds_nothing() {
    let small = Small::new(NOON, 0, true, Some(32_500)).await;
    assert_eq!(small.ask(asked("old", 60, None, None)).await, Verdict::Yes(true));
    small.at(NOON + 40 * MINUTE);
    let new = asked("new", 50, Some(NOON + 20 * MINUTE), Some("old"));
    assert_eq!(small.ask(new).await, Verdict::Yes(true));
}

/// A lease may start an hour back: the day before the first limit counts too.
#[tokio::test]
async fn an_accounts_first_limit_counts_the_day_that_a_lease_may_still_start_on() {
    let midnight = 20_758 * DAY;
    let small = Small::new(midnight - 40 * MINUTE, 0, true, None).await;
    let other = Asked { sandbox: "other".to_owned(), ..asked("old", 90, None, None) };
    assert_eq!(small.ask(other).await, Verdict::Yes(true));
    small.at(midnight + MINUTE);
    let update = UpdateAccount {
        id: send::account("acme"),
        name: None,
        card_on_file: None,
        status: None,
        daily_limit: Some(Some(send::micros(40_000))),
        tax: None,
    };
    small.ledger.update_account(update).await.unwrap();
    // The day before: 21,667 are held of 40,000, and 40 minutes of 2 vCPU and 1 GiB need 38,334.
    let late = Asked { vcpus: 2, ..asked("late", 41, Some(midnight - 40 * MINUTE), None) };
    assert!(matches!(small.ask(late).await, Verdict::Limit(limit) if !limit.of_key && limit.day == 20_757));
}

/// Three leases start in one millisecond, each replacing the one before; the last one's id sorts first. A report that
/// comes late is attributed as one in order: to the last one's key.
#[tokio::test]
async fn of_leases_that_start_at_one_instant_the_one_admitted_last_holds_the_disk() {
    let small = Small::new(NOON, 0, true, None).await;
    let key = CreateKey {
        account: send::account("acme"),
        id: send::key("last"),
        name: String::new(),
        read_only: false,
        daily_limit: None,
        secret: SecretDigest { sha256: [2; 32] },
    };
    small.ledger.create_key(key).await.unwrap();
    assert_eq!(small.ask(asked("z", 60, None, None)).await, Verdict::Yes(true));
    assert_eq!(small.ask(asked("y", 60, None, Some("z"))).await, Verdict::Yes(true));
    let last = send::request("acme", "last", &[asked("a", 60, None, Some("y"))]);
    small.ledger.admit(last).await.unwrap();
    small.at(NOON + 30 * MINUTE);
    for minutes in [20, 10, 30] {
        assert_eq!(small.at_rest(NOON + minutes * MINUTE, 1_024).await, Outcome::Accepted);
    }
    let query = CostQuery {
        account: Some(send::account("acme")),
        from: ts(NOON),
        to: ts(NOON + HOUR),
        granularity: Granularity::Total,
        group_by: GroupBy::Key,
    };
    let rows = small.ledger.costs(query).await.unwrap().rows;
    let stored: Vec<_> = rows.iter().map(|row| (row.group.as_deref(), row.usage.storage_mib_ms)).collect();
    assert_eq!(stored, [(Some("last"), 1_024 * i128::from(20 * MINUTE))]);
}

/// The new lease starts in half a minute; until then the old one is on, so the sandbox can't be deleted with the new.
#[tokio::test]
async fn a_sandbox_is_not_deleted_with_a_lease_that_has_not_started_while_the_one_before_it_is_on() {
    let small = Small::new(NOON, 0, true, None).await;
    assert_eq!(small.ask(asked("old", 60, None, None)).await, Verdict::Yes(true));
    small.at(NOON + MINUTE);
    let new = asked("new", 60, Some(NOON + MINUTE + 30_000), Some("old"));
    assert_eq!(small.ask(new).await, Verdict::Yes(true));
    let (account, lease) = (send::account("acme"), send::lease("new"));
    let delete = EndLease { account, lease, ended_at: None, reason: EndReason::Delete };
    let answer = small.ledger.end(delete).await;
    assert_eq!(answer.map(drop).map_err(|error| send::code(&error)), Err("lease_running"));
}
