//! A log that has something for each page.

use crate::place::Place;
use crate::stage::{FILE, Stage, Worker, until};
use anabranch::prelude::*;
use anabranch::workflow::{ActionRun, Reactions, Workflow, Workflows};
use anabranch_lab::receiver::{Receiver, Reply};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

pub struct Full {
    pub stage: Stage,
    workers: Vec<Worker>,
    _receiver: Receiver,
    event: u64,
    task: String,
}

const HOOK: &str = r#"
[[replica_set]]
name = "hooks"

[[replica_set.webhook]]
name = "crm"
partition = "customer"
to = "URL"
private_addresses = true
secret = { env = "CRM_SECRET" }
types = ["OrderPlaced"]
retry = { attempts = 1, then = "park" }
"#;

impl Full {
    pub fn new() -> Self {
        let stage = Stage::of(Place::sqlite(), FILE);
        // One customer's messages are refused.
        let receiver = stage.wait_for(Receiver::start(|message| {
            let is_refused = message.json().to_string().contains("cust-3");
            Reply::status(if is_refused { 422 } else { 200 })
        }));
        let receiver = receiver.unwrap();
        stage
            .place
            .write("orders.toml", &(FILE.to_owned() + &HOOK.replace("URL", &receiver.url())));
        for order in 0..40 {
            // Some have no price, and some came before.
            let (id, data) = match order % 10 {
                8 => (order, format!(r#"{{"price": {order}}}"#)),
                9 => (order - 2, r#"{"cents": 1}"#.to_owned()),
                _ => (order, format!(r#"{{"cents": {}, "note": "a gift for you"}}"#, order * 100)),
            };
            let event = NewEvent::from_json("OrderPlaced", data)
                .with_customer(format!("cust-{}", order % 7))
                .with_tag(format!("show:{}", order % 3))
                .with_metadata(serde_json::json!({ "by": "shop" }));
            stage.append("Order", &format!("ord-{id}"), event);
        }
        let mut cause = None;
        let mut event = 0;
        for kind in ["ShipmentAsked", "ShipmentPacked", "ShipmentSent"] {
            let id = Uuid::now_v7();
            let next = NewEvent::from_json(kind, r#"{"cents": 4000}"#).with_id(id);
            let next = next.with_correlation("ship-1");
            let next = match cause.replace(id.to_string()) {
                None => next,
                Some(cause) => next.with_causation(cause),
            };
            let position = stage.append("Shipment", "1", next);
            event = if kind == "ShipmentPacked" { position } else { event };
        }
        for key in ["ada", "grace", "joan"] {
            stage.command(&["tasks", "enqueue", "mail", key, r#"{"invoice": 42}"#]);
        }
        stage.spawn(claims(stage.log.clone()));
        let workers = vec![stage.worker(), stage.worker()];
        let mut task = String::new();
        until("there is something for each page", || {
            let dead = stage.command(&["tasks", "list", "mail", "--state", "dead", "--json"]);
            let first =
                dead.lines().next().map(|line| serde_json::from_str::<Value>(line).unwrap());
            task = first.map(|task| task["id"].as_str().unwrap().to_owned()).unwrap_or_default();
            let lag = |name: &str| {
                stage.command(&["status", name, "--json"]).contains(r#""lag_ready":0"#)
            };
            let is_paid = stage.command(&["tail", "--type", "Paid", "-n", "1"]).contains("Paid");
            dead.lines().count() == 3 && lag("totals") && lag("crm") && is_paid
        });
        batch(&stage);
        stage.command(&["pause", "totals"]);
        stage.command(&["resume", "totals"]);
        Self { stage, workers, _receiver: receiver, event, task }
    }

    /// Each page by a name, and with its address.
    pub fn pages(&self) -> Vec<(&'static str, String)> {
        let worker = format!("#/workers/{}", self.workers[0].id);
        let event = format!("#/events/{}", self.event);
        let task = format!("#/tasks/{}", self.task);
        [
            ("overview", "#/"),
            ("consumer", "#/consumers/totals"),
            ("pool", "#/consumers/mail"),
            ("worker", &worker),
            ("failed", "#/failed"),
            ("parked_key", "#/failed/totals/Order%3Aord-8"),
            ("events", "#/events"),
            ("event", &event),
            ("stream", "#/streams/Shipment/1"),
            ("tasks", "#/tasks"),
            ("task", &task),
            ("workflows", "#/workflows"),
            ("instance", "#/workflows/claims/claim-1"),
            ("deliveries", "#/deliveries"),
            ("batches", "#/batches?open=copies"),
            ("no_batches", "#/batches?table=elsewhere"),
            ("journal", "#/journal"),
        ]
        .map(|(name, page)| (name, page.to_owned()))
        .into()
    }
}

/// Runs a job with rows that fail.
fn batch(stage: &Stage) {
    let rows = "CREATE TABLE applications (id INTEGER NOT NULL PRIMARY KEY, cents INTEGER)";
    let copies = "CREATE TABLE copies (id INTEGER, cents INTEGER CHECK (cents > 0))";
    let fill = "INSERT INTO applications VALUES (1, 100), (2, 0), (3, 300), (4, -1)";
    for sql in [rows, copies, fill] {
        stage.sql(sql);
    }
    let sql = "INSERT INTO copies VALUES (:id, :cents)";
    let job = ["--source", "applications", "--key", "id", "--job", "copies"];
    let run = ["batch", "run", "--sql", sql, "--allow-failures"];
    stage.command(&[&run[..], &job].concat());
}

/// Runs a workflow, with two instances.
async fn claims(log: Log) {
    let claims = Workflows::new(&log, Claims);
    for id in ["claim-1", "claim-2"] {
        claims.send(id, Command::Make { cents: 4_000 }).await.unwrap();
    }
    let set = ReplicaSet::new("claims").workflow(&claims).lanes(1);
    set.run_until(&log, std::future::pending::<()>()).await.unwrap();
}

struct Claims;

#[derive(Clone, Default, Serialize, Deserialize)]
enum Claim {
    #[default]
    New,
    Made,
    Paid,
    Closed,
}

#[derive(Serialize, Deserialize)]
enum Command {
    Make { cents: i64 },
    PaymentSent,
    Close,
}

#[derive(Serialize, Deserialize)]
enum Claimed {
    Made { cents: i64 },
    Paid,
    Closed,
}

#[derive(Serialize, Deserialize)]
enum Action {
    Pay { cents: i64 },
}

#[derive(Debug)]
struct Never;

impl fmt::Display for Never {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is never refused")
    }
}

impl std::error::Error for Never {}

impl Workflow for Claims {
    type State = Claim;
    type Command = Command;
    type Event = Claimed;
    type Action = Action;
    type Rejection = Never;

    fn name(&self) -> &str {
        "claims"
    }

    fn decide(&self, _: &Claim, command: &Command) -> Result<Vec<Claimed>, Never> {
        Ok(vec![match command {
            Command::Make { cents } => Claimed::Made { cents: *cents },
            Command::PaymentSent => Claimed::Paid,
            Command::Close => Claimed::Closed,
        }])
    }

    fn evolve(&self, claim: &mut Claim, event: &Claimed) {
        *claim = match event {
            Claimed::Made { .. } => Claim::Made,
            Claimed::Paid => Claim::Paid,
            Claimed::Closed => Claim::Closed,
        };
    }

    fn snapshot_every(&self) -> Option<u64> {
        Some(1)
    }

    fn react(&self, _: &str, _: &Claim, event: &Claimed) -> Reactions<Self> {
        let week = Duration::from_secs(7 * 86_400);
        match event {
            Claimed::Made { cents } => Reactions::none().action(Action::Pay { cents: *cents }),
            Claimed::Paid => Reactions::none().timer("close", week, Command::Close),
            Claimed::Closed => Reactions::none(),
        }
    }

    async fn act(&self, _: &Action, _: &mut ActionRun<'_>) -> HandlerResult<Vec<Command>> {
        Ok(vec![Command::PaymentSent])
    }
}
