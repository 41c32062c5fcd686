//! Views: a fold for each key, and no SQL.

use crate::fold::{self, Fold, Rows};
use crate::handler::HandlerResult;
use crate::settings::Settings;
use anabranch_core::{Event, Partition};
use anabranch_store::database::ColumnType;
use anabranch_store::{Log, Value, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// Folds the events of each key into a state, **exactly once**, and keeps it as a row.
///
/// The table is `view_NAME`, in small letters, in the schema (PostgreSQL) or with the prefix (SQLite) of the log: `key`,
/// `state` as JSON, the `position` of the last event, and a column for each of
/// [`columns`](Self::columns). States are loaded and written set-wise, and the owner of a slot keeps
/// them in memory.
///
/// **A row belongs to one slot.** An event that meets a row of another slot fails by name, since two
/// lanes would fold the same row and lose each other's events. To sum up across keys (orders by day),
/// partition by what the row is ([`Partition::custom`]), or use a [`Rollup`](crate::Rollup).
///
/// ```
/// use anabranch_core::{Event, Partition};
/// use anabranch_runtime::{HandlerResult, View, ViewColumn};
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
///     fn apply(&self, order: &mut Order, event: &Event) -> HandlerResult {
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
    /// its stream). All events of a row must have the same partition key: an event of another slot than
    /// its row's fails.
    fn key(&self, _event: &Event) -> Option<String> {
        None
    }

    /// Folds an event into the state of its key.
    fn apply(&self, state: &mut Self::State, event: &Event) -> HandlerResult;

    /// Parts of the state that stand in columns of their own, to be queried and indexed.
    fn columns(&self) -> Vec<ViewColumn<Self::State>> {
        Vec::new()
    }
}

/// A part of the state that stands in a column of its own.
pub struct ViewColumn<S> {
    pub(crate) name: &'static str,
    pub(crate) kind: ColumnType,
    pub(crate) value: Box<dyn Fn(&S) -> Value + Send + Sync>,
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
                Self { name, kind: ColumnType::$kind, value }
            })*
        }
    };
}

columns! {
    "A whole number." int Integer i64;
    "A number with a fraction." float Float f64;
    "Text." text Text String;
    "A truth value." bool Boolean bool;
}

/// A view as the runtime folds it.
pub(crate) struct ViewFold<V>(pub(crate) V);

impl<V: View> Fold for ViewFold<V> {
    type State = V::State;
    const ROWS: Rows = Rows::OfOneSlot;

    fn name(&self) -> &str {
        self.0.name()
    }

    fn partition(&self) -> Partition {
        self.0.partition()
    }

    fn row(&self, partition: &Partition, event: &Event) -> HandlerResult<Option<String>> {
        if let Some(key) = self.0.key(event) {
            return Ok(Some(key));
        }
        match partition.category() {
            Some(_) => Ok(Some(event.stream_id().to_owned())),
            None => Ok(Some(partition.key(event)?.into_owned())),
        }
    }

    fn apply(&self, state: &mut V::State, event: &Event) -> HandlerResult {
        self.0.apply(state, event)
    }

    fn columns(&self) -> Vec<ViewColumn<V::State>> {
        self.0.columns()
    }
}

/// Reads a view, typed.
///
/// ```
/// # use anabranch_runtime::{View, ViewReader};
/// # use anabranch_store::{Log, params};
/// # async fn f<V: View>(log: Log, orders: V) -> anabranch_runtime::HandlerResult<()> {
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
        let table = fold::table(log.database().dialect(), view.name(), "");
        Self { log: log.clone(), table, view: PhantomData }
    }

    /// The state of a key, if it has one.
    pub async fn get(&self, key: &str) -> HandlerResult<Option<V::State>> {
        let found = self.find("key = $1", params![key]).await?;
        Ok(found.into_iter().next().map(|(_, state)| state))
    }

    /// The keys and states of the rows that match a condition on `key`, `position` and the view's
    /// columns; an order and a limit may follow it.
    pub async fn find(
        &self,
        condition: &str,
        values: Vec<Value>,
    ) -> HandlerResult<Vec<(String, V::State)>> {
        let rows = fold::select(&self.log, &self.table, condition, values).await?;
        rows.iter().map(fold::decode).collect()
    }
}
