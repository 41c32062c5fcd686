//! How views and rollups are run: states loaded and written set-wise, each row by one slot only.

use crate::consumer::{Code, Hooks};
use crate::handler::{HandlerError, HandlerResult, LaneHandler, RepeatedKey};
use crate::permits::Permits;
use crate::tx::{RawTx, Tx};
use crate::view::ViewColumn;
use anabranch_core::{Event, HashRule, Partition, Position, Slot, StoreError};
use anabranch_store::database::{ColumnType, Dialect, End, Expect, InsertRows, Statement};
use anabranch_store::{Log, Row, Value, params};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How many states a lane keeps, so that it need not load what it wrote itself.
const MAX_CACHED: usize = 100_000;

/// The column that says which slot a row belongs to.
pub(crate) const SLOT: &str = "anabranch_slot";

/// Columns that every such table has.
const OWN: [&str; 4] = ["key", "state", "position", SLOT];

/// Events folded into rows.
pub(crate) trait Fold: Send + Sync + 'static {
    type State: Serialize + DeserializeOwned + Default + Clone + Send + Sync + 'static;

    /// Which slots a row belongs to.
    const ROWS: Rows;

    fn name(&self) -> &str;

    fn partition(&self) -> Partition;

    /// The key of the row that an event belongs to, if there is one.
    fn row(&self, partition: &Partition, event: &Event) -> HandlerResult<Option<String>>;

    fn apply(&self, state: &mut Self::State, event: &Event) -> HandlerResult;

    fn columns(&self) -> Vec<ViewColumn<Self::State>>;
}

/// Which slots the rows of a key belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// A key is one row, of one slot: an event of another slot fails.
    OfOneSlot,
    /// A key has a row for each slot that has events of it.
    ForEachSlot,
}

/// The table of a view or rollup. In small letters, whatever its name has: so SQL finds it by its name without quotes,
/// with capitals or not, on every database. Names that differ in nothing but those are refused.
pub(crate) fn table(dialect: &dyn Dialect, name: &str, suffix: &str) -> String {
    dialect.table(&format!("view_{}{suffix}", name.to_ascii_lowercase()))
}

/// The keys and states of the rows that match a condition.
pub(crate) async fn select(
    log: &Log,
    table: &str,
    condition: &str,
    values: Vec<Value>,
) -> HandlerResult<Vec<Row>> {
    let select = format!("SELECT key, state FROM {table} WHERE {condition}");
    let database = log.database();
    let rows = database.begin().rows(Statement::query(select, values), End::Commit).await;
    Ok(rows.map_err(|failed| -> StoreError { failed.with_statement(database.at()) })?)
}

pub(crate) fn decode<S: DeserializeOwned>(row: &Row) -> HandlerResult<(String, S)> {
    let (key, state): (String, String) = (row.get("key")?, row.get("state")?);
    let state = serde_json::from_str(&state).map_err(|error| {
        HandlerError::new(format!(
            "the stored state of `{key}` is not what this program expects ({error}); raise the \
             version and rebuild the view"
        ))
    })?;
    Ok((key, state))
}

/// A view or rollup as the runtime runs it.
pub(crate) struct FoldCode<F: Fold> {
    fold: Arc<F>,
    columns: Arc<Vec<ViewColumn<F::State>>>,
}

impl<F: Fold> FoldCode<F> {
    pub(crate) fn new(fold: F) -> Self {
        let columns = Arc::new(fold.columns());
        Self { fold: Arc::new(fold), columns }
    }

    fn check_names(&self) -> HandlerResult {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let (own, name) = (OWN.join(", "), self.fold.name());
        if !name.chars().all(|c| is_plain(c.to_ascii_lowercase())) || OWN.contains(&name) {
            return Err(HandlerError::new(format!(
                "`{name}` cannot name a view; use A-Z, a-z, 0-9 and _, and not {own}"
            )));
        }
        let mut columns = self.columns.iter().map(|column| column.name);
        match columns.find(|name| !name.chars().all(is_plain) || OWN.contains(name)) {
            None => Ok(()),
            Some(column) => Err(HandlerError::new(format!(
                "`{column}` cannot name a column; use a-z, 0-9 and _, and not {own}"
            ))),
        }
    }
}

impl<F: Fold> Code for FoldCode<F> {
    fn lane(&self, rule: HashRule, _: Permits) -> Box<dyn LaneHandler> {
        let (fold, columns) = (Arc::clone(&self.fold), Arc::clone(&self.columns));
        let partition = fold.partition();
        let (states, statements) = (HashMap::new(), None);
        Box::new(FoldLane { fold, columns, partition, rule, states, statements })
    }
}

