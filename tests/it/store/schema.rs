//! The schema, the plans of statements, and transactions.

use runtab::domain::time::Month;
use runtab::store::changes::Changes;
use runtab::store::{Lane, Options, Store, StoreError};

use super::Database;
use super::customers::save;
use super::fixtures::{account, account_id};

pub(crate) async fn migrating_again_changes_nothing(database: Database) {
    let mut changes = Changes::default();
    changes.accounts.insert(account_id("a"), account("a"));
    save(&database, &changes).await.unwrap();
    database.store.migrate().await.unwrap();
    let (first, second) = tokio::join!(database.store.migrate(), database.store.migrate());
    first.and(second).unwrap();
    database.store.ready().await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    assert_eq!(tx.list_accounts(None, 9).await.unwrap(), [account("a")]);
}

pub(crate) async fn an_edited_migration_is_refused(database: Database) {
    let edited = if database.is_postgres() { "'\\x00'::bytea" } else { "x'00'" };
    database.run(&format!("UPDATE migrations SET sha256 = {edited}")).await.unwrap();
    assert!(matches!(database.store.migrate().await, Err(StoreError::Corrupt(_))));
    database.run("DELETE FROM migrations").await.unwrap();
    database.run(&format!("INSERT INTO migrations VALUES ('0000_other', {edited})")).await.unwrap();
    assert!(matches!(database.store.migrate().await, Err(StoreError::Corrupt(_))));
}

pub(crate) async fn a_newer_migration_is_refused_where_it_takes_away(database: Database) {
    let sha256 = if database.is_postgres() { "'\\x00'::bytea" } else { "x'00'" };
    database.run(&format!("INSERT INTO migrations VALUES ('9998_more', {sha256})")).await.unwrap();
    database.store.migrate().await.unwrap();
    database.run(&format!("INSERT INTO migrations VALUES ('9999_less_contract', {sha256})")).await.unwrap();
    assert!(matches!(database.store.migrate().await, Err(StoreError::Corrupt(_))));
}

/// Tables that are read from end to end on purpose: the accounts of an operator's sum, the watermarks' one row, and
/// the record of migrations.
const SCANNED: [&str; 4] = ["accounts", "watermark", "evidence_watermark", "migrations"];

