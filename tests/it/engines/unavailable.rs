//! A database that hangs, is cut off, read-only, full, locked or gone: `unavailable` within a bounded time, no
//! admission, and recovery without a restart.

#![expect(clippy::disallowed_methods, reason = "how long an answer took is what is tested")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

use runtab::domain::id::{AccountId, TokenId};
use runtab::domain::set_aside::{Door, SetAside};
use runtab::domain::time::Timestamp;
use runtab::store::changes::Changes;
use runtab::store::shapes::{Bearer, TokenRecord, TokenRole};
use runtab::store::{Lane, Options, Store};

use super::failures::run;
use crate::harness::{
    Api, Backend, Database, Engine, HOUR_S, Mode, Proxy, Time, at_once, done, int, made, shape, time,
};
use crate::postgres::Server;

/// Longest wait of the engine for one answer of its database.
const WAIT: (&str, &str) = ("RUNTAB_STORE_WAIT_MS_MAX", "1000");
/// Longest that any request may take: the token's look-up, a batch under way, the batch itself; and a busy machine.
const BOUND: Duration = Duration::from_secs(10);
/// Longest that recovery may take.
const RECOVERY: Duration = Duration::from_secs(20);

fn noon() -> Time {
    time("2026-11-10T12:00:00Z")
}

/// An engine with the key `ci` of `acme` that has a limit for ten hours.
async fn engine_on(url: &str) -> Engine {
    let engine = Engine::on(Database::at(url.to_owned()), noon(), &[WAIT]);
    made(engine.admin.account("acme", true).await);
    made(engine.admin.key("acme", "ci", Some(800_000)).await);
    engine
}

async fn admit(api: &Api, id: &str) -> (u16, Value, Option<String>) {
    let body = json!({"key": "ci", "leases": [shape(id, HOUR_S)]}).to_string();
    let json = [("content-type", "application/json")];
    let raw = api.raw("POST", "/v1/accounts/acme/leases", &json, body.into()).await;
    let retry_after = raw.retry_after.clone();
    let (status, body) = raw.json();
    (status, body, retry_after)
}

/// Several ask at once, twice: each is told `unavailable` within the bound. And the engine says that it is not ready.
async fn unavailable(api: &Api, what: &str) {
    for round in 0..2 {
        let began = Instant::now();
        let answers = at_once(6, |index| {
            let (api, id) = (api.clone(), format!("{what}-{round}-{index}"));
            async move { admit(&api, &id).await }
        });
        for (status, body, retry_after) in answers.await {
            assert_eq!((status, body["code"].as_str()), (503, Some("unavailable")), "{what}: {body}");
            assert!(retry_after.is_some(), "{what}");
        }
        assert!(began.elapsed() < BOUND, "{what}: {:?}", began.elapsed());
    }
}

/// Whoever gives up while a transaction begins leaves none open: a later reader would see what was there before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_gives_up_leaves_nothing_open() {
    let server = Server::shared();
    let url = server.database().await;
    let proxy = Proxy::before(server.host()).await;
    let options = Options { readers_max: 1, ..Options::default() };
    let store = Store::open(&proxy.url(&url), options).await.unwrap();
    store.migrate().await.unwrap();
    // Given up at every moment on the way, until one is in time.
    for patience in (1..u8::MAX).step_by(3) {
        let secret = [patience; 32];
        proxy.set(Mode::Delay(Duration::from_millis(10)));
        let begun = tokio::time::timeout(Duration::from_millis(patience.into()), store.read()).await;
        proxy.set(Mode::Pass);
        if let Ok(begun) = begun {
            drop(begun.unwrap());
            store.close().await;
            return;
        }
        assert_eq!(store.bearers(&[secret]).await.unwrap(), [None]);
        let token = TokenRecord {
            id: TokenId::parse(&format!("t-{patience}")).unwrap(),
            role: TokenRole::Admin,
            name: String::new(),
            created_at: Timestamp::EPOCH,
        };
        let mut tx = store.begin(Lane::Decision).await.unwrap();
        tx.insert_token(&token, &secret).await.unwrap();
        tx.commit().await.unwrap();
        // Not by the connection that is kept for questions, but by the one that was given up.
        let found = store.read().await.unwrap().bearers(&[secret]).await.unwrap();
        assert_eq!(found, [Some(Bearer::Token(token))], "it sees what was there before: {patience} ms");
    }
    panic!("a transaction never begins");
}

