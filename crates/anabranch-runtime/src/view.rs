//! Views: a fold for each key, and no SQL.

use crate::consumer::{Code, Hooks};
use crate::handler::{HandlerError, LaneHandler, Result};
use crate::settings::Settings;
use crate::tx::Tx;
use anabranch_core::{Event, Partition, Position, StoreError};
use anabranch_store::database::{Dialect, End, Expect, InsertRows, Kind, Statement, Work};
use anabranch_store::{Log, Row, Value, params};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

/// How many states a lane keeps, so that it need not load what it wrote itself.
const MAX_CACHED: usize = 100_000;

/// Folds the events of each key into a state, **exactly once**, and keeps it as a row.
///
/// The table is `view_NAME` in the schema (PostgreSQL) or with the prefix (SQLite) of the log: `key`,
/// `state` as JSON, the `position` of the last event, and a column for each of
/// [`columns`](Self::columns). States are loaded and written set-wise, and the owner of a slot keeps
/// them in memory.
///
/// ```
/// use anabranch_core::{Event, Partition};
/// use anabranch_runtime::{Result, View, ViewColumn};
///
/// #[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
/// struct Order { events: u64, total: i64 }
///
/// struct Orders;
///
/// impl View for Orders {
///     type State = Order;
///     fn name(&self) -> &str { "orders" }
///     fn partition(&self) -> Partition { Partition::entity("Order") }
///     fn apply(&self, order: &mut Order, event: &Event) -> Result<()> {
///         #[derive(serde::Deserialize)]
///         struct Data { total: i64 }
///         order.events += 1;
///         order.total += event.data::<Data>()?.total;
///         Ok(())
///     }
///     fn columns(&self) -> Vec<ViewColumn<Order>> {
///         vec![ViewColumn::int("total", |order: &Order| order.total)]
///     }
/// }
/// ```
pub trait View: Send + Sync + 'static {
    /// What is kept for each key.
    type State: Serialize + DeserializeOwned + Default + Clone + Send + Sync + 'static;

    /// Its name: lower-case letters, digits and `_`.
    fn name(&self) -> &str;

    /// How its events are keyed.
    fn partition(&self) -> Partition;

    /// What else it chooses: scope, retry, batch size, version.
    fn settings(&self) -> Settings {
        Settings::default()
    }

    /// The row that an event belongs to, if not that of its partition key (for an entity: the id of
    /// its stream). All events of a row must have the same partition key.
    fn key(&self, _event: &Event) -> Option<String> {
        None
    }

    /// Folds an event into the state of its key.
    fn apply(&self, state: &mut Self::State, event: &Event) -> Result<()>;

    /// Parts of the state that stand in columns of their own, to be queried and indexed.
    fn columns(&self) -> Vec<ViewColumn<Self::State>> {
        Vec::new()
    }
}

/// A part of the state that stands in a column of its own.
pub struct ViewColumn<S> {
    name: &'static str,
    kind: ColumnKind,
    value: Box<dyn Fn(&S) -> Value + Send + Sync>,
}

#[derive(Clone, Copy)]
enum ColumnKind {
    Int,
    Float,
    Text,
    Bool,
}

macro_rules! columns {
    ($($doc:literal $name:ident $kind:ident $type:ty;)*) => {
        impl<S> ViewColumn<S> {
            $(#[doc = $doc]
            pub fn $name<V: Into<Option<$type>>>(
                name: &'static str,
                value: impl Fn(&S) -> V + Send + Sync + 'static,
            ) -> Self {
                let value = Box::new(move |state: &S| Value::from(value(state).into()));
                Self { name, kind: ColumnKind::$kind, value }
            })*
        }
    };
}

columns! {
    "A whole number." int Int i64;
    "A number with a fraction." float Float f64;
    "Text." text Text String;
    "A truth value." bool Bool bool;
}

impl ColumnKind {
    fn sql(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Self::Int, Kind::Postgres) => "bigint",
            (Self::Float, Kind::Postgres) => "double precision",
            (Self::Text, Kind::Postgres) => "text",
            (Self::Bool, Kind::Postgres) => "boolean",
            (Self::Int | Self::Bool, _) => "INTEGER",
            (Self::Float, _) => "REAL",
            (Self::Text, _) => "TEXT",
        }
    }
}