impl<F: Fold> Hooks for FoldCode<F> {
    fn set_up<'a>(&'a self, tx: &'a mut Tx) -> BoxFuture<'a, HandlerResult> {
        Box::pin(async move {
            self.check_names()?;
            let (json, key, columns) = {
                let of = |kind| tx.dialect().column_type(kind);
                let columns = self.columns.iter();
                let columns =
                    columns.map(|column| format!(", {} {}", column.name, of(column.kind)));
                (of(ColumnType::Document), of(ColumnType::Key), columns.collect::<String>())
            };
            let primary = match F::ROWS {
                Rows::OfOneSlot => "key".to_owned(),
                Rows::ForEachSlot => format!("key, {SLOT}"),
            };
            let table = table(tx.dialect(), self.fold.name(), tx.suffix());
            // Of a view of this name that was forgotten: the fold begins anew.
            tx.execute(format!("DROP TABLE IF EXISTS {table}"), vec![]).await?;
            let create = format!(
                "CREATE TABLE {table} (key {key} NOT NULL, state {json} NOT NULL, \
                 position bigint NOT NULL{columns}, {SLOT} bigint, PRIMARY KEY ({primary}))"
            );
            tx.execute(create, vec![]).await
        })
    }

    fn adopt<'a>(&'a self, tx: &'a mut Tx) -> BoxFuture<'a, HandlerResult> {
        Box::pin(async move {
            let table = table(tx.dialect(), self.fold.name(), tx.suffix());
            tx.execute(format!("ALTER TABLE {table} ADD COLUMN {SLOT} bigint"), vec![]).await
        })
    }

    fn reset<'a>(&'a self, to: Position, tx: &'a mut Tx) -> BoxFuture<'a, HandlerResult> {
        Box::pin(async move {
            if to > Position::START {
                return Err(HandlerError::new(
                    "a view is folded from the first event on; replay it from the start",
                ));
            }
            let table = table(tx.dialect(), self.fold.name(), tx.suffix());
            tx.execute(format!("DELETE FROM {table}"), vec![]).await
        })
    }

    /// A row of several keys is not what it was without the events of one of them.
    fn resets_keys(&self) -> bool {
        F::ROWS == Rows::OfOneSlot
    }
}

/// Which row: its key, and its slot where a key has several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RowId {
    key: String,
    part: Option<Slot>,
}

/// What a row holds.
struct Kept<S> {
    state: S,
    /// The slot that it belongs to; none if a program of the last version wrote it.
    slot: Option<Slot>,
}

/// An event, and the row that it belongs to.
struct Placed {
    number: usize,
    row: RowId,
    slot: Slot,
}

struct FoldLane<F: Fold> {
    fold: Arc<F>,
    columns: Arc<Vec<ViewColumn<F::State>>>,
    partition: Partition,
    rule: HashRule,
    /// What the rows hold; the lane is the only one that writes them.
    states: HashMap<RowId, Kept<F::State>>,
    statements: Option<Statements>,
}

#[derive(Clone)]
struct Statements {
    table: Cow<'static, str>,
    load: Cow<'static, str>,
    columns: Cow<'static, [&'static str]>,
    conflict: Cow<'static, str>,
}

impl<F: Fold> FoldLane<F> {
    fn statements(&mut self, tx: &Tx) -> Statements {
        let (fold, columns) = (&self.fold, &self.columns);
        let make = || {
            let table = table(tx.dialect(), fold.name(), tx.suffix());
            let one_of = |column: &str, place| tx.dialect().is_any(column, place);
            let mut wanted = one_of("key", 1);
            if F::ROWS == Rows::ForEachSlot {
                wanted += &format!(" AND {}", one_of(SLOT, 2));
            }
            let load = format!("SELECT key, state, {SLOT} FROM {table} WHERE {wanted}");
            let mut names = OWN.to_vec();
            names.extend(columns.iter().map(|column| column.name));
            let set = |name: &&str| format!("{name} = excluded.{name}");
            let sets: Vec<String> = names[1..].iter().map(set).collect();
            let sets = sets.join(", ");
            // A row that another slot has made meanwhile is not changed, and that is noticed.
            let conflict = match F::ROWS {
                Rows::OfOneSlot => format!(
                    "ON CONFLICT (key) DO UPDATE SET {sets} \
                     WHERE coalesce(kept.{SLOT}, excluded.{SLOT}) = excluded.{SLOT}"
                ),
                Rows::ForEachSlot => format!("ON CONFLICT (key, {SLOT}) DO UPDATE SET {sets}"),
            };
            Statements {
                table: format!("{table} AS kept").into(),
                load: load.into(),
                columns: names.into(),
                conflict: conflict.into(),
            }
        };
        self.statements.get_or_insert_with(make).clone()
    }

