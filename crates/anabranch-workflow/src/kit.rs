//! A test kit: given, when, then, without a database and with a clock to advance.

mod expect;
mod run;

use crate::{Reactions, Workflow};
use anabranch_core::NewEvent;
use jiff::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// One instance of a workflow, in memory.
///
/// Commands that follow from events run to their end by themselves, timers and schedules when the
/// clock is [advanced](Self::advance); actions wait until the test says what comes of them. What was
/// expected is checked against what happened since the last `when`, `advance` or act, and a failure
/// shows both. Events, commands and actions are compared as JSON, so they need no `PartialEq`.
///
/// ```
/// # use anabranch_workflow::{Kit, Reactions, Workflow};
/// # use serde::{Deserialize, Serialize};
/// # use std::time::Duration;
/// # #[derive(Clone, Default, Serialize, Deserialize)]
/// # struct Order { placed: bool, paid: bool }
/// # #[derive(Serialize, Deserialize)]
/// # enum Command { Place, Pay, TimeOut, ReceiptSent }
/// # #[derive(Serialize, Deserialize)]
/// # enum Event { Placed, Paid, TimedOut, ReceiptSent }
/// # #[derive(Serialize, Deserialize)]
/// # enum Action { SendReceipt }
/// # #[derive(Debug, thiserror::Error)]
/// # #[error("{0}")]
/// # struct No(&'static str);
/// # struct Orders;
/// # impl Workflow for Orders {
/// #     type State = Order;
/// #     type Command = Command;
/// #     type Event = Event;
/// #     type Action = Action;
/// #     type Rejection = No;
/// #     fn name(&self) -> &str { "orders" }
/// #     fn decide(&self, order: &Order, command: &Command) -> Result<Vec<Event>, No> {
/// #         match command {
/// #             Command::Place if order.placed => Err(No("it is placed already")),
/// #             Command::Place => Ok(vec![Event::Placed]),
/// #             Command::Pay => Ok(vec![Event::Paid]),
/// #             Command::TimeOut => Ok(vec![Event::TimedOut]),
/// #             Command::ReceiptSent => Ok(vec![Event::ReceiptSent]),
/// #         }
/// #     }
/// #     fn evolve(&self, order: &mut Order, event: &Event) {
/// #         match event {
/// #             Event::Placed => order.placed = true,
/// #             Event::Paid => order.paid = true,
/// #             Event::TimedOut => *order = Order::default(),
/// #             Event::ReceiptSent => {}
/// #         }
/// #     }
/// #     fn react(&self, _id: &str, _order: &Order, event: &Event) -> Reactions<Self> {
/// #         let day = Duration::from_secs(86_400);
/// #         match event {
/// #             Event::Placed => Reactions::none().timer("payment", day, Command::TimeOut),
/// #             Event::Paid => Reactions::none().cancel_timer("payment").action(Action::SendReceipt),
/// #             _ => Reactions::none(),
/// #         }
/// #     }
/// # }
/// let day = Duration::from_secs(86_400);
///
/// Kit::new(Orders)
///     .when(Command::Place)
///     .then([Event::Placed])
///     .when(Command::Place)
///     .then_rejected_with("it is placed already")
///     .advance(day)
///     .then([Event::TimedOut])
///     .then_state(|order| assert!(!order.placed));
///
/// Kit::new(Orders)
///     .given([Event::Placed])
///     .when(Command::Pay)
///     .then([Event::Paid])
///     .then_actions([Action::SendReceipt])
///     .act_next([Command::ReceiptSent])
///     .then([Event::ReceiptSent])
///     .advance(2 * day)
///     .then([]);
/// ```
pub struct Kit<W: Workflow> {
    workflow: W,
    id: String,
    state: W::State,
    clock: Timestamp,
    timers: Vec<Timer<W::Command>>,
    actions: VecDeque<W::Action>,
    /// Why the first action waits for somebody to look at it.
    parked: Option<String>,
    /// What has happened since the test did something.
    step: Step<W>,
}

struct Timer<C> {
    name: String,
    due: Timestamp,
    /// The number of the schedule that comes again, for one that is no timer.
    schedule: Option<usize>,
    command: C,
}

