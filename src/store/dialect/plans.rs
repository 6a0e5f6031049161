//! How a back end would run the statements, for the test that looks at each.

use sqlx::AssertSqlSafe;

use super::super::bundle::Bundle;
use super::super::error::StoreError;
use super::super::statement::{Expanded, Statement};
use super::queries::together;
use super::{Connection, failed_in, values, words};

impl Connection {
    /// How the database would run a statement: its plan, a line a step.
    pub(in super::super) async fn plan(&mut self, statement: &'static Statement) -> Result<Vec<String>, StoreError> {
        if let Self::Postgres(_) = self {
            let Expanded { sql, parameters } = statement.expanded::<words::Postgres>();
            return self.plan_of(statement.name, sql, *parameters).await;
        }
        let mut plan = Vec::new();
        for text in values::samples(statement) {
            plan.extend(self.plan_of(statement.name, &text, 0).await?);
        }
        Ok(plan)
    }

    /// The same of a bundle; `None` where each of its statements has a plan of its own.
    pub(in super::super) async fn plan_bundle<const N: usize>(
        &mut self,
        bundle: &'static Bundle<N>,
    ) -> Result<Option<Vec<String>>, StoreError> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres(_) => {
                let Expanded { sql, parameters } = together(bundle);
                self.plan_of(bundle.name, sql, *parameters).await.map(Some)
            }
        }
    }

    async fn plan_of(&mut self, name: &str, sql: &str, parameters: usize) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Sqlite(inside) => {
                let sql = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
                let rows = sqlx::query_as::<_, (i64, i64, i64, String)>(sql).fetch_all(inside.settled().await?).await;
                rows.map(|rows| rows.into_iter().map(|row| row.3).collect())
            }
            Self::Postgres(inside) => {
                let nulls = vec!["NULL"; parameters].join(", ");
                let call = if nulls.is_empty() { "plan_of".to_owned() } else { format!("plan_of({nulls})") };
                let prepare = AssertSqlSafe(format!("PREPARE plan_of AS {sql}"));
                let explain = AssertSqlSafe(format!("EXPLAIN (COSTS OFF) EXECUTE {call}"));
                let run = async {
                    sqlx::raw_sql(prepare).execute(&mut **inside).await?;
                    let rows = sqlx::raw_sql(explain).fetch_all(&mut **inside).await?;
                    sqlx::raw_sql("DEALLOCATE plan_of").execute(&mut **inside).await?;
                    rows.iter().map(|row| sqlx::Row::try_get(row, 0)).collect()
                };
                run.await
            }
        }
        .map_err(|error| failed_in(name, &error))
    }
}
