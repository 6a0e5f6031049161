//! Migrations: scripts in order, each run once, recorded with its SHA-256. A script that was edited after it ran, or a
//! record of one that this program does not know, is refused.

use sha2::{Digest, Sha256};

use super::dialect::Script;
use super::statement::Statement;
use super::{Answer, Lane, Rows, Store, StoreError, Tx, all};

static SCRIPTS: &[Script] = &[
    Script {
        name: "0001_ledger",
        sqlite: include_str!("../../migrations/sqlite/0001_ledger.sql"),
        postgres: include_str!("../../migrations/postgres/0001_ledger.sql"),
    },
    Script {
        name: "0003_invoices",
        sqlite: include_str!("../../migrations/sqlite/0003_invoices.sql"),
        postgres: include_str!("../../migrations/postgres/0003_invoices.sql"),
    },
];

/// The record itself. Engines that start together take turns: the number is this table's own.
static RECORD: Script = Script {
    name: "migrations",
    sqlite: "CREATE TABLE IF NOT EXISTS migrations (name TEXT NOT NULL PRIMARY KEY, sha256 BLOB NOT NULL) STRICT",
    postgres: "SELECT pg_advisory_xact_lock(7269836410); \
               CREATE TABLE IF NOT EXISTS migrations (name TEXT COLLATE \"C\" NOT NULL PRIMARY KEY, sha256 BYTEA NOT NULL)",
};

static DONE: Statement = Statement::new("migrations done", "SELECT name, sha256 FROM migrations ORDER BY name");
static ADD: Statement = Statement::new(
    "add migration",
    "INSERT INTO migrations ({columns}) SELECT {r.columns} FROM {rows name text | sha256 bytes} WHERE true",
);
pub(super) static STATEMENTS: &[&Statement] = &[&DONE, &ADD];

impl Store {
    /// Brings the schema up to date, in one transaction; nothing happens when it is.
    pub async fn migrate(&self) -> Answer<()> {
        let mut tx = self.begin(Lane::Decision).await?;
        tx.connection.script(&RECORD).await?;
        let done = tx.migrations().await?;
        if let Some((name, _)) = done.iter().find(|(name, _)| SCRIPTS.iter().all(|script| script.name != name)) {
            return Err(StoreError::Corrupt(format!("migration {name} is of a newer program")));
        }
        for script in SCRIPTS {
            let sha256 = Sha256::digest(tx.connection.text_of(script)).to_vec();
            match done.iter().find(|(name, _)| name == script.name) {
                Some((_, recorded)) if *recorded == sha256 => {}
                Some(_) => return Err(StoreError::Corrupt(format!("migration {} was edited", script.name))),
                None => {
                    tx.connection.script(script).await?;
                    let row = Rows::of([&sha256], |rows, sha256| {
                        rows.text(script.name).bytes(sha256);
                    });
                    tx.write(&ADD, &row).await?;
                }
            }
        }
        tx.commit().await
    }
}

impl Tx {
    async fn migrations(&mut self) -> Answer<Vec<(String, Vec<u8>)>> {
        all(self.fetch(&DONE, &[]).await?, |row| Ok((row.string()?, row.bytes()?)))
    }
}
