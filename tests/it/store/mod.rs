//! The contract of the store: the same tests on SQLite and on PostgreSQL.
#![expect(clippy::arithmetic_side_effects, reason = "tests compute what they expect; overflow panics there")]

mod assumed;
mod counters;
mod customers;
mod decision;
mod fixtures;
mod leases;
mod pages;
mod schema;
mod sums;

use runtab::store::{Options, Store};
use sqlx::{AssertSqlSafe, Connection, Executor};

/// A migrated database of either kind.
pub(crate) struct Database {
    pub(crate) store: Store,
    pub(crate) address: String,
}

impl Database {
    async fn at(address: String) -> Self {
        let options = Options { meters_max: 2, readers_max: 2, wait_ms_max: 10_000 };
        let store = Store::open(&address, options).await.unwrap();
        store.migrate().await.unwrap();
        Self { store, address }
    }

    fn is_postgres(&self) -> bool {
        self.address.starts_with("postgres")
    }

    /// Runs a statement behind the store's back.
    async fn run(&self, sql: &str) -> Result<(), sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        if self.is_postgres() {
            sqlx::PgConnection::connect(&self.address).await.unwrap().execute(sql).await.map(drop)
        } else {
            sqlx::SqliteConnection::connect(&self.address).await.unwrap().execute(sql).await.map(drop)
        }
    }
}

/// Each function is a test on SQLite; PostgreSQL runs all of them on one server.
macro_rules! contract {
    ($($module:ident :: $name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let folder = tempfile::tempdir().unwrap();
                let address = format!("sqlite:{}", folder.path().join("runtab.db").display());
                super::$module::$name(super::Database::at(address).await).await;
            })*
        }

        #[tokio::test]
        async fn postgres_keeps_the_contract() {
            let server = crate::postgres::Server::shared();
            $({
                println!(stringify!($name));
                let database = Database::at(server.database().await).await;
                let store = database.store.clone();
                // Boxed: together they are more than a stack holds.
                Box::pin($module::$name(database)).await;
                store.close().await;
            })*
        }
    };
}

contract! {
    assumed::what_is_assumed_is_saved_where_it_is_so,
    counters::counters_are_added_to,
    counters::a_sum_that_does_not_fit_is_refused_whole,
    counters::an_account_begins_with_the_sums_of_its_keys,
    counters::draws_keep_their_place,
    customers::customers_come_back_as_saved,
    customers::a_key_keeps_its_secret_until_it_is_rotated,
    customers::secrets_wait_for_no_report,
    customers::rate_cards_come_and_go,
    customers::tokens_are_found_by_secret,
    customers::lists_go_on_after_the_last_one_seen,
    customers::any_number_of_rows_is_written,
    decision::a_decision_reads_what_its_statements_answer,
    decision::a_decision_may_ask_for_little,
    decision::a_batch_may_begin_with_a_commit,
    decision::what_is_new_is_not_there_already,
    decision::what_begins_together_is_saved_together,
    leases::leases_come_back_as_saved,
    leases::what_samples_change_is_saved_by_itself,
    leases::one_lease_of_a_sandbox_is_open,
    leases::leases_are_found_by_what_is_asked,
    leases::sandboxes_come_back_as_saved,
    leases::lives_from_the_one_in_force,
    pages::pages_come_back_as_saved,
    pages::pages_around_a_late_sample_are_enough,
    pages::pages_around_a_late_storage_report_are_enough,
    pages::evidence_is_append_only,
    schema::migrating_again_changes_nothing,
    schema::an_edited_migration_is_refused,
    schema::a_newer_migration_is_refused_where_it_takes_away,
    schema::every_statement_goes_by_a_key,
    schema::statements_go_by_their_index,
    schema::a_dropped_batch_is_undone,
    schema::a_snapshot_stands_still,
    schema::the_watermark_begins_open,
    sums::usage_is_summed_with_open_hours,
    sums::what_is_not_settled_is_incomplete,
}

#[tokio::test]
async fn memory_is_a_database_too() {
    let database = Database::at("sqlite::memory:".to_owned()).await;
    database.store.ready().await.unwrap();
    counters::counters_are_added_to(database).await;
}

#[tokio::test]
async fn postgres_lets_two_engines_settle_different_leases() {
    let server = crate::postgres::Server::shared();
    let database = Database::at(server.database().await).await;
    leases::due_leases_that_others_hold_are_passed_over(&database).await;
    database.store.close().await;
}

#[tokio::test]
async fn postgres_keeps_apart_who_writes_a_lease_at_once() {
    let server = crate::postgres::Server::shared();
    for waits in [true, false] {
        let database = Database::at(server.database().await).await;
        if waits {
            assumed::who_assumes_waits_for_who_writes(&database).await;
        } else {
            assumed::a_lease_is_written_where_it_lies(&database).await;
        }
        database.store.close().await;
    }
}

#[tokio::test]
async fn postgres_tells_servers_apart() {
    // New ones, which have counted about as many.
    let (server, other) = (crate::postgres::Server::own(), crate::postgres::Server::own());
    let (database, other_database) =
        (Database::at(server.database().await).await, Database::at(other.database().await).await);
    assumed::what_another_server_wrote_is_not_assumed(&database, &other_database).await;
    database.store.close().await;
    other_database.store.close().await;
}

#[tokio::test]
async fn postgres_keeps_evidence_by_month() {
    let server = crate::postgres::Server::shared();
    let database = Database::at(server.database().await).await;
    pages::a_month_of_evidence_is_archived_whole(&database).await;
    database.store.close().await;
}