/// What is begun ahead is a transaction like any other, is undone where nobody comes, and keeps nobody from leaving.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_is_begun_ahead_does_not_stay() {
    let server = Server::shared();
    let url = server.database().await;
    let store = Store::open(&url, Options::default()).await.unwrap();
    store.migrate().await.unwrap();
    for number in 0..20_u8 {
        store.begin_ahead();
        let token = TokenRecord {
            id: TokenId::parse(&format!("t-{number}")).unwrap(),
            role: TokenRole::Admin,
            name: String::new(),
            created_at: Timestamp::EPOCH,
        };
        let mut tx = store.begin(Lane::Decision).await.unwrap();
        assert_eq!(tx.bearers(&[[number; 32]]).await.unwrap(), [None]);
        tx.insert_token(&token, &[number; 32]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(store.bearers(&[[number; 32]]).await.unwrap(), [Some(Bearer::Token(token))]);
    }
    store.begin_ahead();
    let mut other = PgConnection::connect(&url).await.unwrap();
    let idle =
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in trans%'";
    let began = Instant::now();
    while sqlx::query_scalar::<_, i64>(idle).fetch_one(&mut other).await.unwrap() > 0 {
        assert!(began.elapsed() < BOUND, "a transaction idles");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    store.begin_ahead();
    tokio::time::timeout(BOUND, store.close()).await.unwrap();
    store.begin_ahead();
    assert!(store.begin(Lane::Decision).await.is_err());
}

/// A question whose connection was ended since the last one is asked again by another.
#[tokio::test(flavor = "multi_thread")]
async fn whose_secret_it_is_outlives_a_connection() {
    let server = Server::shared();
    let url = server.database().await;
    let store = Store::open(&url, Options::default()).await.unwrap();
    store.migrate().await.unwrap();
    for _ in 0..10 {
        assert_eq!(store.bearers(&[[1; 32]]).await.unwrap(), [None]);
        run(
            &url,
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%secret_sha256%'",
        )
        .await;
        assert_eq!(store.bearers(&[[1; 32]]).await.unwrap(), [None]);
    }
    store.close().await;
}

/// Batches of two engines that keep few rejected samples do not wait for each other.
#[tokio::test(flavor = "multi_thread")]
async fn who_trims_rejected_samples_waits_for_nobody() {
    let server = Server::shared();
    let url = server.database().await;
    let store = Store::open(&url, Options { wait_ms_max: 1_000, ..Options::default() }).await.unwrap();
    store.migrate().await.unwrap();
    let refused = SetAside {
        account: AccountId::parse("acme").ok(),
        door: Door::Samples,
        host: None,
        sandbox: None,
        lease: None,
        at: None,
        code: "unknown_lease",
        detail: String::new(),
    };
    let rejected = vec![(Timestamp::EPOCH, refused); 20];
    let fill = Changes { rejected: rejected.clone(), rejected_kept: 100, ..Changes::default() };
    let mut tx = store.begin(Lane::Meter).await.unwrap();
    tx.save(&fill).await.unwrap();
    tx.commit().await.unwrap();
    let trim = Changes { rejected_kept: 5, ..fill };
    let (mut one, mut other) = (store.begin(Lane::Meter).await.unwrap(), store.begin(Lane::Decision).await.unwrap());
    one.save(&trim).await.unwrap();
    other.save(&trim).await.unwrap();
    one.commit().await.unwrap();
    other.commit().await.unwrap();
    let mut tx = store.begin(Lane::Meter).await.unwrap();
    tx.save(&trim).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = store.read().await.unwrap();
    assert_eq!(tx.list_rejected(None, None, 100).await.unwrap().len(), 5);
    drop(tx);
    store.close().await;
}

/// Repeats an admission until it is answered; it must be a yes.
async fn recovers(api: &Api, id: &str) {
    let began = Instant::now();
    loop {
        let (status, body, _) = admit(api, id).await;
        if [200, 201].contains(&status) {
            return;
        }
        assert_eq!(status, 503, "{id}: {body}");
        assert!(began.elapsed() < RECOVERY, "{id}: {body}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What is held is exactly what the leases that are there hold: nothing is left over. Answers how many there are.
async fn holds_exactly(api: &Api) -> i64 {
    let leases = done(api.get("/v1/accounts/acme/leases?limit=1000").await);
    let count = i64::try_from(leases["items"].as_array().expect("leases").len()).expect("a count");
    assert_eq!(api.used_and_reserved("acme", "ci").await, (0, count * 80_000));
    count
}

/// An outage in which no commit is under way admits nothing.
async fn outage(api: &Api, what: &str, ready: bool) {
    unavailable(api, what).await;
    let status = api.raw("GET", "/readyz", &[], Vec::new()).await.status;
    assert_eq!(status == 200, ready, "{what}: {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_postgres_behind_a_bad_network() {
    let server = Server::shared();
    let url = server.database().await;
    let proxy = Proxy::before(server.host()).await;
    let engine = engine_on(&proxy.url(&url)).await;
    let api = &engine.admin;
    made(api.admit("acme", "ci", &[shape("before", HOUR_S)]).await);
    for (count, (what, mode)) in
        [("cut", Mode::Cut), ("hang", Mode::Hang), ("half-close", Mode::HalfClose)].into_iter().enumerate()
    {
        proxy.set(mode);
        outage(api, what, false).await;
        proxy.set(Mode::Pass);
        recovers(api, what).await;
        assert_eq!(holds_exactly(api).await, 2 + i64::try_from(count).expect("small"), "{what}");
    }
    // A slow network is only slow.
    proxy.set(Mode::Delay(Duration::from_millis(3)));
    made(api.admit("acme", "ci", &[shape("slow", HOUR_S)]).await);
    proxy.set(Mode::Pass);
    assert_eq!(holds_exactly(api).await, 5);
}

/// The answer of a commit is lost: what was done is found by its ids, told as done, and done once.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_commit_is_not_guessed() {
    let server = Server::shared();
    let url = server.database().await;
    let proxy = Proxy::before(server.host()).await;
    let engine = engine_on(&proxy.url(&url)).await;
    let api = &engine.admin;
    for round in 0..5 {
        proxy.set(Mode::LoseCommit);
        made(api.admit("acme", "ci", &[shape(&format!("l-{round}"), HOUR_S)]).await);
        assert_eq!(holds_exactly(api).await, round + 1);
    }
    proxy.set(Mode::LoseCommit);
    let key = made(api.key("acme", "k", Some(5)).await);
    let of_key = api.with_token(key["secret"].as_str());
    done(of_key.get("/v1/accounts/acme/keys/k").await);
    proxy.set(Mode::LoseCommit);
    let granted = json!({"id": "g", "sandbox_hours": 5, "note": ""});
    made(api.post("/v1/accounts/acme/grants", &granted).await);
    assert_eq!(int(&api.balance("acme").await["free"], "granted_ms"), 55 * 3_600_000);
    proxy.set(Mode::LoseCommit);
    api.accepted(&[crate::harness::sample("acme", "s-l-0", "l-0", noon(), 0)]).await;
    proxy.set(Mode::LoseCommit);
    let ended = done(api.end("acme", "l-1", None, "cancel").await);
    assert_ne!(ended["state"], "running");
}

#[tokio::test]
async fn a7_postgres_is_read_only() {
    let server = Server::shared();
    let url = server.database().await;
    let engine = engine_on(&url).await;
    let name = url.rsplit_once('/').expect("a name").1;
    let end_sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    run(&url, &format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    run(&url, end_sessions).await;
    outage(&engine.admin, "read-only", true).await;
    run(&url, &format!("BEGIN READ WRITE; ALTER DATABASE {name} RESET ALL; COMMIT")).await;
    run(&url, end_sessions).await;
    recovers(&engine.admin, "after").await;
    assert_eq!(holds_exactly(&engine.admin).await, 1);
}

#[tokio::test]
async fn a7_postgres_is_full() {
    let server = Server::shared();
    let url = server.database().await;
    let engine = engine_on(&url).await;
    let full = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END; $$;
        CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON key_days FOR EACH ROW EXECUTE FUNCTION fail()";
    run(&url, full).await;
    outage(&engine.admin, "full", true).await;
    run(&url, "DROP TRIGGER fail ON key_days").await;
    recovers(&engine.admin, "full-0-0").await;
    assert_eq!(holds_exactly(&engine.admin).await, 1);
}

/// Somebody holds what a batch needs: it lets go of its own and begins again, a bounded number of times.
#[tokio::test]
async fn a7_somebody_else_holds_an_account() {
    let server = Server::shared();
    let url = server.database().await;
    let engine = engine_on(&url).await;
    let mut other = PgConnection::connect(&url).await.unwrap();
    other.execute("BEGIN; SELECT 1 FROM accounts FOR UPDATE").await.unwrap();
    outage(&engine.admin, "held", true).await;
    other.execute("ROLLBACK").await.unwrap();
    recovers(&engine.admin, "after").await;
    assert_eq!(holds_exactly(&engine.admin).await, 1);
}

#[tokio::test]
async fn a7_postgres_is_stopped_and_started() {
    let mut server = Server::own();
    let url = server.database().await;
    let engine = engine_on(&url).await;
    let api = &engine.admin;
    for round in 0..2_i64 {
        server.stop();
        outage(api, &format!("gone-{round}"), false).await;
        server.start_again().await;
        recovers(api, &format!("after-{round}")).await;
        assert_eq!(holds_exactly(api).await, round + 1);
    }
}

#[tokio::test]
async fn a7_sqlite_is_locked() {
    let database = Backend::Sqlite.database().await;
    let engine = engine_on(&database.url).await;
    let mut other = SqliteConnection::connect(&database.url).await.unwrap();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    outage(&engine.admin, "locked", true).await;
    other.execute("ROLLBACK").await.unwrap();
    recovers(&engine.admin, "after").await;
    assert_eq!(holds_exactly(&engine.admin).await, 1);
}

/// Every write to a file fails; reads go on.
#[tokio::test]
async fn a7_sqlite_is_full() {
    let database = Backend::Sqlite.database().await;
    let engine = engine_on(&database.url).await;
    engine.limit_files(Some(1));
    outage(&engine.admin, "full", true).await;
    engine.limit_files(None);
    recovers(&engine.admin, "after").await;
    assert_eq!(holds_exactly(&engine.admin).await, 1);
}

/// What is committed can't be synced: nobody is told of it, nothing more is taken or shown, and only another start helps.
/// Whether it outlives a loss of power nobody knows; here it does.
#[tokio::test]
async fn a7_sqlite_can_not_be_synced() {
    let folder = tempfile::tempdir().unwrap();
    let (here, elsewhere) = (folder.path().join("here"), folder.path().join("elsewhere"));
    std::fs::create_dir(&here).unwrap();
    let mut engine = engine_on(&format!("sqlite:{}", here.join("x.db").display())).await;
    made(engine.admin.admit("acme", "ci", &[shape("before", HOUR_S)]).await);
    // The log is open, and goes on being written; but it is not found where it is synced.
    std::fs::rename(&here, &elsewhere).unwrap();
    let (status, body, _) = admit(&engine.admin, "unsynced").await;
    assert_eq!((status, body["code"].as_str()), (503, Some("unavailable")), "{body}");
    std::fs::rename(&elsewhere, &here).unwrap();
    outage(&engine.admin, "later", false).await;
    assert_eq!(engine.admin.get("/v1/accounts/acme/leases").await.0, 503);
    engine.crash_and_restart();
    recovers(&engine.admin, "unsynced").await;
    assert_eq!(holds_exactly(&engine.admin).await, 2);
}

/// The network hangs while batches are under way, for longer than the engine waits, or breaks. Each admission is told
/// as a yes, or not; repeated, each is a yes, and each holds once.
#[tokio::test(flavor = "multi_thread")]
async fn a7_an_outage_in_the_midst_of_batches() {
    let server = Server::shared();
    let url = server.database().await;
    let proxy = Proxy::before(server.host()).await;
    let engine = engine_on(&proxy.url(&url)).await;
    let api = &engine.admin;
    done(api.set_limit("acme", "ci", None).await);
    let mut asked = 0;
    for round in 0..12_u64 {
        let mode = [Mode::Hang, Mode::Cut, Mode::HalfClose][usize::try_from(round % 3).expect("small")];
        let load = at_once(16, |index| {
            let (api, id) = (api.clone(), format!("m-{round}-{index}"));
            async move {
                // A few after another, so that some batch is always under way.
                tokio::time::sleep(Duration::from_millis(u64::try_from(index).expect("small") / 4 * 3)).await;
                (admit(&api, &id).await, id)
            }
        });
        let broken = async {
            tokio::time::sleep(Duration::from_millis(3 + 2 * round)).await;
            proxy.set(mode);
            tokio::time::sleep(Duration::from_millis(if mode == Mode::Hang { 1_500 } else { 100 })).await;
            proxy.set(Mode::Pass);
        };
        let (answers, ()) = tokio::join!(load, broken);
        for ((status, body, _), id) in answers {
            assert!([200, 201, 503].contains(&status), "{id}: {status} {body}");
            recovers(api, &id).await;
            asked += 1;
        }
        assert_eq!(holds_exactly(api).await, asked, "round {round}");
    }
}
