//! A debug mode: finds rows that events of different slots write, which two lanes could write at once.
//!
//! Triggers on the tables that a projection declares note which slot has written each row, and fail
//! the statement of a second one. So that it is known which event a statement is of, the handler gets
//! events one by one.

use crate::consumer::{Consumer, PROJECTION};
use crate::handler::{HandlerResult, LaneHandler, RepeatedKey};
use crate::run_error::RunError;
use crate::tables::Tables;
use crate::tx::{RawTx, Tx};
use anabranch_core::{Event, HashRule, Partition, StoreError};
use anabranch_store::database::Statement;
use futures_util::future::BoxFuture;

/// Puts the tables of a consumer under watch, or takes them out of it.
pub(crate) async fn prepare(consumer: &Consumer, tables: &Tables) -> Result<(), RunError> {
    if consumer.kind != PROJECTION {
        return Ok(());
    }
    let statements = match consumer.checks_rows {
        true => watch(consumer, tables).await?,
        false => removal(&consumer.name, tables).await?,
    };
    if !statements.is_empty() {
        tables.commit(statements).await?;
    }
    Ok(())
}

async fn watch(consumer: &Consumer, tables: &Tables) -> Result<Vec<Statement>, RunError> {
    let refuse = |problem: String| RunError::refused(&consumer.name, problem);
    let declared = consumer.work.hooks().tables();
    if declared.is_empty() {
        return Err(refuse(
            "its rows are to be checked, and it does not say which tables it writes; implement \
             Projection::tables"
                .to_owned(),
        ));
    }
    let mut statements = Vec::new();
    for name in declared {
        let table = format!("{name}{}", consumer.suffix);
        let rows = tables.query(tables.database.row_watch().key_of(&table)).await?;
        let key: Vec<String> =
            rows.iter().map(|row| tables.column(row, "name")).collect::<Result<_, _>>()?;
        if key.is_empty() {
            return Err(refuse(format!(
                "its rows are to be checked, and there is no table `{table}` with a primary key to \
                 tell them apart by; correct Projection::tables, or give the table one"
            )));
        }
        statements.extend(tables.database.row_watch().watch(&table, &key));
        statements.push(tables.note_watch(&consumer.name, &table));
    }
    Ok(statements)
}

/// The statements that remove what a run in this mode has left behind.
pub(crate) async fn removal(consumer: &str, tables: &Tables) -> Result<Vec<Statement>, StoreError> {
    let mut statements = Vec::new();
    for table in tables.watched_tables(consumer).await? {
        statements.extend(tables.database.row_watch().unwatch(&table));
    }
    if !statements.is_empty() {
        statements.push(tables.forget_writers(consumer));
    }
    Ok(statements)
}

/// A lane that says for which slot it writes.
pub(crate) struct WatchedLane {
    handler: Box<dyn LaneHandler>,
    consumer: String,
    partition: Partition,
    tables: Tables,
    rule: HashRule,
}

impl WatchedLane {
    pub(crate) fn new(
        handler: Box<dyn LaneHandler>,
        consumer: &Consumer,
        tables: &Tables,
        rule: HashRule,
    ) -> Self {
        let (partition, tables) = (consumer.partition.clone(), tables.clone());
        Self { handler, consumer: consumer.name.clone(), partition, tables, rule }
    }

    async fn watched(&mut self, events: &[Event], tx: &mut Tx) -> HandlerResult {
        for (number, event) in events.iter().enumerate() {
            tx.count_from(number);
            tx.for_event(0);
            let slot = self.partition.slot(event, self.rule).get();
            let said = format!("position {} ({})", event.position(), event.stream());
            let writes = self.tables.database.row_watch().writes_for(&self.consumer, slot, &said);
            tx.push(writes).await?;
            self.handler.handle(std::slice::from_ref(event), tx).await?;
            if tx.is_cut() {
                break;
            }
        }
        let none = self.tables.database.row_watch().writes_for_none();
        tx.push(none).await
    }
}

impl LaneHandler for WatchedLane {
    fn handle<'a>(
        &'a mut self,
        events: &'a [Event],
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.watched(events, tx))
    }

    fn row_of(&self, event: &Event) -> Option<String> {
        self.handler.row_of(event)
    }

    fn reset_key<'a>(
        &'a mut self,
        key: &'a RepeatedKey,
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        self.handler.reset_key(key, tx)
    }

    fn settled(&mut self, committed: bool) {
        self.handler.settled(committed);
    }
}