fn table(dialect: &Dialect, name: &str, suffix: &str) -> String {
    dialect.table(format_args!("view_{name}{suffix}"))
}

/// A view as the runtime runs it.
pub(crate) struct ViewCode<V: View> {
    view: Arc<V>,
    columns: Arc<Vec<ViewColumn<V::State>>>,
}

impl<V: View> ViewCode<V> {
    pub(crate) fn new(view: V) -> Self {
        let columns = Arc::new(view.columns());
        Self { view: Arc::new(view), columns }
    }
}

impl<V: View> Code for ViewCode<V> {
    fn lane(&self) -> Box<dyn LaneHandler> {
        let (view, columns) = (Arc::clone(&self.view), Arc::clone(&self.columns));
        let partition = view.partition();
        Box::new(ViewLane { view, columns, partition, states: HashMap::new(), statements: None })
    }
}

impl<V: View> Hooks for ViewCode<V> {
    fn set_up<'a>(&'a self, tx: &'a mut Tx<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            let names = self.columns.iter().map(|column| column.name);
            for name in names.chain([self.view.name()]) {
                if !name.chars().all(is_plain) || ["key", "state", "position"].contains(&name) {
                    return Err(HandlerError::new(format!(
                        "`{name}` cannot name a view or a column; use a-z, 0-9 and _, and not key, \
                         state or position"
                    )));
                }
            }
            let kind = tx.kind();
            let json = if kind == Kind::Postgres { "jsonb" } else { "TEXT" };
            let columns: String = self
                .columns
                .iter()
                .map(|column| format!(", {} {}", column.name, column.kind.sql(kind)))
                .collect();
            let table = table(tx.dialect(), self.view.name(), tx.suffix());
            // Of a view of this name that was forgotten: the fold begins anew.
            tx.execute(format!("DROP TABLE IF EXISTS {table}"), vec![]).await?;
            let create = format!(
                "CREATE TABLE {table} (key text NOT NULL PRIMARY KEY, \
                 state {json} NOT NULL, position bigint NOT NULL{columns})"
            );
            tx.execute(create, vec![]).await
        })
    }

    fn reset<'a>(&'a self, to: Position, tx: &'a mut Tx<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if to > Position::START {
                return Err(HandlerError::new(
                    "a view is folded from the first event on; replay it from the start",
                ));
            }
            let table = table(tx.dialect(), self.view.name(), tx.suffix());
            tx.execute(format!("DELETE FROM {table}"), vec![]).await
        })
    }
}

struct ViewLane<V: View> {
    view: Arc<V>,
    columns: Arc<Vec<ViewColumn<V::State>>>,
    partition: Partition,
    /// What the rows hold; the lane is the only one that writes them.
    states: HashMap<String, V::State>,
    statements: Option<Statements>,
}

#[derive(Clone)]
struct Statements {
    table: Cow<'static, str>,
    load: Cow<'static, str>,
    columns: Cow<'static, [&'static str]>,
    conflict: Cow<'static, str>,
}

impl<V: View> ViewLane<V> {
    fn key(&self, event: &Event) -> Result<String> {
        if let Some(key) = self.view.key(event) {
            return Ok(key);
        }
        match self.partition.category() {
            Some(_) => Ok(event.stream_id().to_owned()),
            None => Ok(self.partition.key(event)?.into_owned()),
        }
    }

    fn statements(&mut self, tx: &Tx<'_>) -> Statements {
        let (view, columns) = (&self.view, &self.columns);
        let make = || {
            let table = table(tx.dialect(), view.name(), tx.suffix());
            let wanted = match tx.kind() {
                Kind::Postgres => "key = ANY ($1)",
                _ => "key IN (SELECT value FROM json_each($1))",
            };
            let load = format!("SELECT key, state FROM {table} WHERE {wanted}");
            let mut names = vec!["key", "state", "position"];
            names.extend(columns.iter().map(|column| column.name));
            let set = |name: &&str| format!("{name} = excluded.{name}");
            let sets: Vec<String> = names[1..].iter().map(set).collect();
            let conflict = format!("ON CONFLICT (key) DO UPDATE SET {}", sets.join(", "));
            Statements {
                table: table.into(),
                load: load.into(),
                columns: names.into(),
                conflict: conflict.into(),
            }
        };
        self.statements.get_or_insert_with(make).clone()
    }

