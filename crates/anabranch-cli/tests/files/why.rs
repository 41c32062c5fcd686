//! `why KEY` and `lag`: what keeps a key, and how far consumers are behind.

use crate::place::{Place, python, python_client};
use crate::printed::lines;
use crate::process::{failure, stdout};
use anabranch::prelude::*;
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A consumer that parks what it cannot handle, one that tries again after an hour, and a pool whose tasks fail.
const FILE: &str = r#"
[[replica_set]]
name = "reports"

[[replica_set.projection]]
name = "Totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, cents BIGINT NOT NULL)'
retry = { attempts = 1, then = "park" }
on.OrderPlaced = 'INSERT INTO totals (id, cents) VALUES (:stream_id, :data.cents)'

[[replica_set.projection]]
name = "customers"
partition = "customer"
setup = 'CREATE TABLE customers (id TEXT PRIMARY KEY, cents BIGINT NOT NULL)'
retry = { attempts = 5, first = "1h", longest = "1h" }
on.OrderPlaced = 'INSERT INTO customers (id, cents) VALUES (:customer, :data.cents?)'

[[replica_set.pool]]
name = "mail"
command = [PYTHON, "mail.py"]
env = { PYTHONPATH = CLIENT }
effects = "outside"
retry = { attempts = 1, then = "park" }
"#;

const MAIL: &str = "
from anabranch import run_tasks
def handle(task, tx):
    if task.payload == 'bad':
        raise ValueError('no such address')
run_tasks(handle)
";

async fn place(place: Place) -> (Place, Log) {
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let client = quoted(python_client().to_str().unwrap());
    place.write(
        "orders.toml",
        &FILE.replace("PYTHON,", &format!("{},", quoted(&python()))).replace("CLIENT", &client),
    );
    place.write("mail.py", MAIL);
    let log = place.log().await;
    (place, log)
}

async fn order(log: &Log, id: &str, customer: &str, data: &str) {
    let event = NewEvent::from_json("OrderPlaced", data).with_customer(customer);
    log.append(&StreamId::new("Order", id).unwrap(), Expected::Any, [event]).await.unwrap();
}

