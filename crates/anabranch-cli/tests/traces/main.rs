//! `anabranch run` with spans: programs, webhooks and pools of a file are in the trace of what they handle, also after a
//! worker was killed.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

#[path = "../files/place.rs"]
mod place;
#[path = "../process/mod.rs"]
mod process;
#[path = "../../../anabranch/tests/traces/receiver.rs"]
mod receiver;

use anabranch::Query;
use anabranch_lab::receiver::{Receiver as Endpoint, Reply};
use place::{Place, python, python_client};
use process::{failure, stdout};
use receiver::{Receiver, Seen};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NOTES: [&str; 2] = [
    "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "00-2af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
];

const FILE: &str = r#"
[[replica_set]]
name = "main"
lanes = 1
tuning = { lease = "10s", heartbeat = "150ms" }

[[replica_set.program]]
name = "risk"
partition = "entity:Order"
types = ["OrderPlaced"]
command = ["@PYTHON@", "risk.py"]
env = { PYTHONPATH = "@CLIENT@" }

[[replica_set.pool]]
name = "mail"
command = ["@PYTHON@", "mail.py"]
env = { PYTHONPATH = "@CLIENT@" }

[[replica_set.webhook]]
name = "crm"
partition = "entity:Risk"
types = ["RiskKnown"]
to = "@ENDPOINT@"
private_addresses = true

[[replica_set.webhook]]
name = "notes"
partition = "entity:Order"
types = ["OrderNoted"]
to = "@ENDPOINT@"
private_addresses = true
batch = 10
"#;

/// It is stuck until somebody lets it go on.
const RISK: &str = r#"
import os, time
from anabranch import run