/// What came of one thing that the test did.
struct Step<W: Workflow> {
    events: Vec<W::Event>,
    rejections: Vec<W::Rejection>,
    /// Whether the test has said that it expects them.
    expects_rejection: bool,
    told: Vec<Told>,
}

/// A command for somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    workflow: String,
    id: String,
    command: String,
}

impl<W: Workflow> Default for Step<W> {
    fn default() -> Self {
        let (events, rejections, told) = (Vec::new(), Vec::new(), Vec::new());
        Self { events, rejections, expects_rejection: false, told }
    }
}

impl<W: Workflow> Kit<W> {
    /// An instance without events. The clock stands at 2026-01-01 00:00 UTC.
    pub fn new(workflow: W) -> Self {
        let clock = Timestamp::from_second(1_767_225_600).unwrap_or_default();
        let mut kit = Self {
            workflow,
            id: "kit".to_owned(),
            state: W::State::default(),
            clock,
            timers: Vec::new(),
            actions: VecDeque::new(),
            parked: None,
            step: Step::default(),
        };
        kit.start_schedules();
        kit
    }

    /// The same with another time on the clock. Say it first.
    pub fn at(mut self, time: Timestamp) -> Self {
        self.clock = time;
        self.start_schedules();
        self
    }

    /// The same with another id, which is `kit` unless said otherwise. Say it first.
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self.start_schedules();
        self
    }

    /// Events of the past. Their timers run from now; their commands and actions are done.
    pub fn given(mut self, events: impl IntoIterator<Item = W::Event>) -> Self {
        for event in events {
            self.workflow.evolve(&mut self.state, &event);
            let reactions = self.workflow.react(&self.id, &self.state, &event);
            self.set_timers(reactions);
        }
        self
    }

    /// A command. What follows from its events runs to the end, except actions.
    #[track_caller]
    pub fn when(mut self, command: W::Command) -> Self {
        self.step = Step::default();
        self.run([command]);
        self
    }

    /// An event of somebody else on a stream such as `Order:7`, which the workflow
    /// [hears](Workflow::hear). Whether it asks for such events is not looked at.
    #[track_caller]
    pub fn hears(mut self, stream: &str, event: &NewEvent) -> Self {
        self.step = Step::default();
        let event = run::recorded(stream, event, self.clock);
        let commands = match self.workflow.hear(&event) {
            Ok(commands) => commands,
            Err(error) => panic!("the workflow could not hear {event:?}: {error}"),
        };
        for (id, command) in commands {
            if id == self.id {
                self.run([command]);
            } else {
                let workflow = self.workflow.name().to_owned();
                self.step.told.push(Told { workflow, id, command: run::json(&command) });
            }
        }
        self
    }

    /// Lets time pass. Timers and schedules that come due fire in order, each at its time.
    #[track_caller]
    pub fn advance(mut self, time: Duration) -> Self {
        self.step = Step::default();
        let end = self.clock.checked_add(time).unwrap_or(Timestamp::MAX);
        self.pass_until(end);
        self
    }

    /// The first action that waits succeeds, with these commands.
    #[track_caller]
    pub fn act_next(mut self, commands: impl IntoIterator<Item = W::Command>) -> Self {
        self.step = Step::default();
        assert!(self.parked.is_none(), "the next action is parked: {:?}", self.parked);
        assert!(self.actions.pop_front().is_some(), "no action waits");
        self.run(commands);
        self
    }

    /// Runs the actions that wait, and those that follow from them, until none is left. An error
    /// stands for one whose attempts are used up: [`Workflow::gave_up`] says what comes then.
    #[track_caller]
    pub fn acts(
        mut self,
        act: impl FnMut(&W::Action) -> anabranch_runtime::HandlerResult<Vec<W::Command>>,
    ) -> Self {
        self.step = Step::default();
        self.run_actions(act);
        self
    }

    /// The time on the clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock
    }

    /// Reactions of the past: only their timers count.
    fn set_timers(&mut self, reactions: Reactions<W>) {
        for reaction in reactions {
            self.set_timer(reaction);
        }
    }
}

#[cfg(test)]
mod tests;
