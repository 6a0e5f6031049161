//! The control: the same decision in plain SQL. With the account's lock it is exact; without it, it overshoots. With
//! rows locked in one order nobody deadlocks; in random order somebody does. So the tests beside it can fail.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::Random;
use crate::harness::at_once;
use crate::postgres::Server;

/// Callers at once.
const CALLERS: usize = 12;
/// What fits of what they ask for.
const FIT: i64 = 3;

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("the database")
}

async fn run(connection: &mut PgConnection, sql: &str) -> Result<(), sqlx::Error> {
    connection.execute(AssertSqlSafe(sql.to_owned())).await.map(drop)
}

/// Reads the sum of a key, and adds one to it if it fits; with or without the account's lock.
async fn ask(url: &str, key: i64, locked: bool) -> bool {
    let mut connection = connect(url).await;
    run(&mut connection, "BEGIN").await.expect("a transaction");
    if locked {
        run(&mut connection, "SELECT 1 FROM owners WHERE id = 1 FOR NO KEY UPDATE").await.expect("a lock");
    }
    let sum: i64 = sqlx::query_scalar("SELECT COALESCE(SUM(held), 0)::bigint FROM days WHERE key = $1")
        .bind(key)
        .fetch_one(&mut connection)
        .await
        .expect("a sum");
    tokio::time::sleep(Duration::from_millis(2)).await;
    if sum >= FIT {
        return false;
    }
    let add =
        format!("INSERT INTO days VALUES ({key}, 1) ON CONFLICT (key) DO UPDATE SET held = days.held + excluded.held");
    run(&mut connection, &add).await.expect("an addition");
    run(&mut connection, "COMMIT").await.expect("a commit");
    true
}

/// How many rounds of ten end over what fits.
async fn rounds_over(locked: bool) -> usize {
    let server = Server::shared();
    let url = server.database().await;
    let mut connection = connect(&url).await;
    let tables = "CREATE TABLE owners (id BIGINT PRIMARY KEY); INSERT INTO owners VALUES (1), (2);
        CREATE TABLE days (key BIGINT PRIMARY KEY, held BIGINT NOT NULL)";
    run(&mut connection, tables).await.expect("tables");
    let mut over = 0;
    for key in 0..10 {
        let yes = at_once(CALLERS, |_| {
            let url = url.clone();
            async move { ask(&url, key, locked).await }
        });
        let admitted = yes.await.into_iter().filter(|yes| *yes).count();
        assert!(admitted >= 3, "never one under");
        over += usize::from(admitted > 3);
    }
    over
}

#[tokio::test]
async fn without_the_lock_admissions_overshoot() {
    assert!(rounds_over(false).await > 0);
}

#[tokio::test]
async fn with_the_lock_they_do_not() {
    assert_eq!(rounds_over(true).await, 0);
}

/// How many of many transactions that lock two rows each are undone for a deadlock.
async fn deadlocks(in_order: bool) -> usize {
    let server = Server::shared();
    let url = server.database().await;
    let mut connection = connect(&url).await;
    let tables = "CREATE TABLE owners (id BIGINT PRIMARY KEY); INSERT INTO owners VALUES (1), (2)";
    run(&mut connection, tables).await.expect("tables");
    let undone = at_once(8, |number| {
        let url = url.clone();
        async move {
            let mut connection = connect(&url).await;
            run(&mut connection, "SET deadlock_timeout = '10ms'").await.expect("a setting");
            let mut random = Random(u64::try_from(number).expect("small"));
            let mut undone = 0;
            for _ in 0..12 {
                let order = if in_order || random.below(2) == 0 { [1, 2] } else { [2, 1] };
                run(&mut connection, "BEGIN").await.expect("a transaction");
                let mut end = "COMMIT";
                for row in order {
                    let lock = format!("SELECT 1 FROM owners WHERE id = {row} FOR NO KEY UPDATE");
                    match run(&mut connection, &lock).await {
                        Ok(()) => tokio::time::sleep(Duration::from_millis(2)).await,
                        Err(error) => {
                            let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
                            assert_eq!(code.as_deref(), Some("40P01"), "{error}");
                            undone += 1;
                            end = "ROLLBACK";
                            break;
                        }
                    }
                }
                run(&mut connection, end).await.expect("an end");
            }
            undone
        }
    });
    undone.await.into_iter().sum()
}

#[tokio::test]
async fn locks_in_random_order_deadlock() {
    assert!(deadlocks(false).await > 0);
}

#[tokio::test]
async fn locks_in_one_order_do_not() {
    assert_eq!(deadlocks(true).await, 0);
}