    /// Which row each event belongs to.
    fn place(&self, events: &[Event], tx: &mut Tx) -> HandlerResult<Vec<Placed>> {
        let mut placed = Vec::with_capacity(events.len());
        for (number, event) in events.iter().enumerate() {
            tx.for_event(number);
            let Some(key) = self.fold.row(&self.partition, event)? else { continue };
            let slot = self.partition.slot(event, self.rule);
            let part = (F::ROWS == Rows::ForEachSlot).then_some(slot);
            placed.push(Placed { number, row: RowId { key, part }, slot });
        }
        Ok(placed)
    }

    /// Loads the rows that are not known yet.
    async fn load(
        &mut self,
        placed: &[Placed],
        load: Cow<'static, str>,
        tx: &mut Tx,
    ) -> HandlerResult {
        let unknown: HashSet<&RowId> = placed
            .iter()
            .map(|one| &one.row)
            .filter(|row| !self.states.contains_key(row))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let mut wanted = vec![unknown.iter().map(|row| Value::from(row.key.as_str())).collect()];
        if F::ROWS == Rows::ForEachSlot {
            let slots: HashSet<Slot> = unknown.iter().filter_map(|row| row.part).collect();
            wanted.push(slots.into_iter().map(|slot| Value::from(slot.get())).collect());
        }
        let mut found = Vec::new();
        for row in tx.query(load, wanted).await? {
            let slot = row.get::<Option<u16>>(SLOT)?.and_then(Slot::new);
            let (key, state) = decode(&row)?;
            let part = slot.filter(|_| F::ROWS == Rows::ForEachSlot);
            let id = RowId { key, part };
            // Keys and slots are asked for apart: rows that nobody asked for may come along.
            if unknown.contains(&id) {
                found.push((id, Kept { state, slot }));
            }
        }
        self.states.extend(found);
        Ok(())
    }

    async fn fold(&mut self, events: &[Event], tx: &mut Tx) -> HandlerResult {
        let statements = self.statements(tx);
        let placed = self.place(events, tx)?;
        self.load(&placed, statements.load, tx).await?;
        let mut touched: HashMap<&RowId, usize> = HashMap::new();
        for Placed { number, row, slot } in &placed {
            tx.for_event(*number);
            let event = &events[*number];
            if !self.states.contains_key(row) {
                let kept = Kept { state: F::State::default(), slot: Some(*slot) };
                self.states.insert(row.clone(), kept);
            }
            let kept = self.states.get_mut(row).expect("it was put there");
            match *kept.slot.get_or_insert(*slot) {
                of if of == *slot => {}
                of => return Err(self.not_its_row(row, of, event, *slot)),
            }
            self.fold.apply(&mut kept.state, event)?;
            touched.insert(row, *number);
        }
        let mut rows = Vec::with_capacity(touched.len());
        for (row, last) in touched {
            tx.for_event(last);
            let Kept { state, slot } = &self.states[row];
            let json = Value::Json(serde_json::to_string(state)?);
            let slot = slot.map(Slot::get);
            let mut values = params![row.key.as_str(), json, events[last].position(), slot];
            values.extend(self.columns.iter().map(|column| (column.value)(state)));
            rows.push(values);
        }
        tx.for_several();
        let expect = Expect::Changes(rows.len() as u64);
        let Statements { table, columns, conflict, .. } = statements;
        let insert = InsertRows { table, columns, conflict, rows };
        tx.push(Statement { expect, ..Statement::rows(insert) }).await
    }

    fn not_its_row(&self, row: &RowId, of: Slot, event: &Event, slot: Slot) -> HandlerError {
        let key = self.partition.key(event).unwrap_or_default();
        HandlerError::new(format!(
            "row `{}` of view `{}` belongs to slot {of}, and this event, with the partition key \
             `{key}`, is of slot {slot}: two lanes would fold one row and lose each other's events; \
             partition the view by what its rows are (Partition::custom), or make it a Rollup, which \
             keeps a part for each slot and adds them up when it is read",
            row.key,
            self.fold.name(),
        ))
    }
}

impl<F: Fold> LaneHandler for FoldLane<F> {
    fn handle<'a>(
        &'a mut self,
        events: &'a [Event],
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.fold(events, tx))
    }

    fn row_of(&self, event: &Event) -> Option<String> {
        self.fold.row(&self.partition, event).ok().flatten()
    }

    fn reset_key<'a>(
        &'a mut self,
        key: &'a RepeatedKey,
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(async move {
            self.states.clear();
            let table = table(tx.dialect(), self.fold.name(), tx.suffix());
            let RepeatedKey { consumer, key, slot, events } = key;
            let delete = format!(
                "DELETE FROM {table} WHERE key IN (SELECT row_key FROM {events} \
                 WHERE consumer = $1 AND key = $2) AND coalesce({SLOT}, $3) = $3"
            );
            tx.execute(delete, params![consumer, key, slot.get()]).await
        })
    }

    fn settled(&mut self, committed: bool) {
        if !committed || self.states.len() > MAX_CACHED {
            self.states.clear();
        }
    }
}