fn start(place: &Place) -> Child {
    let mut command = place.process(&["run", "orders.toml"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn stop(mut child: Child) {
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert!(child.wait().unwrap().success());
}

fn why(place: &Place, key: &str, consumer: &str) -> Value {
    let output = place.command(&["why", key, "--consumer", consumer, "--json"]);
    let [answer] = lines(&output).try_into().unwrap();
    answer
}

/// Asks until the answer is as it should be.
async fn until(place: &Place, key: &str, consumer: &str, is: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..600 {
        let output = place.command(&["why", key, "--consumer", consumer, "--json"]);
        if output.status.success() {
            last = lines(&output).remove(0);
            if is(&last) {
                return last;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{last:#}");
}

fn says(answer: &Value, field: &str, parts: &[&str]) {
    let text = answer[field].as_str().unwrap_or_default();
    assert!(parts.iter().all(|part| text.contains(part)), "{parts:?} in {field} of {answer:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_a_key_does_not_go_on() {
    for one in [Place::sqlite(), Place::postgres()] {
        let (place, log) = place(one).await;
        order(&log, "good", "ada", r#"{"cents": 2}"#).await;
        let worker = start(&place);

        // Idle: all is handled.
        let idle = until(&place, "Order:good", "Totals", |it| it["waits"] == false).await;
        says(&idle, "why", &["nothing waits"]);
        until(&place, "ada", "customers", |it| it["waits"] == false).await;
        assert!(idle["cursor"]["owner"]["worker"]["pid"] == worker.id(), "{idle:#}");
        says(&idle, "owner", &["reports on", "pid"]);

        // Parked, and retrying.
        order(&log, "bad", "bob", "{}").await;
        order(&log, "bad", "bob", r#"{"cents": 2}"#).await;
        let is_behind = |it: &Value| it["parked"]["events"] == 2;
        let parked = until(&place, "Order:bad", "Totals", is_behind).await;
        assert_eq!(
            (&parked["parked"]["state"], &parked["parked"]["attempts"]),
            (&"parked".into(), &1.into())
        );
        assert_eq!(
            (&parked["next"]["stream"], &parked["next"]["type"]),
            (&"Order:bad".into(), &"OrderPlaced".into())
        );
        assert_eq!(parked["next"]["position"], 2);
        says(&parked, "why", &["failed once and is parked"]);
        says(&parked, "todo", &["anabranch parked retry Totals Order:bad", "parked skip"]);
        assert_eq!(why(&place, "bad", "Totals")["parked"]["key"], "Order:bad", "by its id alone");
        let retrying = until(&place, "bob", "customers", is_behind).await;
        assert_eq!(retrying["parked"]["state"], "retrying");
        says(&retrying, "why", &["failed once and is tried again in "]);
        let text = stdout(&place.command(&["why", "Order:bad", "--consumer", "Totals"]));
        for part in [
            "consumer  Totals (projection, by entity, fnv1a",
            "\nparked    since",
            "\nerror     ",
            "data.cents",
            "\nwaiting   2 events\n",
            "\nevent     OrderPlaced Order:bad@1 at position 2\n",
            "\nwhy       its",
            "\ndo        correct",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }

        // A key of a pool whose task is dead, and one that waits behind it.
        for payload in ["\"bad\"", "\"good\""] {
            stdout(&place.command(&["tasks", "enqueue", "mail", "eve", payload]));
        }
        let dead = until(&place, "eve", "mail", |it| it["tasks"]["first"]["state"] == "dead").await;
        assert_eq!(dead["tasks"]["tasks"], 2, "{dead:#}");
        says(&dead, "why", &["its first task has failed once and is dead", "wait behind it"]);
        says(&dead, "todo", &["anabranch tasks retry", "tasks discard"]);
        let text = stdout(&place.command(&["why", "eve", "--consumer", "mail"]));
        assert!(
            text.contains("no such address") && text.contains("\nwaiting   2 tasks\n"),
            "{text}"
        );
        assert_eq!(why(&place, "nobody", "mail")["waits"], false);
        stdout(&place.command(&["tasks", "pause-key", "mail", "zoe"]));
        stdout(&place.command(&["tasks", "enqueue", "mail", "zoe", "1"]));
        says(&why(&place, "zoe", "mail"), "todo", &["anabranch tasks resume-key mail zoe"]);

        // Paused, with an event that waits.
        stop(worker);
        stdout(&place.command(&["pause", "Totals"]));
        order(&log, "late", "ada", r#"{"cents": 2}"#).await;
        let paused = why(&place, "Order:late", "Totals");
        says(&paused, "why", &["paused"]);
        says(&paused, "todo", &["anabranch resume Totals"]);
        assert_eq!(paused["next"]["stream"], "Order:late");

        // All consumers at once.
        let all = lines(&place.command(&["why", "Order:good", "--json"]));
        let names: Vec<_> = all.iter().map(|answer| answer["consumer"].clone()).collect();
        assert_eq!(names, ["Totals", "customers", "mail"]);

        // Without a worker it lags.
        stdout(&place.command(&["resume", "Totals"]));
        let lagging = why(&place, "Order:late", "Totals");
        says(&lagging, "why", &["unassigned: no living worker runs it"]);
        says(&lagging, "todo", &["start a worker that runs `Totals`"]);
        assert!(lagging["cursor"]["lag"].as_u64().unwrap() > 0, "{lagging:#}");
        lags(&place);
    }
}

/// Two events of `bad` wait, and one of `late`.
fn lags(place: &Place) {
    let totals = |arguments: &[&str]| place.command(&[&["lag", "Totals"], arguments].concat());
    let [line] = lines(&totals(&["--json"])).try_into().unwrap();
    assert_eq!(
        (&line["lag"], &line["ready"], &line["parked"]),
        (&3.into(), &1.into(), &1.into()),
        "{line}"
    );
    assert_eq!((&line["consumer"], &line["state"]), (&"Totals".into(), &"no worker".into()));
    let text = stdout(&totals(&["--max", "3"]));
    let words: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["CONSUMER", "LAG", "PARKED", "RETRYING", "STATE"]);
    assert_eq!(words[1], ["Totals", "3", "1", "0", "no", "worker"]);
    let above = totals(&["--max", "2"]);
    assert_eq!(above.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&above.stderr).contains("the lag of Totals is 3, above 2"));
    assert_eq!(lines(&place.command(&["lag", "--json"])).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_there_is_refused_with_what_to_do() {
    for one in [Place::sqlite(), Place::postgres()] {
        let (place, log) = place(one).await;
        let said = failure(&place.command(&["why", "Order:1"]), 1);
        assert!(said.contains("no consumer") && said.contains("when it first runs"), "{said}");
        for command in [&["why", "Order:1", "--consumer", "nope"][..], &["lag", "nope"]] {
            let said = failure(&place.command(command), 1);
            assert!(
                said.contains("no consumer `nope`") && said.contains("anabranch status"),
                "{said}"
            );
        }
        drop(log);
        // A pool that nobody has run has a word of its own.
        stdout(&place.command(&["tasks", "enqueue", "mial", "ada", "1"]));
        let unrun = why(&place, "ada", "mial");
        says(&unrun, "why", &["no worker has ever run the pool"]);
        assert_eq!(unrun["tasks"]["tasks"], 1);
    }
    let empty = Place::sqlite();
    for command in [&["why", "Order:1"][..], &["lag"]] {
        let said = failure(&empty.command(command), 1);
        assert!(said.contains("there is no log") && said.contains("anabranch migrate"), "{said}");
    }
}
