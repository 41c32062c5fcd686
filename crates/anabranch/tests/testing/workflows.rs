//! Workflows on the kit: timers and schedules by its clock.

use anabranch::testing::TestKit;
use anabranch::workflow::{Reactions, Schedule, Workflow, Workflows};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

struct Orders;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Order {
    is_open: bool,
    reminders: u32,
}

#[derive(Serialize, Deserialize)]
enum Command {
    Place,
    TimeOut,
    Remind,
}

#[derive(Serialize, Deserialize)]
enum Happened {
    Placed,
    TimedOut,
    Reminded,
}

#[derive(Debug, thiserror::Error)]
#[error("no")]
struct No;

impl Workflow for Orders {
    type State = Order;
    type Command = Command;
    type Event = Happened;
    type Action = ();
    type Rejection = No;

    fn name(&self) -> &str {
        "orders"
    }

    fn decide(&self, _: &Order, command: &Command) -> Result<Vec<Happened>, No> {
        Ok(vec![match command {
            Command::Place => Happened::Placed,
            Command::TimeOut => Happened::TimedOut,
            Command::Remind => Happened::Reminded,
        }])
    }

    fn evolve(&self, order: &mut Order, event: &Happened) {
        match event {
            Happened::Placed => order.is_open = true,
            Happened::TimedOut => order.is_open = false,
            Happened::Reminded => order.reminders += 1,
        }
    }

    fn react(&self, _id: &str, _order: &Order, event: &Happened) -> Reactions<Self> {
        match event {
            Happened::Placed => Reactions::none().timer("payment", HOUR, Command::TimeOut),
            _ => Reactions::none(),
        }
    }

    fn schedules(&self) -> Vec<Schedule<Self>> {
        vec![Schedule::new(
            "daily",
            anabranch::cron::Cron::parse("0 9 * * *", "UTC").unwrap(),
            "all",
            Command::Remind,
        )]
    }
}

#[tokio::test]
async fn timers_and_schedules_come_when_the_clock_has_moved() {
    let mut kit = TestKit::starting_at("2026-03-01T08:30:00Z".parse().unwrap()).await.unwrap();
    let orders = Workflows::new(kit.log(), Orders);
    orders.send("1", Command::Place).await.unwrap();
    let is_open = async || orders.state("1").await.unwrap().unwrap().state.is_open;
    let reminders =
        async || orders.state("all").await.unwrap().map_or(0, |all| all.state.reminders);

    kit.run(&orders).await.unwrap();
    assert_eq!((is_open().await, reminders().await), (true, 0));
    kit.advance(HOUR / 2).unwrap();
    kit.run(&orders).await.unwrap();
    assert_eq!((is_open().await, reminders().await), (true, 1), "it is nine");
    kit.advance(HOUR / 2).unwrap();
    kit.run(&orders).await.unwrap();
    assert_eq!((is_open().await, reminders().await), (false, 1), "an hour has passed");
    for day in 2..=4 {
        kit.advance(24 * HOUR).unwrap();
        kit.run(&orders).await.unwrap();
        assert_eq!(reminders().await, day);
    }
}

/// What a command has appended is reacted to in the same run.
#[tokio::test]
async fn a_run_ends_when_nothing_follows_any_more() {
    let mut kit = TestKit::new().await.unwrap();
    let orders = Workflows::new(kit.log(), Orders);
    orders.send("1", Command::Place).await.unwrap();
    kit.run(&orders).await.unwrap();
    kit.advance(HOUR).unwrap();
    kit.crash_after(1);
    assert!(kit.try_run(&orders).await.unwrap().crashed());
    kit.run(&orders).await.unwrap();
    let state = orders.state("1").await.unwrap().unwrap();
    assert_eq!((state.version, state.state.is_open), (2, false), "it timed out once");
}
