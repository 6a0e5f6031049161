//! Several statements in one round trip.
//!
//! A statement costs a batch more time on its way there and back than in the database: on a server by the network, in an
//! embedded back end by its thread, which is woken for each. So statements that do not need each other's answers go
//! together: on a server as one, embedded as one text of several.
//!
//! On a server those that read answer their rows as records. The database runs them one after another, in the order in
//! which they are given. They see the same snapshot, which is taken before the first: what is decided on may stand beside a lock only
//! where that is as good (the doctrine in [`super`] says where). Those that write run in no order, so they are of rows that
//! nobody else can want: new ones of accounts that are locked.

use std::sync::OnceLock;

use super::dialect::Row;
use super::statement::{Expanded, Statement, Words};
use super::{Answer, Rows, Tx, within};

/// Statements that go together, and in which order.
#[derive(Debug)]
pub(super) struct Bundle<const N: usize> {
    /// What it does, for plans and errors.
    pub(super) name: &'static str,
    /// The statements; values beside the rows are not for them.
    pub(super) parts: [&'static Statement; N],
    /// Whether they write; else they read.
    pub(super) writes: bool,
    server: OnceLock<Expanded>,
}

impl<const N: usize> Bundle<N> {
    /// A bundle that reads.
    pub(super) const fn of_reads(name: &'static str, parts: [&'static Statement; N]) -> Self {
        Self { name, parts, writes: false, server: OnceLock::new() }
    }

    /// A bundle that writes.
    pub(super) const fn of_writes(name: &'static str, parts: [&'static Statement; N]) -> Self {
        Self { name, parts, writes: true, server: OnceLock::new() }
    }

    /// The one statement that all are together on a server; expanded once.
    pub(super) fn on_server<W: Words>(
        &'static self,
        join: fn(writes: bool, parts: Vec<String>) -> String,
    ) -> &'static Expanded {
        self.server.get_or_init(|| {
            let mut parameters = 0;
            let mut sql = Vec::with_capacity(N);
            for part in self.parts {
                let one = part.expand_after::<W>(parameters);
                parameters = one.parameters;
                sql.push(one.sql);
            }
            Expanded { sql: join(self.writes, sql), parameters }
        })
    }
}

impl Tx {
    /// The rows of each statement of a bundle; a statement whose rows are empty answers none.
    pub(super) async fn fetch_bundle<const N: usize>(
        &mut self,
        bundle: &'static Bundle<N>,
        rows: [&Rows<'_>; N],
    ) -> Answer<[Vec<Row>; N]> {
        within(self.wait, self.connection.fetch_bundle(bundle, rows)).await
    }

    /// Writes the rows of each statement of a bundle; one alone goes by itself.
    pub(super) async fn write_bundle<const N: usize>(
        &mut self,
        bundle: &'static Bundle<N>,
        rows: [&Rows<'_>; N],
    ) -> Answer<()> {
        let filled = rows.iter().filter(|rows| !rows.is_empty()).count();
        if filled > 1 {
            return within(self.wait, self.connection.write_bundle(bundle, rows)).await;
        }
        for (part, rows) in bundle.parts.into_iter().zip(rows) {
            self.write(part, rows).await?;
        }
        Ok(())
    }
}
