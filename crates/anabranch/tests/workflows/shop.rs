//! A workflow with everything: actions, timers, a schedule, commands to others.

use anabranch::Retry;
use anabranch::prelude::*;
use anabranch::workflow::ActionGaveUp;
use anabranch::workflow::{ActionRun, Reactions, Schedule, Workflow};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub log: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    Place {
        pay_within_ms: u64,
    },
    Pay,
    Note(String),
    /// Sent by the schedule.
    Tick,
    /// Starts an action by name.
    Do(String),
    /// Sets a timer.
    Remind {
        name: String,
        ms: u64,
    },
    Forget {
        name: String,
    },
    /// Tells another order.
    Tell {
        id: String,
        note: String,
    },
    Refuse,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happened {
    Placed { pay_within_ms: u64 },
    Paid,
    Noted(String),
    Ticked,
    Started(String),
    Reminding { name: String, ms: u64 },
    Forgot { name: String },
    Told { id: String, note: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action(pub String);

#[derive(Debug)]
pub struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

/// Decides what an action does.
pub type Act = Arc<dyn Fn(&str, &str, u32) -> HandlerResult<Vec<Command>> + Send + Sync>;

#[derive(Clone)]
pub struct Shop {
    pub name: String,
    pub act: Act,
    /// Every call of an action: instance, action, key.
    pub calls: Arc<Mutex<Vec<(String, String, String)>>>,
    pub hears: bool,
    pub cron: Option<&'static str>,
    /// How many actions at the same time.
    pub in_flight: usize,
}

impl Shop {
    pub fn new(name: &str) -> Self {
        let note = |_: &str, action: &str, _| Ok(vec![Command::Note(format!("did {action}"))]);
        let (act, calls): (Act, _) = (Arc::new(note), Arc::default());
        Self { name: name.to_owned(), act, calls, hears: false, cron: None, in_flight: 64 }
    }

    pub fn act(
        mut self,
        act: impl Fn(&str, &str, u32) -> HandlerResult<Vec<Command>> + Send + Sync + 'static,
    ) -> Self {
        self.act = Arc::new(act);
        self
    }
}

impl Workflow for Shop {
    type State = Order;
    type Command = Command;
    type Event = Happened;
    type Action = Action;
    type Rejection = Refused;

    fn name(&self) -> &str {
        &self.name
    }

    fn decide(&self, _: &Order, command: &Command) -> Result<Vec<Happened>, Refused> {
        Ok(vec![match command.clone() {
            Command::Place { pay_within_ms } => Happened::Placed { pay_within_ms },
            Command::Pay => Happened::Paid,
            Command::Note(note) => Happened::Noted(note),
            Command::Tick => Happened::Ticked,
            Command::Do(action) => Happened::Started(action),
            Command::Remind { name, ms } => Happened::Reminding { name, ms },
            Command::Forget { name } => Happened::Forgot { name },
            Command::Tell { id, note } => Happened::Told { id, note },
            Command::Refuse => return Err(Refused),
        }])
    }

    fn evolve(&self, order: &mut Order, event: &Happened) {
        order.log.push(match event {
            Happened::Placed { .. } => "placed".to_owned(),
            Happened::Paid => "paid".to_owned(),
            Happened::Noted(note) => note.clone(),
            Happened::Ticked => "ticked".to_owned(),
            Happened::Started(_) | Happened::Reminding { .. } => return,
            Happened::Forgot { .. } | Happened::Told { .. } => return,
        });
    }

    fn react(&self, id: &str, _: &Order, event: &Happened) -> Reactions<Self> {
        let none = Reactions::none();
        let note = |text: String| Command::Note(text);
        let ms = Duration::from_millis;
        match event {
            Happened::Placed { pay_within_ms } => none
                .action(Action("letter".to_owned()))
                .command(note(format!("thanks {id}")))
                .timer("payment", ms(*pay_within_ms), note("too late".to_owned())),
            Happened::Paid => none.cancel_timer("payment").action(Action("ship".to_owned())),
            Happened::Started(action) => none.action(Action(action.clone())),
            Happened::Reminding { name, ms: wait } => {
                none.timer(name.clone(), ms(*wait), note(format!("remember {name} {wait}")))
            }
            Happened::Forgot { name } => none.cancel_timer(name.clone()),
            Happened::Told { id, note } => none.tell(self, id.clone(), Command::Note(note.clone())),
            Happened::Noted(_) | Happened::Ticked => none,
        }
    }

    async fn act(&self, action: &Action, run: &mut ActionRun<'_>) -> HandlerResult<Vec<Command>> {
        let call = (run.id().to_owned(), action.0.clone(), run.key().to_owned());
        self.calls.lock().unwrap().push(call);
        if action.0 == "slow" {
            let done: u32 = run.checkpoint()?.unwrap_or(0);
            run.save(&(done + 1)).await?;
        }
        (self.act)(run.id(), &action.0, run.attempt())
    }

    fn gave_up(&self, action: &Action, error: &str) -> ActionGaveUp<Command> {
        match action.0.as_str() {
            "hopeless" => ActionGaveUp::Park,
            other => ActionGaveUp::GoOn(vec![Command::Note(format!("gave up {other}: {error}"))]),
        }
    }

    fn in_flight_per_process(&self) -> usize {
        self.in_flight
    }

    fn hears(&self) -> Option<Scope> {
        self.hears.then(|| Scope::types(["Paid"]).categories(["shop"]))
    }

    fn hear(&self, event: &Event) -> HandlerResult<Vec<(String, Command)>> {
        let id = event.stream_id().to_owned();
        Ok(vec![(format!("of-{id}"), Command::Note(format!("heard of {id}")))])
    }

    fn schedules(&self) -> Vec<Schedule<Self>> {
        let cron =
            self.cron.map(|cron| anabranch::cron::Cron::parse(cron, "Europe/Berlin").unwrap());
        cron.map(|cron| Schedule::new("tick", cron, "clock", Command::Tick)).into_iter().collect()
    }

    fn retry(&self) -> Retry {
        Retry::default().attempts(3).first(Duration::from_millis(10))
    }
}
