//! Pages of evidence.

use runtab::domain::sample_page::ClosedPage;
use runtab::domain::time::Timestamp;
use runtab::store::StoreError;
use runtab::store::changes::{Changes, PageOwner};
use runtab::store::shapes::{OwnedPage, PageProbe};

use super::Database;
use super::customers::save;
use super::fixtures::{account_id, at, lease_id, sandbox_id};

const MINUTE_MS: i64 = 60_000;

fn owner(lease: Option<&str>) -> PageOwner {
    PageOwner { account: account_id("a"), sandbox: sandbox_id("s"), life: 1, lease: lease.map(lease_id) }
}

/// A page from one minute to another.
fn page(lease: Option<&str>, number: i64, first: i64, last: i64, storage: Option<(i64, i64)>) -> OwnedPage {
    let minute = |minute: i64| at(minute * MINUTE_MS);
    let page = ClosedPage {
        number,
        first_at: minute(first),
        last_at: minute(last),
        storage_span: storage.map(|(first, last)| (minute(first), minute(last))),
        bytes: vec![7],
        accepted_in: Some(Timestamp::MAX.month()),
    };
    (owner(lease), page)
}

fn probe(lease: Option<&str>, storage: bool, from: i64, to: i64) -> PageProbe {
    PageProbe { owner: owner(lease), storage, from: at(from * MINUTE_MS), to: at(to * MINUTE_MS) }
}

async fn around(database: &Database, probe: PageProbe) -> Vec<i64> {
    let mut tx = database.store.read().await.unwrap();
    let twice = [probe.clone(), probe];
    let mut numbers: Vec<i64> = tx.pages_around(&twice).await.unwrap().iter().map(|(_, page)| page.number).collect();
    numbers.sort_unstable();
    numbers
}

pub(crate) async fn pages_come_back_as_saved(database: Database) {
    let (owner_of, mut full) = page(Some("l"), i64::MAX, 1, 2, Some((1, 2)));
    full.bytes = (0..=255).collect();
    full.last_at = Timestamp::MAX;
    let pages = vec![page(None, 1, 0, 0, None), (owner_of, full)];
    save(&database, &Changes { pages: pages.clone(), ..Changes::default() }).await.unwrap();
    let again = Changes { pages: pages[..1].to_vec(), ..Changes::default() };
    assert!(matches!(save(&database, &again).await, Err(StoreError::Constraint(_))));
    let mut tx = database.store.read().await.unwrap();
    let probes = [probe(None, false, 5, 5), probe(Some("l"), false, 5, 5)];
    assert_eq!(tx.pages_around(&probes).await.unwrap(), pages);
    assert_eq!(tx.pages_around(&[]).await.unwrap(), []);
    assert_eq!(tx.pages_around(&[probe(Some("other"), false, 5, 5)]).await.unwrap(), []);
}

pub(crate) async fn pages_around_a_late_sample_are_enough(database: Database) {
    // Ten pages of six minutes an hour; number 10 h + page. Another lease's are between them.
    let mut pages = Vec::new();
    for hour in 0..4 {
        for part in 0..10 {
            let first = hour * 60 + part * 6;
            pages.push(page(Some("l"), hour * 10 + part, first, first + 5, None));
            pages.push(page(Some("m"), 100 + hour * 10 + part, first, first + 5, None));
        }
    }
    // A late page that overlaps others.
    pages.push(page(Some("l"), 99, 61, 119, None));
    save(&database, &Changes { pages, ..Changes::default() }).await.unwrap();

    // At minute 129: page 21 (126 to 131) holds the neighbours; the minute before that of its first sample is page
    // 20's, and an hour more to the left is taken in; the first page after is 22, and the one past its minute 23.
    let found = around(&database, probe(Some("l"), false, 129, 129)).await;
    for wanted in [20, 21, 22, 23, 99] {
        assert!(found.contains(&wanted), "{wanted} of {found:?}");
    }
    assert!(found.iter().all(|number| *number == 99 || (10..=23).contains(number)), "{found:?}");
    // Before the first and after the last, what there is.
    let found = around(&database, probe(Some("l"), false, 0, 0)).await;
    assert_eq!(found, [0, 1]);
    let found = around(&database, probe(Some("l"), false, 999, 999)).await;
    assert_eq!(found.last(), Some(&39));
    assert_eq!(around(&database, probe(Some("l"), false, 0, 999)).await.len(), 41);
}

