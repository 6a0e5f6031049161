//! Several statements that read, in one round trip.
//!
//! On a server a statement costs a batch more time on its way there and back than in the database. So statements that do
//! not need each other's answers go together, as one: each answers its rows as records, and the database runs them one
//! after another, in the order in which they are given. They see the same snapshot, which is taken before the first:
//! what is decided on may stand beside a lock only where that is as good (the doctrine in [`super`] says where).
//! An embedded back end, to which nothing is far, runs them one by one.

use std::sync::OnceLock;

use super::dialect::Row;
use super::statement::{Column, Expanded, Statement, Words};
use super::{Answer, Rows, Tx, within};

/// Statements that go together, and in which order.
#[derive(Debug)]
pub(super) struct Bundle<const N: usize> {
    /// What it does, for plans and errors.
    pub(super) name: &'static str,
    /// The statements; values beside the rows are not for them.
    pub(super) parts: [&'static Statement; N],
    server: OnceLock<Expanded>,
}

impl<const N: usize> Bundle<N> {
    /// A bundle by name and statements.
    pub(super) const fn new(name: &'static str, parts: [&'static Statement; N]) -> Self {
        Self { name, parts, server: OnceLock::new() }
    }

    /// The statement that all are together, in a server's words; expanded once. Of each row it answers the place of its
    /// statement, then the row.
    pub(super) fn expanded<W: Words>(&'static self) -> &'static Expanded {
        self.server.get_or_init(|| {
            let mut parameters = 0;
            let mut sql = Vec::with_capacity(N);
            for (place, part) in self.parts.iter().enumerate() {
                let one = part.expand_after::<W>(parameters);
                parameters = one.parameters;
                sql.push(format!("SELECT {place}::bigint, q FROM ({}) AS q", one.sql));
            }
            Expanded { sql: sql.join(" UNION ALL "), parameters }
        })
    }

    /// The columns of each statement's row source.
    pub(super) fn columns(&self) -> [Vec<Column<'static>>; N] {
        self.parts.map(Statement::columns)
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
}
