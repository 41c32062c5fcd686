//! Projections: effects and cursor in one transaction, exactly once.

use crate::consumer::{Code, Hooks};
use crate::handler::{HandlerError, HandlerResult, LaneHandler, RepeatedKey};
use crate::permits::Permits;
use crate::settings::Settings;
use crate::tx::Tx;
use anabranch_core::{Event, HashRule, Partition, Position};
use anabranch_store::trace::{self, Work};
use futures_util::future::BoxFuture;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one transaction takes events from a handler that is slow: then it commits, so that
/// others see the effects, and a shutdown does not wait for a thousand slow events.
const MAX_HANDLING: Duration = Duration::from_millis(500);

/// Keeps tables up to date with events, **exactly once**: what it writes commits in the same
/// transaction as the cursor that says how far it is.
///
/// The condition: it writes through its [`Tx`], that is to the database that holds the log. For
/// effects elsewhere there is [`Subscriber`](crate::Subscriber).
///
/// ```
/// use anabranch_core::{Event, Partition};
/// use anabranch_runtime::{Projection, HandlerResult, Tx};
/// use anabranch_store::params;
///
/// struct OrderSummary;
///
/// impl Projection for OrderSummary {
///     fn name(&self) -> &str {
///         "order_summary"
///     }
///
///     fn partition(&self) -> Partition {
///         Partition::entity("Order")
///     }
///
///     async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
///         tx.execute(
///             "INSERT INTO order_summary (id, events) VALUES ($1, 1) \
///              ON CONFLICT (id) DO UPDATE SET events = order_summary.events + 1",
///             params![event.stream_id()],
///         )
///         .await
///     }
///
///     async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
///         let table = "CREATE TABLE IF NOT EXISTS order_summary \
///                      (id TEXT PRIMARY KEY, events BIGINT NOT NULL)";
///         tx.execute(table, vec![]).await
///     }
/// }
/// ```
pub trait Projection: Send + Sync + 'static {
    /// Its name: lower-case letters, digits, `_`, `-` and `.`. Its cursors are kept under it.
    fn name(&self) -> &str;

    /// How its events are keyed: events of one key are handled in order, one at a time.
    fn partition(&self) -> Partition;

    /// What else it chooses: scope, retry, batch size, version.
    fn settings(&self) -> Settings {
        Settings::default()
    }

    /// The tables that it writes, as [`Tx::table`] takes their names. Only
    /// [`check_rows`](crate::ReplicaSet::check_rows) needs to know.
    fn tables(&self) -> &[&'static str] {
        &[]
    }

    /// Handles one event. An error rolls back what it wrote, and is handled as the retry policy
    /// says; the events before it are not affected.
    fn handle(&self, event: &Event, tx: &mut Tx) -> impl Future<Output = HandlerResult> + Send;

    /// Handles a batch, in order. Override it to sum up events and write set-wise; without it each
    /// event goes to [`handle`](Self::handle).
    fn handle_batch(
        &self,
        events: &[Event],
        tx: &mut Tx,
    ) -> impl Future<Output = HandlerResult> + Send {
        async move {
            let started = Instant::now();
            for (number, event) in events.iter().enumerate() {
                tx.for_event(number);
                let traced = Work::one_of(events, event);
                trace::attempt(traced.as_ref(), self.handle(event, tx)).await?;
                if started.elapsed() > MAX_HANDLING || tx.is_full() {
                    tx.cut(number + 1);
                    break;
                }
            }
            Ok(())
        }
    }

    /// Makes what it needs, such as its tables, the first time that it runs: in the transaction that
    /// registers it.
    fn set_up(&self, _tx: &mut Tx) -> impl Future<Output = HandlerResult> + Send {
        std::future::ready(Ok(()))
    }

    /// Undoes its effects of the events after a position, in the transaction that puts its cursors
    /// back there. A replay from the start usually empties its tables. A projection that has no tables, and only
    /// [appends](Tx::append), has an empty one, since what it appended is found again. Without a hook a replay is
    /// refused.
    fn reset(&self, _to: Position, _tx: &mut Tx) -> impl Future<Output = HandlerResult> + Send {
        std::future::ready(Err(HandlerError::new(
            "it has no `reset` hook, so a replay would count its events twice; write one that \
             empties its tables, or an empty one (`Ok(())`) if it has none and only appends: what it \
             appended is found again",
        )))
    }

    /// Whether it has a [`reset_key`](Self::reset_key) hook. Without one a replay of one key is refused.
    fn resets_keys(&self) -> bool {
        false
    }

    /// Undoes its effects of all events of one key, in the transaction after which they come again: see
    /// [`Consumers::replay_key`](crate::Consumers::replay_key). The key is what [`Partition::key`] answers for them, such
    /// as `Order:ord-123`. What other keys have made must stay.
    ///
    /// ```
    /// # use anabranch_core::{Event, Partition};
    /// # use anabranch_runtime::{Projection, HandlerResult, Tx};
    /// # use anabranch_store::params;
    /// # struct OrderSummary;
    /// # impl Projection for OrderSummary {
    /// # fn name(&self) -> &str { "order_summary" }
    /// # fn partition(&self) -> Partition { Partition::entity("Order") }
    /// # async fn handle(&self, _: &Event, _: &mut Tx) -> HandlerResult { Ok(()) }
    /// fn resets_keys(&self) -> bool {
    ///     true
    /// }
    ///
    /// async fn reset_key(&self, key: &str, tx: &mut Tx) -> HandlerResult {
    ///     let id = key.trim_start_matches("Order:");
    ///     tx.execute("DELETE FROM order_summary WHERE id = $1", params![id]).await
    /// }
    /// # }
    /// ```
    fn reset_key(&self, _key: &str, _tx: &mut Tx) -> impl Future<Output = HandlerResult> + Send {
        std::future::ready(Err(HandlerError::new(
            "it says that it can undo what it made of one key, and has no `reset_key` hook; write one, or \
             replay all of it",
        )))
    }
}

/// A projection as the runtime runs it.
pub(crate) struct ProjectionCode<P>(pub(crate) Arc<P>);

impl<P: Projection> Code for ProjectionCode<P> {
    fn lane(&self, _: HashRule, _: Permits) -> Box<dyn LaneHandler> {
        Box::new(ProjectionLane(Arc::clone(&self.0)))
    }
}

impl<P: Projection> Hooks for ProjectionCode<P> {
    fn set_up<'a>(&'a self, tx: &'a mut Tx) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.0.set_up(tx))
    }

    fn reset<'a>(&'a self, to: Position, tx: &'a mut Tx) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.0.reset(to, tx))
    }

    fn resets_keys(&self) -> bool {
        self.0.resets_keys()
    }

    fn tables(&self) -> &[&'static str] {
        self.0.tables()
    }
}

struct ProjectionLane<P>(Arc<P>);

impl<P: Projection> LaneHandler for ProjectionLane<P> {
    fn handle<'a>(
        &'a mut self,
        events: &'a [Event],
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.0.handle_batch(events, tx))
    }

    fn reset_key<'a>(
        &'a mut self,
        key: &'a RepeatedKey,
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.0.reset_key(&key.key, tx))
    }
}
