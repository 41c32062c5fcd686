//! The trait of a workflow.

use crate::{ActionGaveUp, ActionRun, EventInfo, Reactions, Schedule};
use anabranch_core::{Event, EventSchema, Retry};
use anabranch_runtime::{HandlerError, HandlerResult, Scope};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;

/// Something that goes on over time: commands come in, events are stored, and what follows from them
/// is done.
///
/// Each instance has an id, and its events are the stream `category:id`. [`decide`](Self::decide),
/// [`evolve`](Self::evolve) and [`react`](Self::react) are pure: no clock, no chance, no I/O, so that
/// they mean the same when they run again. Side effects are [`act`](Self::act)'s.
///
/// ```
/// use anabranch_workflow::{Reactions, Workflow};
/// use serde::{Deserialize, Serialize};
/// use std::time::Duration;
///
/// #[derive(Clone, Default, Serialize, Deserialize)]
/// struct Order { placed: bool, paid: bool }
/// #[derive(Serialize, Deserialize)]
/// enum Command { Place, Pay, TimeOut }
/// #[derive(Serialize, Deserialize)]
/// enum OrderEvent { Placed, Paid, TimedOut }
/// #[derive(Serialize, Deserialize)]
/// enum Action { SendReceipt }
/// #[derive(Debug, thiserror::Error)]
/// #[error("{0}")]
/// struct No(&'static str);
///
/// struct Orders;
///
/// impl Workflow for Orders {
///     type State = Order;
///     type Command = Command;
///     type Event = OrderEvent;
///     type Action = Action;
///     type Rejection = No;
///
///     fn name(&self) -> &str { "orders" }
///     fn category(&self) -> &str { "Order" }
///     fn decide(&self, order: &Order, command: &Command) -> Result<Vec<OrderEvent>, No> {
///         match command {
///             Command::Place if order.placed => Err(No("it is placed already")),
///             Command::Place => Ok(vec![OrderEvent::Placed]),
///             Command::Pay if !order.placed => Err(No("there is no such order")),
///             Command::Pay if order.paid => Ok(vec![]),
///             Command::Pay => Ok(vec![OrderEvent::Paid]),
///             Command::TimeOut if order.paid => Ok(vec![]),
///             Command::TimeOut => Ok(vec![OrderEvent::TimedOut]),
///         }
///     }
///     fn evolve(&self, order: &mut Order, event: &OrderEvent) {
///         match event {
///             OrderEvent::Placed => order.placed = true,
///             OrderEvent::Paid => order.paid = true,
///             OrderEvent::TimedOut => *order = Order::default(),
///         }
///     }
///     fn react(&self, _id: &str, _order: &Order, event: &OrderEvent) -> Reactions<Self> {
///         let day = Duration::from_secs(86_400);
///         match event {
///             OrderEvent::Placed => Reactions::none().timer("payment", day, Command::TimeOut),
///             OrderEvent::Paid => {
///                 Reactions::none().cancel_timer("payment").action(Action::SendReceipt)
///             }
///             OrderEvent::TimedOut => Reactions::none(),
///         }
///     }
/// }
/// ```
pub trait Workflow: Send + Sync + Sized + 'static {
    /// What the events of an instance add up to. It is kept as JSON in snapshots.
    type State: Default + Clone + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What can be asked of it.
    type Command: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What can have happened: a serde enum, see [`EventSchema`]. An event must come back from its
    /// JSON as it was.
    type Event: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Side effects, as data.
    type Action: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Why a command is refused.
    type Rejection: Error + Send + Sync + 'static;

    /// Its name, which names its consumers and pools: lower-case letters, digits, `_` and `-`.
    fn name(&self) -> &str;

    /// The category of its streams.
    fn category(&self) -> &str {
        self.name()
    }

    /// How its events are written and read.
    fn schema(&self) -> EventSchema<Self::Event> {
        EventSchema::new()
    }

    /// What a command leads to: events, none if there is nothing to do, or a rejection.
    fn decide(
        &self,
        state: &Self::State,
        command: &Self::Command,
    ) -> Result<Vec<Self::Event>, Self::Rejection>;

    /// Folds an event into the state. What has happened has happened: it cannot fail.
    fn evolve(&self, state: &mut Self::State, event: &Self::Event);

    /// What an event of the instance `id` carries besides its data: customer, tenant, tags, correlation,
    /// metadata. The state is that right after the event. It is as pure as `decide`, and asked when an event is
    /// stored: what is stored stays as it is.
    ///
    /// ```
    /// # use anabranch_workflow::EventInfo;
    /// # struct Order { customer: Option<String> }
    /// # enum OrderEvent { Placed }
    /// # struct Orders;
    /// # impl Orders {
    /// fn describe(&self, id: &str, order: &Order, _event: &OrderEvent) -> EventInfo {
    ///     EventInfo::none().customer(&order.customer).tag(format!("order:{id}"))
    /// }
    /// # }
    /// ```
    fn describe(&self, _id: &str, _state: &Self::State, _event: &Self::Event) -> EventInfo {
        EventInfo::none()
    }

    /// What is to happen because of an event of the instance `id`. The state is that right after the event,
    /// whatever has happened to the instance since.
    fn react(&self, _id: &str, _state: &Self::State, _event: &Self::Event) -> Reactions<Self> {
        Reactions::none()
    }

    /// Runs a side effect. The commands that it returns are sent to the instance.
    ///
    /// A process may die between the effect and the note of it; then the action runs again, with the
    /// same [key](ActionRun::key), by which the other side can tell.
    fn act(
        &self,
        _action: &Self::Action,
        _run: &mut ActionRun<'_>,
    ) -> impl Future<Output = HandlerResult<Vec<Self::Command>>> + Send {
        let name = self.name();
        let error =
            format!("the workflow `{name}` has actions, but no `act` to run them; write one");
        std::future::ready(Err(HandlerError::new(error)))
    }

    /// The attempts of an action are used up, the last by this error.
    fn gave_up(&self, _action: &Self::Action, _error: &str) -> ActionGaveUp<Self::Command> {
        ActionGaveUp::Park
    }

    /// Events of others that it reacts to, if there are any.
    fn hears(&self) -> Option<Scope> {
        None
    }

    /// The commands that an event of somebody else leads to, each with the id of its instance.
    fn hear(&self, _event: &Event) -> HandlerResult<Vec<(String, Self::Command)>> {
        Ok(Vec::new())
    }

    /// Commands that come again and again.
    fn schedules(&self) -> Vec<Schedule<Self>> {
        Vec::new()
    }

    /// How often an action is tried. Its effects are outside the database, so that is for days by default.
    /// An error of [`act`](Self::act) can say [`for_good`](HandlerError::for_good) or
    /// [`try_after`](HandlerError::try_after).
    fn retry(&self) -> Retry {
        Retry::outside()
    }

    /// How many actions of the workflow run at the same time in all processes together, at the most: what the
    /// services that they call allow. As [`PoolSettings::max_parallelism`](anabranch_workpool::PoolSettings::max_parallelism).
    fn max_parallelism(&self) -> Option<usize> {
        None
    }

    /// How many actions run at the same time in each process, at the most.
    fn in_flight_per_process(&self) -> usize {
        64
    }

    /// After how many events of an instance its state is kept, so that loading it reads few events.
    fn snapshot_every(&self) -> Option<u64> {
        Some(1_000)
    }

    /// The version of `State` and `evolve`. Raise it when either changes: what was kept before is
    /// then left aside, and states are folded anew.
    fn state_version(&self) -> u32 {
        1
    }
}
