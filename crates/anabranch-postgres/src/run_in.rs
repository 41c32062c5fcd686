//! Statements in a transaction of the caller's.

use crate::append::Session;
use crate::error::Failure;
use crate::refusal;
use crate::store::Postgres;
use crate::value::Bound;
use anabranch_core::{Append, StoreError};
use anabranch_store::Value;
use anabranch_store::database::{Answer, Expect, Failed, InsertRows, Statement, Work};
use tokio_postgres::Transaction;

impl Postgres {
    /// Runs statements of ours inside a transaction of yours, on a connection of yours to the same
    /// database: what they do is done if and when that transaction commits. This is how tasks are
    /// enqueued together with whatever else it does: the statements are `Tasks::statements`'.
    ///
    /// ```
    /// # use anabranch_postgres::{Postgres, tokio_postgres};
    /// # use anabranch_store::database::Statement;
    /// # async fn f(log: &Postgres, client: &mut tokio_postgres::Client, tasks: Vec<Statement>) -> Result<(), Box<dyn std::error::Error>> {
    /// let tx = client.transaction().await?;
    /// tx.execute("UPDATE stock SET units = units - 1 WHERE sku = 'sku-9'", &[]).await?;
    /// log.run_in(&tx, tasks).await?;
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    pub async fn run_in(
        &self,
        tx: &Transaction<'_>,
        statements: Vec<Statement>,
    ) -> Result<(), StoreError> {
        for statement in statements {
            let answer = self.run_one(tx, &statement).await?;
            if matches!(statement.expect, Expect::Changes(changes) if changes != answer.changed) {
                let source = "a statement did not match what it must change; roll back".into();
                return Err(StoreError::Other { at: self.at_server().to_owned(), source });
            }
        }
        Ok(())
    }

    async fn append_all_in(
        &self,
        tx: &Transaction<'_>,
        appends: &[Append],
    ) -> Result<Answer, StoreError> {
        let at = self.at_server();
        let appends: Vec<&Append> = appends.iter().collect();
        let answers = self.appending().append_in(Session::Callers(tx), &appends).await;
        let answers = answers.map_err(|error| Failure::from(error).at(at))?;
        let answer = Answer::of_appends(answers);
        answer.map_err(|reason| Failed { statement: None, reason }.into_store_error(at))
    }

    async fn run_one(
        &self,
        tx: &Transaction<'_>,
        statement: &Statement,
    ) -> Result<Answer, StoreError> {
        let failed = |error| {
            let reason = refusal::reason(self.at_server(), &Failure::from(error), Some(statement));
            Failed { statement: None, reason }.into_store_error(self.at_server())
        };
        let mut changed = 0;
        match &statement.work {
            Work::Sql(sql, values) => changed = execute(tx, sql, values).await.map_err(failed)?,
            Work::Rows(insert) => {
                let sql = insert_one(insert);
                for row in &insert.rows {
                    changed += execute(tx, &sql, row).await.map_err(failed)?;
                }
            }
            Work::Appends(appends) => return self.append_all_in(tx, appends).await,
            // It is somebody else's transaction.
            Work::Begun => {}
            // Only the transaction itself knows when it commits, so here the NOTIFY is part of it.
            Work::Signal(topic) => {
                tx.batch_execute(&self.signal_statement(*topic)).await.map_err(failed)?;
            }
        }
        Ok(Answer { changed, rows: Vec::new() })
    }
}

async fn execute(
    tx: &Transaction<'_>,
    sql: &str,
    values: &[Value],
) -> Result<u64, tokio_postgres::Error> {
    tx.execute_raw(sql, Bound::all(values)).await
}

fn insert_one(insert: &InsertRows) -> String {
    let InsertRows { table, columns, conflict, .. } = insert;
    let places: Vec<String> = (1..=columns.len()).map(|place| format!("${place}")).collect();
    let (columns, places) = (columns.join(", "), places.join(", "));
    format!("INSERT INTO {table} ({columns}) VALUES ({places}) {conflict}")
}