pub(crate) async fn every_statement_goes_by_a_key(database: Database) {
    let plans = database.store.plans().await.unwrap();
    assert!(plans.len() > 50);
    let mut wrong = Vec::new();
    for (name, plan) in plans {
        let scans = if database.is_postgres() { postgres_scans(&plan) } else { sqlite_scans(&plan) };
        if scans {
            wrong.push(format!("{name}:\n{}\n", plan.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Where a table has several indexes that begin with the account, the one that a statement must go by, even while the
/// tables are empty: a plan that is made then is kept.
const GOES_BY: [(&str, &str); 19] = [
    ("lock leases", "leases_pkey"),
    ("leases", "leases_pkey"),
    ("change leases", "leases_pkey"),
    ("lock due leases", "leases_pkey"),
    ("list leases", "leases_pkey"),
    ("meter assumed leases", "leases_pkey"),
    ("lock leases meeting", "leases_pkey"),
    ("lock leases meeting", "leases_by_end"),
    ("lock leases meeting", "leases_one_open"),
    ("list leases of a sandbox", "leases_by_end"),
    ("lease starts", "leases_by_start"),
    ("due leases", "leases_unsettled"),
    ("unsettled leases", "leases_unsettled"),
    ("due leases of all accounts", "leases_due"),
    ("hours of leases", "usage_hours_by_sandbox"),
    ("days of leases", "usage_hours_by_sandbox"),
    ("usage of an account", "leases_by_open_hour"),
    ("usage of an account", "sandboxes_by_storage_hour"),
    ("days of sandboxes", "leases_by_start"),
];

pub(crate) async fn statements_go_by_their_index(database: Database) {
    let plans = database.store.plans().await.unwrap();
    for (name, index) in GOES_BY {
        // SQLite names the index of a primary key after its table.
        let index = match index.strip_suffix("_pkey") {
            Some(table) if !database.is_postgres() => format!("sqlite_autoindex_{table}_1"),
            _ => index.to_owned(),
        };
        let (_, plan) = plans.iter().find(|(found, _)| *found == name).unwrap();
        assert!(plan.iter().any(|step| step.contains(&format!(" {index} "))), "{name}: {index}\n{}", plan.join("\n"));
    }
    let (_, plan) = plans.iter().find(|(found, _)| *found == "meter leases").unwrap();
    let by_place = if database.is_postgres() { "Tid Scan on leases" } else { "INTEGER PRIMARY KEY (rowid=?)" };
    assert!(plan.iter().any(|step| step.contains(by_place)), "{plan:?}");
    let (_, plan) = plans.iter().find(|(found, _)| *found == "days of sandboxes").unwrap();
    assert!(plan.iter().all(|step| !step.contains("storage_hour ") && !step.contains("open_hour ")), "{plan:?}");
}

/// A scan of an index without a condition, or what must not be in a plan that is kept.
fn postgres_scans(plan: &[String]) -> bool {
    plan.iter().enumerate().any(|(place, step)| {
        let known = |word: &str| SCANNED.iter().any(|table| step.contains(&format!("{word} on {table} ")));
        let by_index = step.contains("Index Scan") || step.contains("Index Only Scan");
        let bitmap = step.contains("Bitmap Index Scan");
        let condition = plan.get(place + 1).is_some_and(|next| next.contains("Index Cond"));
        let unconditional =
            by_index && !condition && !SCANNED.iter().any(|table| step.contains(&format!(" on {table}")));
        (step.contains("Seq Scan") && !known("Seq Scan"))
            || step.contains("Hash Join")
            || step.contains("Merge Join")
            || (unconditional && !bitmap)
    })
}

fn sqlite_scans(plan: &[String]) -> bool {
    plan.iter().any(|step| {
        let scan = step.strip_prefix("SCAN ").map(|rest| rest.split(' ').next().unwrap_or_default());
        // Short names are aliases: `r` is the row source (and the accounts of an operator's sum), `a` accounts.
        // "2 CONSTANT ROWS" and "0-ROW VALUES CLAUSE" are rows given as values.
        let given = ["jsonb_each", "given", "one", "2", "CONSTANT", "2-ROW", "0-ROW"];
        let known = ["r", "u", "a", "watermark", "migrations", "w", "e"];
        step.contains("AUTOMATIC") || scan.is_some_and(|table| !known.contains(&table) && !given.contains(&table))
    })
}

pub(crate) async fn a_dropped_batch_is_undone(database: Database) {
    let mut changes = Changes::default();
    changes.accounts.insert(account_id("a"), account("a"));
    let mut tx = database.store.begin(Lane::Meter).await.unwrap();
    tx.save(&changes).await.unwrap();
    drop(tx);
    save(&database, &Changes::default()).await.unwrap();
    let mut tx = database.store.read().await.unwrap();
    assert_eq!(tx.list_accounts(None, 9).await.unwrap(), []);
}

pub(crate) async fn a_snapshot_stands_still(database: Database) {
    let mut snapshot = database.store.read().await.unwrap();
    assert_eq!(snapshot.list_accounts(None, 9).await.unwrap(), []);
    let mut changes = Changes::default();
    changes.accounts.insert(account_id("a"), account("a"));
    save(&database, &changes).await.unwrap();
    assert_eq!(snapshot.list_accounts(None, 9).await.unwrap(), []);
    // It can't write.
    assert!(matches!(snapshot.save(&changes).await, Err(StoreError::Unavailable(_))));
    drop(snapshot);
    let mut later = database.store.read().await.unwrap();
    assert_eq!(later.list_accounts(None, 9).await.unwrap().len(), 1);
}

pub(crate) async fn the_watermark_begins_open(database: Database) {
    let mut tx = database.store.begin(Lane::Meter).await.unwrap();
    assert_eq!(tx.open_month(true).await.unwrap(), Month::FIRST);
    assert_eq!(tx.open_month(false).await.unwrap(), Month::FIRST);
}

#[tokio::test]
async fn a_database_that_is_not_there_is_unavailable() {
    for address in ["mysql://x", "sqlite:/no/such/folder/x.db", "postgres://nobody@127.0.0.1:1/x"] {
        let options = Options { wait_ms_max: 200, ..Options::default() };
        let error = Store::open(address, options).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{address}: {error:?}");
    }
}