def handle(event, tx):
    open("began", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
    tx.append(f"Risk:{event.stream_id}", "RiskKnown", {"heard": event.traceparent})
    tx.enqueue("mail", event.stream_id, "risk")

run(handle)
"#;

const MAIL: &str = r#"
from anabranch import run_tasks
run_tasks(lambda task, tx: {"heard": task.traceparent})
"#;

fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited a minute for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn start(place: &Place, receiver: &Receiver, log: &str) -> Child {
    let mut command = place.process(&["run", "main.toml"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address());
    command.env("OTEL_SERVICE_NAME", "shop");
    let log = std::fs::File::create(place.path(log)).unwrap();
    command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

/// Ends it as its supervisor would.
fn stop(mut process: Child) {
    let pid = process.id().to_string();
    std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(process.wait().unwrap().success());
}

async fn all_of_a_file_is_in_one_trace(place: Place) {
    let (receiver, endpoint) =
        (Receiver::start(), Endpoint::start(|_| Reply::status(200)).await.unwrap());
    let file = FILE.replace("@PYTHON@", &python()).replace("@ENDPOINT@", &endpoint.url());
    place.write("main.toml", &file.replace("@CLIENT@", &python_client().display().to_string()));
    place.write("risk.py", RISK);
    place.write("mail.py", MAIL);
    let append = |stream: &str, name: &str, trace: &str| {
        stdout(&place.command(&["append", stream, name, "{}", "--traceparent", trace]));
    };
    append("Order:o-1", "OrderPlaced", GIVEN);
    // The first is killed while the program has the event, and the second goes on.
    let mut killed = start(&place, &receiver, "killed.log");
    until("the program", || place.path("began").exists().then_some(()));
    killed.kill().unwrap();
    killed.wait().unwrap();
    append("Order:o-2", "OrderNoted", NOTES[0]);
    append("Order:o-2", "OrderNoted", NOTES[1]);
    place.write("go", "");
    let second = start(&place, &receiver, "second.log");
    let log = place.log().await;
    let tasks = anabranch::workpool::Tasks::new(&log, "mail");
    let began = Instant::now();
    let result = loop {
        let done = tasks.list(anabranch::workpool::TaskState::Done, 10).await.unwrap();
        let both = endpoint.received().len() >= 2;
        match done.first() {
            Some(done) if both => break done.result.clone().unwrap(),
            _ => assert!(began.elapsed() < PATIENCE, "{:?}", endpoint.received()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    stop(second);

    let risk = log.read(Query::types(["RiskKnown"])).collect().await.unwrap();
    assert_eq!(risk.len(), 1);
    assert_eq!(risk[0].data::<serde_json::Value>().unwrap()["heard"], GIVEN);
    let header = |name: &str| {
        let is_it =
            |message: &anabranch_lab::receiver::Received| message.events()[0]["type"] == name;
        let message = endpoint.received().into_iter().find(is_it).unwrap();
        message.header("traceparent").to_owned()
    };
    let spans = receiver.until("all of the trace", |spans| {
        let all: Vec<Seen> = spans.0.iter().filter(|span| span.trace == TRACE).cloned().collect();
        let has = |name: &str| all.iter().any(|span| span.name == name);
        let commits = all.iter().filter(|span| span.name == "commit").count();
        let is_all = ["handle risk", "task mail", "handle crm", "send"].into_iter().all(has);
        (is_all && commits >= 3).then_some(all)
    });
    let one = |name: &str| {
        let found: Vec<&Seen> = spans.iter().filter(|span| span.name == name).collect();
        assert_eq!(found.len(), 1, "{name}: {found:#?}");
        found[0].clone()
    };
    assert!(spans.iter().all(|span| span.service == "shop"));
    // The append of the command was not recorded, but what it was told goes on.
    let handle = one("handle risk");
    assert_eq!(handle.parent, "b7ad6b7169203331");
    assert_eq!(risk[0].trace().unwrap().to_string(), handle.context());
    let (mail, crm, send) = (one("task mail"), one("handle crm"), one("send"));
    assert_eq!((&mail.parent, &crm.parent, &send.parent), (&handle.id, &handle.id, &crm.id));
    assert_eq!(result["heard"], mail.context());
    assert_eq!(header("RiskKnown"), send.context());
    for span in [&handle, &mail, &crm] {
        let commits = spans.iter().filter(|it| it.name == "commit" && it.parent == span.id);
        assert_eq!(commits.count(), 1, "{span:?}");
    }
    // A message of several traces is in one of its own, with a link to each.
    let notes = header("OrderNoted");
    let send = receiver.until("the message of both", |spans| {
        spans.0.iter().find(|span| span.context() == notes).cloned()
    });
    assert!(send.parent.is_empty() && send.name == "send");
    for note in NOTES {
        let mut parts = note.split('-').skip(1).map(str::to_owned);
        let link = (parts.next().unwrap(), parts.next().unwrap());
        assert!(send.links.contains(&link), "{send:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_a_file_is_in_one_trace_on_sqlite() {
    Box::pin(all_of_a_file_is_in_one_trace(Place::sqlite())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_a_file_is_in_one_trace_on_postgres() {
    Box::pin(all_of_a_file_is_in_one_trace(Place::postgres())).await;
}

#[test]
fn what_cannot_be_exported_is_refused_before_anything_begins() {
    let place = Place::sqlite();
    place.write("main.toml", "url = \"sqlite:orders.db\"\n");
    for (name, value, says) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "otlp"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "milliseconds"),
        ("OTEL_TRACES_SAMPLER", "parentbased_ratio", "parentbased_"),
        ("OTEL_TRACES_SAMPLER_ARG", "10%", "from 0 to 1"),
    ] {
        let mut command = place.process(&["run", "main.toml"]);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318").env(name, value);
        let said = failure(&command.output().unwrap(), 1);
        assert!(said.contains(name) && said.contains(says), "{said}");
    }
    let mut command = place.process(&["run", "main.toml"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://me:secret@localhost:4317");
    let said = failure(&command.output().unwrap(), 1);
    assert!(said.contains("http or https URL") && !said.contains("secret"), "{said}");
}
