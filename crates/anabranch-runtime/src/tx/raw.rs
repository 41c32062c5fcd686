//! What the engines of handlers do with a transaction, and handlers must not.

use super::{Ended, MAX_QUEUED, MAX_QUEUED_BYTES, Tx};
use crate::handler::{HandlerError, HandlerResult};
use crate::holding::Commit;
use anabranch_core::StoreError;
use anabranch_store::database::{Reason, Statement, Who};
use anabranch_store::{Database, Row};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A place in a transaction, to come back to: see [`RawTx::undo`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    queued: usize,
    queued_bytes: usize,
    appends: usize,
    sent: u64,
}

/// Statements in the form that the database takes, and the end of a transaction: for what calls handlers, such as
/// work pools, workflows and batch records.
///
/// A handler has no use for it: it neither ends its transaction nor takes back what another event wrote.
pub trait RawTx: Sized {
    /// A transaction on a database that belongs to no consumer. It may be open for this long without a statement.
    fn on(database: &Arc<dyn Database>, idle: Duration) -> Self;

    /// The next statements belong to several events, or rows.
    fn for_several(&mut self);

    /// Writes a statement, with what is expected of it.
    fn push(&mut self, statement: Statement) -> impl Future<Output = HandlerResult> + Send;

    /// Reads by a statement.
    fn query_statement(
        &mut self,
        statement: Statement,
    ) -> impl Future<Output = HandlerResult<Vec<Row>>> + Send;

    /// Refuses what belongs into another database than this transaction's, where the events are on another server
    /// than their consumers: it would be written where nobody looks for it.
    fn must_be_in(&self, database: &dyn Database) -> HandlerResult;

    /// Where the transaction is now.
    #[must_use]
    fn mark(&self) -> Mark;

    /// Takes back what was written since a mark. Says whether it could: what was sent meanwhile, since something
    /// was read or much was written, can only be rolled back with the whole transaction.
    fn undo(&mut self, mark: Mark) -> bool;

    /// Commits, together with statements of which each must do what is
    /// [expected](anabranch_store::database::Expect) of it: if one does not, another worker was faster, and nothing
    /// is stored.
    fn finish(self, fence: Vec<Statement>) -> impl Future<Output = Commit> + Send;
}

impl RawTx for Tx {
    fn on(database: &Arc<dyn Database>, idle: Duration) -> Self {
        Self::begin_as(database, "", idle, &Who::hook())
    }

    fn for_several(&mut self) {
        self.current = None;
    }

    async fn push(&mut self, statement: Statement) -> HandlerResult {
        self.refuse_control(&statement)?;
        self.queue(statement);
        if self.queued.len() >= MAX_QUEUED || self.queued_bytes >= MAX_QUEUED_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn query_statement(&mut self, statement: Statement) -> HandlerResult<Vec<Row>> {
        self.refuse_control(&statement)?;
        self.queue(statement);
        let answers = self.flush().await?;
        Ok(answers.into_iter().next_back().unwrap_or_default().rows)
    }

    fn must_be_in(&self, database: &dyn Database) -> HandlerResult {
        let (mine, other) = (self.database.at(), database.at());
        if mine == other || self.database.must_hold_log().is_ok() {
            return Ok(());
        }
        let what = "enqueueing by a handle of another database";
        let remedy = "make Tasks of the log that the consumer runs on (Log::with_database)";
        let (at, log) = (mine.to_owned(), other.into());
        Err(StoreError::TwoServers { at, log, what, remedy }.into())
    }

    fn mark(&self) -> Mark {
        Mark {
            queued: self.queued.len(),
            queued_bytes: self.queued_bytes,
            appends: self.appends.len(),
            sent: self.sent,
        }
    }

    fn undo(&mut self, mark: Mark) -> bool {
        if self.sent != mark.sent || self.failure.is_some() {
            return false;
        }
        self.queued.truncate(mark.queued);
        self.blame.truncate(mark.queued);
        self.queued_bytes = mark.queued_bytes;
        self.appends.truncate(mark.appends);
        true
    }

    async fn finish(self, fence: Vec<Statement>) -> Commit {
        let at = self.database.at().to_owned();
        match self.commit(fence).await {
            Ended::Committed => Commit::Done,
            Ended::Fenced => Commit::Lost,
            Ended::Broken(failed) => match failed.reason {
                Reason::Store(error) => Commit::Away(error),
                _ => {
                    let error = HandlerError::from(failed.into_store_error(&at));
                    Commit::Refused { item: None, error }
                }
            },
            Ended::Failed(failure) => Commit::of(failure),
        }
    }
}
