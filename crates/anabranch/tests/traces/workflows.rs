//! A workflow: a command, what follows from its events, actions and timers are one trace; a schedule begins one each time.

use crate::support::{Db, query, start, until};
use crate::traced::{Traced, request};
use crate::traced_on_both;
use anabranch::cron::Cron;
use anabranch::prelude::*;
use anabranch::workflow::{ActionRun, Reactions, Schedule, Workflow, WorkflowSet, Workflows};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::time::Duration;

traced_on_both!(a_workflow_is_one_trace, each_time_of_a_schedule_is_a_trace);

/// An order that is paid by an action, and closed by a timer.
struct Orders {
    has_schedule: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Command {
    Place,
    Pay,
    Close,
    Tick,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Happened {
    Placed,
    Paid,
    Closed,
    Ticked,
}

impl Workflow for Orders {
    type State = ();
    type Command = Command;
    type Event = Happened;
    type Action = String;
    type Rejection = Infallible;

    fn name(&self) -> &str {
        "orders"
    }

    fn decide(&self, (): &(), command: &Command) -> Result<Vec<Happened>, Infallible> {
        Ok(match command {
            Command::Place => vec![Happened::Placed],
            Command::Pay => vec![Happened::Paid],
            Command::Close => vec![Happened::Closed],
            Command::Tick => vec![Happened::Ticked],
        })
    }

    fn evolve(&self, (): &mut (), _: &Happened) {}

    fn react(&self, _: &str, (): &(), event: &Happened) -> Reactions<Self> {
        match event {
            Happened::Placed => Reactions::none().action("pay".to_owned()),
            Happened::Paid => {
                Reactions::none().timer("close", Duration::from_millis(50), Command::Close)
            }
            Happened::Closed | Happened::Ticked => Reactions::none(),
        }
    }

    async fn act(&self, _: &String, _: &mut ActionRun<'_>) -> HandlerResult<Vec<Command>> {
        drop(tracing::info_span!("called the bank"));
        Ok(vec![Command::Pay])
    }

    fn schedules(&self) -> Vec<Schedule<Self>> {
        let yearly = Cron::parse("0 5 1 1 *", "Europe/Berlin").unwrap();
        let tick = || Schedule::new("tick", yearly, "all", Command::Tick);
        self.has_schedule.then(tick).into_iter().collect()
    }
}

/// The types of the events of an instance.
async fn happened(log: &Log, id: &str) -> Vec<Event> {
    let stream = StreamId::new("orders", id).unwrap();
    log.read_stream(&stream).collect().await.unwrap()
}

async fn a_workflow_is_one_trace(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    let orders = Workflows::new(&log, Orders { has_schedule: false });
    let set = ReplicaSet::new("main").workflow(&orders);
    let running = start(&log, set);
    request("place", orders.send("o-1", Command::Place)).await.unwrap();
    until("the timer", async || {
        let closed = |event: &Event| event.event_type() == "Closed";
        happened(&log, "o-1").await.iter().any(closed).then_some(())
    })
    .await;
    running.stop().await;
    let events = happened(&log, "o-1").await;
    assert_eq!(events.len(), 3);
    traced.sent().until("all of the trace", |spans| {
        let place = spans.one("place")?;
        let first = spans.below(place, "append");
        let react = spans.below(first.first()?, "handle orders.react");
        let act = spans.below(react.first()?, "task orders.actions");
        assert_eq!(spans.one("called the bank")?.parent, act.first()?.id);
        // The action asks for a command, whose event sets a timer, which is a command again.
        let commands = spans.named("task orders.commands");
        assert_eq!(commands[0].parent, act.first()?.id);
        assert_eq!(commands.len(), 2);
        assert!(spans.0.iter().all(|span| span.trace == place.trace), "{:#?}", spans.0);
        for event in &events {
            let trace = event.trace().unwrap().to_string();
            assert!(trace.contains(&place.trace), "{trace}");
        }
        (spans.named("append").len() == 3).then_some(())
    });
}

async fn each_time_of_a_schedule_is_a_trace(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    let orders = Workflows::new(&log, Orders { has_schedule: true });
    let set = || ReplicaSet::new("main").workflow(&orders);
    let tasks = log.database().dialect().table("tasks");
    let waits = "WHERE pool = 'orders.commands' AND state = 1";
    for time in 1..=3 {
        let running = request("began", async { start(&log, set()) }).await;
        let ticks = async || (happened(&log, "all").await.len() == time - 1).then_some(());
        until("the time before", ticks).await;
        let waiting = format!("SELECT id FROM {tasks} {waits} AND due_us > 1");
        until("the next time", async || query(&log, &waiting, vec![]).await.pop()).await;
        running.stop().await;
        // It comes while nobody runs.
        query(&log, &format!("UPDATE {tasks} SET due_us = 1 {waits}"), vec![]).await;
    }
    let running = start(&log, set());
    until("the last time", async || (happened(&log, "all").await.len() == 3).then_some(())).await;
    running.stop().await;
    let events = happened(&log, "all").await;
    let mut traces: Vec<_> = events.iter().map(|event| event.trace().unwrap().trace_id()).collect();
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), 3, "a trace for each time");
    traced.sent().until("the tasks", |spans| {
        let times = spans.named("task orders.commands");
        assert!(times.iter().all(|time| time.parent.is_empty()), "{times:#?}");
        (times.len() == 3).then_some(())
    });
}
