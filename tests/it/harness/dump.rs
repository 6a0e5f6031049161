//! All tables of a database as text: equal texts, equal tables.

use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection};

/// Every table with every row, in an order of its own making.
pub(crate) async fn dump(database: &str) -> String {
    match database.strip_prefix("sqlite:") {
        Some(path) => dump_sqlite(path).await,
        None => dump_postgres(database).await,
    }
}

/// The same of the named tables only.
pub(crate) async fn dump_tables(database: &str, names: &[&str]) -> String {
    let all = dump(database).await;
    let mut text = String::new();
    let mut wanted = false;
    for line in all.lines() {
        // A table's name stands alone on its line; a row has parentheses or commas.
        let is_name = line.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_') && !line.is_empty();
        wanted = if is_name { names.contains(&line) } else { wanted };
        if wanted {
            text.extend([line, "\n"]);
        }
    }
    text
}

async fn dump_sqlite(path: &str) -> String {
    let mut database = SqliteConnection::connect(&format!("sqlite://{path}?mode=ro")).await.expect("the database");
    let tables: Vec<String> = sqlx::query_scalar("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        .fetch_all(&mut database)
        .await
        .expect("the tables");
    let mut text = String::new();
    for table in tables {
        let columns: Vec<String> = sqlx::query_scalar("SELECT name FROM pragma_table_info($1) ORDER BY cid")
            .bind(&table)
            .fetch_all(&mut database)
            .await
            .expect("the columns");
        let quoted: Vec<String> = columns.iter().map(|column| format!("quote(\"{column}\")")).collect();
        let row = quoted.join(" || ',' || ");
        let rows = format!("SELECT {row} AS line FROM \"{table}\" ORDER BY line");
        let rows: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(rows)).fetch_all(&mut database).await.expect("the rows");
        text.extend([table, "\n".to_owned(), rows.join("\n"), "\n".to_owned()]);
    }
    text
}

async fn dump_postgres(url: &str) -> String {
    let mut database = PgConnection::connect(url).await.expect("the database");
    let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY 1";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut database).await.expect("the tables");
    let mut text = String::new();
    for table in tables {
        let rows = format!("SELECT t::text FROM \"{table}\" AS t ORDER BY 1");
        let rows: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(rows)).fetch_all(&mut database).await.expect("the rows");
        text.extend([table, "\n".to_owned(), rows.join("\n"), "\n".to_owned()]);
    }
    text
}

/// Runs a statement on a database, past the engine.
pub(crate) async fn run_sql(database: &str, statement: &str) -> Result<(), sqlx::Error> {
    let statement = AssertSqlSafe(statement.to_owned());
    if let Some(path) = database.strip_prefix("sqlite:") {
        let mut database = SqliteConnection::connect(&format!("sqlite://{path}")).await?;
        sqlx::raw_sql(statement).execute(&mut database).await.map(drop)
    } else {
        let mut database = PgConnection::connect(database).await?;
        sqlx::raw_sql(statement).execute(&mut database).await.map(drop)
    }
}