pub(crate) async fn pages_around_a_late_storage_report_are_enough(database: Database) {
    let pages = vec![
        page(Some("l"), 1, 0, 5, Some((0, 5))),
        page(Some("l"), 2, 60, 65, Some((61, 62))),
        page(Some("l"), 3, 120, 125, None),
        page(Some("m"), 4, 180, 185, None),
        page(None, 5, 240, 245, Some((240, 245))),
        page(Some("m"), 6, 250, 255, Some((250, 255))),
        page(None, 7, 600, 600, Some((600, 600))),
    ];
    save(&database, &Changes { pages, ..Changes::default() }).await.unwrap();
    // Between the reports of one lease and the next ones at rest; pages without reports are not asked for. (At rest,
    // the probe's own lease is none.)
    assert_eq!(around(&database, probe(None, true, 150, 150)).await, [2, 5]);
    assert_eq!(around(&database, probe(Some("x"), true, 150, 150)).await, [2, 5]);
    // At the very instant of a report, its neighbours on both sides are there too.
    assert_eq!(around(&database, probe(None, true, 240, 240)).await, [2, 5]);
    assert_eq!(around(&database, probe(None, true, 245, 245)).await, [5, 6]);
    assert_eq!(around(&database, probe(None, true, 600, 600)).await, [5, 6, 7]);
    assert_eq!(around(&database, probe(None, true, 0, 0)).await, [1]);
    assert_eq!(around(&database, probe(None, true, 700, 700)).await, [7]);
    assert_eq!(around(&database, probe(None, true, 3, 610)).await, [1, 2, 5, 6, 7]);
}

pub(crate) async fn evidence_is_append_only(database: Database) {
    save(&database, &Changes { pages: vec![page(Some("l"), 1, 0, 1, None)], ..Changes::default() }).await.unwrap();
    for sql in ["UPDATE sample_pages SET number = 2", "DELETE FROM sample_pages"] {
        let error = database.run(sql).await.unwrap_err().to_string();
        assert!(error.contains("append-only"), "{error}");
    }
    assert_eq!(around(&database, probe(Some("l"), false, 0, 0)).await, [1]);
}

/// Evidence of a month is in a table of its own, which can be taken out whole, and nothing else can.
pub(crate) async fn a_month_of_evidence_is_archived_whole(database: &Database) {
    // November 2026, far from the months that are made ahead of today.
    let first = 1_793_491_200_000 / MINUTE_MS;
    assert!(database.run("SELECT make_evidence_month('1999-01')").await.is_ok());
    let old = 915_148_800_000 / MINUTE_MS;
    for (number, minute) in [(1, old), (2, first), (3, first + 5)] {
        let pages = vec![page(Some("l"), number, minute, minute, None)];
        save(database, &Changes { pages, ..Changes::default() }).await.unwrap();
    }
    let month = "evidence.sample_pages_1999_01";
    for table in ["sample_pages", month, "evidence.sample_pages_any"] {
        for sql in
            [format!("UPDATE {table} SET number = 9"), format!("DELETE FROM {table}"), format!("TRUNCATE {table}")]
        {
            let error = database.run(&sql).await.unwrap_err().to_string();
            assert!(error.contains("append-only"), "{sql}: {error}");
        }
    }
    assert_eq!(around(database, probe(Some("l"), false, first + 9, first + 9)).await, [2, 3]);
    assert_eq!(around(database, probe(Some("l"), false, old, old)).await, [1, 2]);
    // Others write on meanwhile, but for an instant; made again, nothing changes.
    database.run(&format!("ALTER TABLE sample_pages DETACH PARTITION {month}")).await.unwrap();
    database.run("SELECT make_evidence_month('1999-01')").await.unwrap();
    assert_eq!(around(database, probe(Some("l"), false, old, old)).await, [2, 3]);
    assert!(database.run(&format!("DELETE FROM {month}")).await.is_err(), "not even now");
    database.run(&format!("DROP TABLE {month}")).await.unwrap();
    // What comes later is kept with the rest, and the month is then made no more.
    let pages = vec![page(Some("l"), 4, old, old, None)];
    save(database, &Changes { pages, ..Changes::default() }).await.unwrap();
    database.run("SELECT make_evidence_month('1999-01')").await.unwrap();
    assert_eq!(around(database, probe(Some("l"), false, old, old)).await, [2, 4]);
    database.store.make_months().await.unwrap();
}
