//! Migrations: scripts in order, each run once, recorded with its SHA-256. A script that was edited after it ran, or a
//! record of one that this program does not know, is refused; but for those of a newer program that only add, so that
//! an old engine and a new one run side by side.

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
        name: "0002_evidence_by_month",
        sqlite: include_str!("../../migrations/sqlite/0002_evidence_by_month.sql"),
        postgres: include_str!("../../migrations/postgres/0002_evidence_by_month.sql"),
    },
    Script {
        name: "0003_invoices",
        sqlite: include_str!("../../migrations/sqlite/0003_invoices.sql"),
        postgres: include_str!("../../migrations/postgres/0003_invoices.sql"),
    },
    Script {
        name: "0004_corrections",
        sqlite: include_str!("../../migrations/sqlite/0004_corrections.sql"),
        postgres: include_str!("../../migrations/postgres/0004_corrections.sql"),
    },
    Script {
        name: "0006_evidence_of_invoices",
        sqlite: include_str!("../../migrations/sqlite/0006_evidence_of_invoices.sql"),
        postgres: include_str!("../../migrations/postgres/0006_evidence_of_invoices.sql"),
    },
    Script {
        name: "0007_remote_write",
        sqlite: include_str!("../../migrations/sqlite/0007_remote_write.sql"),
        postgres: include_str!("../../migrations/postgres/0007_remote_write.sql"),
    },
    Script {
        name: "0008_wide_quantities",
        sqlite: include_str!("../../migrations/sqlite/0008_wide_quantities.sql"),
        postgres: include_str!("../../migrations/postgres/0008_wide_quantities.sql"),
    },
];

/// Makes the tables of this month's evidence and of the next three, where they are missing. Whoever makes them holds
/// the same lock as who migrates, so engines take turns.
static MONTHS: Script = Script {
    name: "months of evidence",
    sqlite: "SELECT 1",
    postgres: "SELECT pg_advisory_xact_lock(7269836410); \
               SELECT make_evidence_month(to_char(month, 'YYYY-MM')) FROM generate_series( \
               date_trunc('month', now() AT TIME ZONE 'UTC'), now() AT TIME ZONE 'UTC' + INTERVAL '3 months', \
               INTERVAL '1 month') AS month",
};

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

fn is_known(name: &str) -> bool {
    SCRIPTS.iter().any(|script| script.name == name)
}

/// Whether a migration that this program does not know leaves it working: it comes after all that it knows, and only
/// adds. One that takes away says so in its name, and waits until no older engine runs.
fn is_expansion_after_ours(name: &str) -> bool {
    SCRIPTS.iter().all(|script| script.name < name) && !name.ends_with("_contract")
}

impl Store {
    /// Brings the schema up to date, in one transaction, and makes months of evidence ahead; nothing happens when it is.
    pub async fn migrate(&self) -> Answer<()> {
        self.bring_up_to_date().await?;
        // Without them evidence is kept in the table of all other months: no reason not to start.
        if let Err(error) = self.make_months().await {
            tracing::warn!(%error, "months of evidence could not be made ahead");
        }
        Ok(())
    }

    /// Makes the tables of the next months' evidence, where the database keeps it by month and they are missing.
    pub async fn make_months(&self) -> Answer<()> {
        let mut tx = self.begin(Lane::Decision).await?;
        tx.connection.script(&MONTHS).await?;
        tx.commit().await
    }

    async fn bring_up_to_date(&self) -> Answer<()> {
        let mut tx = self.begin(Lane::Decision).await?;
        tx.connection.script(&RECORD).await?;
        let done = tx.migrations().await?;
        if let Some((name, _)) = done.iter().find(|(name, _)| !is_known(name) && !is_expansion_after_ours(name)) {
            return Err(StoreError::Corrupt(format!("migration {name} is of another program, or a newer one's")));
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
