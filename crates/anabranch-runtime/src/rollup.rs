//! Rollups: sums across keys, as parts for each slot that are added up when they are read.

use crate::fold::{self, Fold, Rows};
use crate::handler::HandlerResult;
use crate::settings::Settings;
use crate::view::ViewColumn;
use anabranch_core::{Event, Partition};
use anabranch_store::{Log, Value, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Sums up events of many keys in one row, such as the turnover of a day, **exactly once** and on any
/// number of lanes and workers.
///
/// A [`View`](crate::View) whose row takes events of many keys would be written by several lanes at
/// once. A rollup keeps a row for each slot instead, which only the owner of that slot writes, and
/// [`RollupReader`] adds the parts up. So [`merge`](Self::merge) must not depend on order: sums, counts,
/// minima, maxima and sets of what was seen will do; "the last value" will not.
///
/// The table is `view_NAME`, as a view's; in SQL, add up what you have made
/// [columns](Self::columns): `SELECT key, sum(total) FROM view_turnover GROUP BY key`.
///
/// ```
/// use anabranch_core::Event;
/// use anabranch_runtime::{HandlerResult, Rollup};
///
/// #[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
/// struct Day { orders: u64, total: i64 }
///
/// struct Turnover;
///
/// impl Rollup for Turnover {
///     type State = Day;
///     fn name(&self) -> &str { "turnover" }
///     fn group(&self, event: &Event) -> HandlerResult<Option<String>> {
///         #[derive(serde::Deserialize)]
///         struct Data { day: String }
///         Ok(Some(event.data::<Data>()?.day))
///     }
///     fn apply(&self, day: &mut Day, event: &Event) -> HandlerResult {
///         #[derive(serde::Deserialize)]
///         struct Data { total: i64 }
///         day.orders += 1;
///         day.total += event.data::<Data>()?.total;
///         Ok(())
///     }
///     fn merge(&self, sum: &mut Day, part: &Day) {
///         sum.orders += part.orders;
///         sum.total += part.total;
///     }
/// }
/// ```
pub trait Rollup: Send + Sync + 'static {
    /// What is kept for each group.
    type State: Serialize + DeserializeOwned + Default + Clone + Send + Sync + 'static;

    /// Its name: lower-case letters, digits and `_`.
    fn name(&self) -> &str;

    /// How its events are spread over lanes. Any key will do; by stream unless you say otherwise.
    fn partition(&self) -> Partition {
        Partition::entities()
    }

    /// What else it chooses: scope, retry, batch size, version.
    fn settings(&self) -> Settings {
        Settings::default()
    }

    /// The group that an event counts in; in none if it does not count.
    fn group(&self, event: &Event) -> HandlerResult<Option<String>>;

    /// Adds an event to a part of its group.
    fn apply(&self, part: &mut Self::State, event: &Event) -> HandlerResult;

    /// Adds a part to a sum. The order of parts must make no difference.
    fn merge(&self, sum: &mut Self::State, part: &Self::State);

    /// Pieces of a part that stand in columns of their own, to be added up in SQL.
    fn columns(&self) -> Vec<ViewColumn<Self::State>> {
        Vec::new()
    }
}

/// A rollup as the runtime folds it.
pub(crate) struct RollupFold<R>(pub(crate) R);

impl<R: Rollup> Fold for RollupFold<R> {
    type State = R::State;
    const ROWS: Rows = Rows::ForEachSlot;

    fn name(&self) -> &str {
        self.0.name()
    }

    fn partition(&self) -> Partition {
        self.0.partition()
    }

    fn row(&self, partition: &Partition, event: &Event) -> HandlerResult<Option<String>> {
        // Without a key it has no slot of its own: that is its failure, as everywhere.
        partition.key(event)?;
        self.0.group(event)
    }

    fn apply(&self, part: &mut R::State, event: &Event) -> HandlerResult {
        self.0.apply(part, event)
    }

    fn columns(&self) -> Vec<ViewColumn<R::State>> {
        self.0.columns()
    }
}

/// Reads a rollup: the parts of each group, added up.
///
/// ```
/// # use anabranch_runtime::{Rollup, RollupReader};
/// # async fn f<R: Rollup>(log: anabranch_store::Log, turnover: R) -> anabranch_runtime::HandlerResult<()> {
/// let reader = RollupReader::new(&log, &turnover);
/// let day = reader.get("2026-11-15").await?;
/// let november = reader.range("2026-11-01", "2026-12-01").await?;
/// # Ok(()) }
/// ```
pub struct RollupReader<'r, R: Rollup> {
    log: Log,
    table: String,
    rollup: &'r R,
}

impl<'r, R: Rollup> RollupReader<'r, R> {
    /// A reader of a rollup.
    pub fn new(log: &Log, rollup: &'r R) -> Self {
        let table = fold::table(log.database().dialect(), rollup.name(), "");
        Self { log: log.clone(), table, rollup }
    }

    /// The sum of a group, if it has events.
    pub async fn get(&self, group: &str) -> HandlerResult<Option<R::State>> {
        Ok(self.sums("key = $1", params![group]).await?.into_values().next())
    }

    /// The groups from one on up to another, which is left out, and their sums.
    pub async fn range(&self, from: &str, to: &str) -> HandlerResult<BTreeMap<String, R::State>> {
        self.sums("key >= $1 AND key < $2", params![from, to]).await
    }

    /// All groups and their sums.
    pub async fn all(&self) -> HandlerResult<BTreeMap<String, R::State>> {
        self.sums("1 = 1", vec![]).await
    }

    async fn sums(
        &self,
        condition: &str,
        values: Vec<Value>,
    ) -> HandlerResult<BTreeMap<String, R::State>> {
        let mut sums: BTreeMap<String, R::State> = BTreeMap::new();
        for row in fold::select(&self.log, &self.table, condition, values).await? {
            let (group, part) = fold::decode::<R::State>(&row)?;
            self.rollup.merge(sums.entry(group).or_default(), &part);
        }
        Ok(sums)
    }
}