    async fn fold(&mut self, events: &[Event], tx: &mut Tx<'_>) -> Result<()> {
        let statements = self.statements(tx);
        let mut keys = Vec::with_capacity(events.len());
        for (number, event) in events.iter().enumerate() {
            tx.at(number);
            keys.push(self.key(event)?);
        }
        let missing: HashMap<&str, ()> = keys
            .iter()
            .filter(|key| !self.states.contains_key(*key))
            .map(|key| (key.as_str(), ()))
            .collect();
        if !missing.is_empty() {
            let wanted: Value = missing.keys().map(|key| Value::from(*key)).collect();
            for row in tx.query(statements.load, vec![wanted]).await? {
                let (key, state) = decode(&row)?;
                self.states.insert(key, state);
            }
        }
        let mut touched: HashMap<&str, usize> = HashMap::new();
        for (number, (event, key)) in events.iter().zip(&keys).enumerate() {
            tx.at(number);
            if !self.states.contains_key(key) {
                self.states.insert(key.clone(), V::State::default());
            }
            let state = self.states.get_mut(key).expect("it was put there");
            self.view.apply(state, event)?;
            touched.insert(key, number);
        }
        let mut rows = Vec::with_capacity(touched.len());
        for (key, last) in touched {
            tx.at(last);
            let state = &self.states[key];
            let json = serde_json::to_string(state)?;
            let mut row = params![key, Value::Json(json), events[last].position()];
            row.extend(self.columns.iter().map(|column| (column.value)(state)));
            rows.push(row);
        }
        tx.at_several();
        let Statements { table, columns, conflict, .. } = statements;
        let insert = InsertRows { table, columns, conflict, rows };
        tx.push(Statement { work: Work::Rows(insert), expect: Expect::Nothing }).await
    }
}

impl<V: View> LaneHandler for ViewLane<V> {
    fn handle<'a>(
        &'a mut self,
        events: &'a [Event],
        tx: &'a mut Tx<'_>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.fold(events, tx))
    }

    fn settled(&mut self, committed: bool) {
        if !committed || self.states.len() > MAX_CACHED {
            self.states.clear();
        }
    }
}

fn decode<S: DeserializeOwned>(row: &Row) -> Result<(String, S)> {
    let (key, state): (String, String) = (row.get("key")?, row.get("state")?);
    let state = serde_json::from_str(&state).map_err(|error| {
        HandlerError::new(format!(
            "the stored state of `{key}` is not what this program expects ({error}); raise the \
             version and rebuild the view"
        ))
    })?;
    Ok((key, state))
}

/// Reads a view, typed.
///
/// ```
/// # use anabranch_runtime::{View, ViewReader};
/// # use anabranch_store::{Log, params};
/// # async fn f<V: View>(log: Log, orders: V) -> anabranch_runtime::Result<()> {
/// let reader = ViewReader::new(&log, &orders);
/// let one = reader.get("ord-123").await?;
/// let large = reader.find("total > $1 ORDER BY total DESC LIMIT 10", params![1000]).await?;
/// # Ok(()) }
/// ```
pub struct ViewReader<V: View> {
    log: Log,
    table: String,
    view: PhantomData<V>,
}

impl<V: View> ViewReader<V> {
    /// A reader of a view.
    pub fn new(log: &Log, view: &V) -> Self {
        let table = table(log.store().database().dialect(), view.name(), "");
        Self { log: log.clone(), table, view: PhantomData }
    }

    /// The state of a key, if it has one.
    pub async fn get(&self, key: &str) -> Result<Option<V::State>> {
        let found = self.find("key = $1", params![key]).await?;
        Ok(found.into_iter().next().map(|(_, state)| state))
    }

    /// The keys and states of the rows that match a condition on `key`, `position` and the view's
    /// columns; an order and a limit may follow it.
    pub async fn find(
        &self,
        condition: &str,
        values: Vec<Value>,
    ) -> Result<Vec<(String, V::State)>> {
        let select = format!("SELECT key, state FROM {} WHERE {condition}", self.table);
        let database = self.log.store().database();
        let answers =
            database.begin().run(vec![Statement::query(select, values)], End::Commit).await;
        let answers =
            answers.map_err(|failed| -> StoreError { failed.into_store_error(database.at()) })?;
        answers.iter().flat_map(|answer| &answer.rows).map(decode).collect()
    }
}
