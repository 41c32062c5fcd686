//! The rows that consumers live by: who they are, how far they are, who runs them, what failed.
//!
//! The statements are written once and run on every database; what differs comes from
//! [`Dialect`](anabranch_store::database::Dialect). No other module of this crate holds SQL of our
//! own, except views and rebuilds, whose tables are made by name.
//!
//! | module | subject |
//! |---|---|
//! | `consumers` | the consumers of a log: register, pause, ask for a reset |
//! | `identity` | what identifies a consumer, and keys of events that it has handled |
//! | `key_replays` | keys whose events are to be handled again |
//! | `log_names` | the categories and types that the log has |
//! | `anchors` | which log a consumer's cursors belong to, and by which events they know it |
//! | `audit` | the record of audited consumers: what commits add to it |
//! | `audited` | consumers that are audited: their record begun, read, pruned |
//! | `cursors` | slots, positions, epochs: claim, release, the fence |
//! | `row_writers` | for which slot each row of a watched table was written |
//! | `imports` | positions of runners that were there before |
//! | `workers` | leases and heartbeats |
//! | `runners` | who runs what, and is able to |
//! | `replica_sets` | making generations and assignments: who should own what |
//! | `locked_sets` | a set as it is read for that, under its lock |
//! | `loads` | how heavy slots are, and moving them for it |
//! | `gauges` | what metrics read, in one statement |
//! | `generations` | looking at generations |
//! | `outages` | consumers that stopped by themselves |
//! | `parked` | keys that failed, and the events behind them |
//! | `parked_filter` | keys that failed, by what a filter says |
//! | `permits` | how much of a consumer each worker may have in work |
//! | `pools` | tasks of pools, as a status counts them |

pub(crate) mod anchors;
pub(crate) mod audit;
pub(crate) mod audited;
pub(crate) mod consumers;
pub(crate) mod cursors;
pub(crate) mod gauges;
pub(crate) mod generations;
pub(crate) mod identity;
pub(crate) mod imports;
pub(crate) mod key_replays;
pub(crate) mod loads;
mod locked_sets;
pub(crate) mod log_names;
pub(crate) mod outages;
pub(crate) mod parked;
pub(crate) mod parked_filter;
pub(crate) mod permits;
pub(crate) mod pools;
pub(crate) mod replica_sets;
pub(crate) mod row_writers;
pub(crate) mod runners;
pub(crate) mod workers;

use anabranch_core::{Slot, StoreError};
use anabranch_store::database::{self, Answer, End, Failed, Session, Statement};
use anabranch_store::value::FromValue;
use anabranch_store::{Database, Emitter, Row};
use std::sync::Arc;
use std::time::Duration;

/// How long a transaction of ours may wait for its next statement.
pub(crate) const IDLE: Duration = Duration::from_secs(5);

/// The tables of one log.
#[derive(Clone)]
pub(crate) struct Tables {
    pub(crate) database: Arc<dyn Database>,
    /// Says what happens.
    pub(crate) events: Emitter,
    pub(crate) consumers: String,
    pub(crate) cursors: String,
    pub(crate) audit: String,
    /// The id of the row of `audit` that the transaction has added last.
    pub(crate) last_record: String,
    pub(crate) workers: String,
    pub(crate) replica_sets: String,
    pub(crate) generations: String,
    pub(crate) assignments: String,
    pub(crate) runners: String,
    pub(crate) consumer_assignments: String,
    pub(crate) consumer_rates: String,
    pub(crate) parked_keys: String,
    pub(crate) parked_events: String,
    pub(crate) replayed_events: String,
    pub(crate) permits: String,
    pub(crate) deliveries: String,
    pub(crate) endpoints: String,
    pub(crate) key_samples: String,
    pub(crate) row_writers: String,
    /// The database's clock.
    pub(crate) now: &'static str,
    pub(crate) for_update: &'static str,
}

impl Tables {
    pub(crate) fn of(database: Arc<dyn Database>) -> Self {
        let dialect = database.dialect();
        let (now, for_update) = (dialect.now_us(), dialect.for_update());
        Self {
            consumers: dialect.table("consumers"),
            cursors: dialect.table("cursors"),
            audit: dialect.table("audit"),
            last_record: dialect.last_id("audit"),
            workers: dialect.table("workers"),
            replica_sets: dialect.table("replica_sets"),
            generations: dialect.table("generations"),
            assignments: dialect.table("assignments"),
            runners: dialect.table("runners"),
            consumer_assignments: dialect.table("consumer_assignments"),
            consumer_rates: dialect.table("consumer_rates"),
            parked_keys: dialect.table("parked_keys"),
            parked_events: dialect.table("parked_events"),
            replayed_events: dialect.table("replayed_events"),
            permits: dialect.table("permits"),
            deliveries: dialect.table("deliveries"),
            endpoints: dialect.table("endpoints"),
            key_samples: dialect.table("key_samples"),
            row_writers: dialect.table("row_writers"),
            now,
            for_update,
            events: database.events(),
            database,
        }
    }

    pub(crate) fn at(&self) -> &str {
        self.database.at()
    }

    /// Runs statements as one transaction.
    pub(crate) async fn commit(
        &self,
        statements: Vec<Statement>,
    ) -> Result<Vec<Answer>, StoreError> {
        let done = self.database.control().run(statements, End::Commit).await;
        done.map_err(|failed| self.error(failed))
    }

    /// Runs one query.
    pub(crate) async fn query(&self, statement: Statement) -> Result<Vec<Row>, StoreError> {
        let rows = self.database.control().rows(statement, End::Commit).await;
        rows.map_err(|failed| self.error(failed))
    }

    /// Runs one query in a transaction that goes on.
    pub(crate) async fn query_in(
        &self,
        session: &mut dyn Session,
        statement: Statement,
    ) -> Result<Vec<Row>, StoreError> {
        let rows = session.rows(statement, End::Open { idle: IDLE }).await;
        rows.map_err(|failed| self.error(failed))
    }

    pub(crate) fn error(&self, failed: Failed) -> StoreError {
        failed.into_store_error(self.at())
    }

    /// A column that only we write.
    pub(crate) fn column<T: FromValue>(&self, row: &Row, name: &str) -> Result<T, StoreError> {
        database::column(self.at(), row, name)
    }

    /// The slot of a row.
    pub(crate) fn slot(&self, row: &Row) -> Result<Slot, StoreError> {
        let slot = Slot::new(self.column(row, "slot")?);
        slot.ok_or_else(|| self.corrupt("a slot that does not exist".to_owned()))
    }

    pub(crate) fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt { at: self.at().to_owned(), what }
    }
}
