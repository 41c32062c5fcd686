//! Webhooks of files: as processes that are killed, and by the commands of operators.

use crate::hits::{Numbers, Process, append_until};
use crate::place::Place;
use crate::printed::lines;
use anabranch_lab::receiver::{Received, Receiver, Reply};
use std::collections::HashMap;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const KEYS: u64 = 20;
const MOMENTS: usize = 12;

fn file(to: &str) -> String {
    let hook = |name: &str, batch: usize| {
        format!(
            "[[replica_set.webhook]]\nname = \"{name}\"\npartition = \"entity:Order\"\nto = \"{to}?{name}\"\n\
             private_addresses = true\nbatch = {batch}\nsecret = {{ env = \"CRM_SECRET\" }}\n\
             retry = {{ lasting = \"10m\", first = \"10ms\", longest = \"100ms\" }}\n"
        )
    };
    format!(
        "[[replica_set]]\nname = \"hooks\"\nlanes = 2\ntuning = {{ lease = \"600ms\", heartbeat = \"150ms\" }}\n{}{}",
        hook("singly", 1),
        hook("Together", 4)
    )
}

/// The events of a message.
fn events(message: &Received) -> Vec<serde_json::Value> {
    let body = message.json();
    match body["data"].as_array() {
        Some(events) if body["type"] == "batch" => events.clone(),
        _ => vec![body],
    }
}

/// How many events have come, each counted once.
fn different(receiver: &Receiver, is_batch: bool) -> usize {
    let mut seen = std::collections::HashSet::new();
    for message in receiver.received() {
        if (message.json()["type"] == "batch") == is_batch {
            seen.extend(events(&message).iter().map(|event| event["position"].as_u64()));
        }
    }
    seen.len()
}

/// Each event has come, in order for its key once ids that are known are left out; and an id has always held the same.
fn is_whole(receiver: &Receiver, is_batch: bool, numbers: i64, seed: u64) {
    let mut ids: HashMap<String, Vec<Option<u64>>> = HashMap::new();
    let mut keys: HashMap<String, Vec<i64>> = HashMap::new();
    for message in receiver.received() {
        if (message.json()["type"] == "batch") != is_batch {
            continue;
        }
        let events = events(&message);
        let positions: Vec<Option<u64>> =
            events.iter().map(|event| event["position"].as_u64()).collect();
        let id = message.header("webhook-id").to_owned();
        if let Some(known) = ids.insert(id.clone(), positions.clone()) {
            assert_eq!(known, positions, "{id} has held other events (seed {seed})");
            continue;
        }
        for event in events {
            let key = event["stream"].as_str().unwrap().to_owned();
            keys.entry(key).or_default().push(event["data"].as_i64().unwrap());
        }
    }
    assert_eq!(keys.len(), KEYS as usize);
    for (key, came) in keys {
        assert_eq!(came, (1..=numbers).collect::<Vec<i64>>(), "{key} (seed {seed})");
    }
}

async fn everything_arrives_in_order(place: Place) {
    let (seed, mut random) = Numbers::chosen();
    let receiver = Receiver::start(|_| Reply::default()).await.unwrap();
    place.write("hooks.toml", &file(&receiver.url()));
    let log = place.log().await;
    let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let appending =
        tokio::spawn(append_until(log.clone(), KEYS, Arc::clone(&stop), Arc::clone(&rounds)));
    let mut processes = vec![Process::start(&place, "hooks.toml")];
    for _ in 0..MOMENTS {
        let (before, began) = (receiver.count(), Instant::now());
        while receiver.count() < before + 50 {
            assert!(began.elapsed() < PATIENCE, "nothing came for a minute (seed {seed})");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_micros(random.below(60_000))).await;
        let at = random.below(processes.len() as u64) as usize;
        match random.below(4) {
            0 | 1 if processes.len() < 3 => processes.push(Process::start(&place, "hooks.toml")),
            0..3 => processes.swap_remove(at).kill(),
            _ => processes.swap_remove(at).stop(),
        }
        if processes.is_empty() {
            processes.push(Process::start(&place, "hooks.toml"));
        }
    }
    stop.store(true, Ordering::Relaxed);
    appending.await.unwrap();
    let (numbers, began) = (rounds.load(Ordering::Relaxed), Instant::now());
    let all = numbers as usize * KEYS as usize;
    while different(&receiver, false) < all || different(&receiver, true) < all {
        assert!(began.elapsed() < PATIENCE, "some never came (seed {seed})");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for process in processes {
        process.stop();
    }
    is_whole(&receiver, false, numbers, seed);
    is_whole(&receiver, true, numbers, seed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_arrives_in_order_on_sqlite() {
    everything_arrives_in_order(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_arrives_in_order_on_postgres() {
    everything_arrives_in_order(Place::postgres()).await;
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A command beside the receiver, which needs this thread meanwhile.
async fn command(place: &Arc<Place>, arguments: &[&str]) -> Output {
    let (place, arguments) =
        (Arc::clone(place), arguments.iter().map(ToString::to_string).collect());
    let run = move |arguments: Vec<String>| {
        place.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    tokio::task::spawn_blocking(move || run(arguments)).await.unwrap()
}

async fn operators_see_and_resend(place: Place) {
    let place = Arc::new(place);
    let fails = Arc::new(AtomicBool::new(true));
    let still = Arc::clone(&fails);
    let receiver = Receiver::start(move |one| match one.json()["stream"] == "Order:2" {
        true if still.load(Ordering::Relaxed) => {
            Reply { body: "no\u{1b}[31m".to_owned(), ..Reply::status(500) }
        }
        _ => Reply::default(),
    })
    .await
    .unwrap();
    let retry = "retry = { attempts = 2, first = \"10ms\" }";
    let text = file(&receiver.url());
    let text =
        text.replace("retry = { lasting = \"10m\", first = \"10ms\", longest = \"100ms\" }", retry);
    place.write("hooks.toml", &text[..text.rfind("[[replica_set.webhook]]").unwrap()]);
    let log = place.log().await;
    for id in ["1", "2", "3"] {
        place.order(&log, id, "{\"cents\":40}").await;
    }
    let ran = command(&place, &["run", "hooks.toml", "--catch-up"]).await;
    assert_eq!(ran.status.code(), Some(1), "{}", said(&ran));

    let listed = lines(&command(&place, &["deliveries", "list", "singly", "--json"]).await);
    assert_eq!(listed.len(), 3);
    let failed = command(&place, &["deliveries", "list", "--state", "failed", "--json"]).await;
    let [failed] = lines(&failed).try_into().unwrap();
    assert_eq!((failed["key"].as_str(), failed["attempts"].as_i64()), (Some("Order:2"), Some(2)));
    let id = failed["id"].as_str().unwrap();
    let shown = command(&place, &["deliveries", "show", id]).await;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("Order:2") && text.contains("500") && !text.contains('\u{1b}'), "{text}");
    let table = command(&place, &["deliveries", "list"]).await;
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("delivered") && table.contains(id), "{table}");

    let resent = command(&place, &["deliveries", "resend", "hooks.toml", id]).await;
    assert_eq!(resent.status.code(), Some(1), "{}", said(&resent));
    fails.store(false, Ordering::Relaxed);
    let resent = command(&place, &["deliveries", "resend", "hooks.toml", id]).await;
    assert!(resent.status.success() && said(&resent).contains("200"), "{}", said(&resent));
    let renewed = command(&place, &["deliveries", "resend", "hooks.toml", id, "--new-id"]).await;
    assert!(renewed.status.success(), "{}", said(&renewed));
    let ids: Vec<String> = receiver
        .received()
        .iter()
        .filter(|one| one.json()["stream"] == "Order:2")
        .map(|one| one.header("webhook-id").to_owned())
        .collect();
    assert_eq!(ids.len(), 5);
    assert!(ids[..4].iter().all(|one| one == id) && ids[4] != id, "{ids:?}");

    let tested = command(&place, &["deliveries", "test", "hooks.toml", "singly"]).await;
    assert!(tested.status.success() && said(&tested).contains("200 OK"), "{}", said(&tested));
    let none = command(&place, &["deliveries", "show", "msg_none"]).await;
    assert!(!none.status.success() && said(&none).contains("no_such_delivery"), "{}", said(&none));
    let none = command(&place, &["deliveries", "test", "hooks.toml", "singl"]).await;
    assert!(!none.status.success() && said(&none).contains("`singl`"), "{}", said(&none));
    let none = command(&place, &["deliveries", "list", "other"]).await;
    assert!(!none.status.success() && said(&none).contains("no_such_consumer"), "{}", said(&none));

    let asked = command(&place, &["replay", "singly", "--from-start", "--new-id"]).await;
    assert!(!asked.status.success() && said(&asked).contains("--yes"), "{}", said(&asked));
    let replayed =
        command(&place, &["replay", "singly", "--from-start", "--new-id", "--yes"]).await;
    assert!(replayed.status.success(), "{}", said(&replayed));
    let before = receiver.count();
    let ran = command(&place, &["run", "hooks.toml", "--catch-up"]).await;
    assert!(ran.status.success(), "{}", said(&ran));
    let again = &receiver.received()[before..];
    assert_eq!(again.len(), 3);
    let is_new =
        |one: &Received| listed.iter().all(|listed| listed["id"] != one.header("webhook-id"));
    assert!(again.iter().all(is_new));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_see_and_resend_on_sqlite() {
    operators_see_and_resend(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_see_and_resend_on_postgres() {
    operators_see_and_resend(Place::postgres()).await;
}

/// What would be sent is looked at, and nothing is sent.
#[test]
fn webhooks_are_tested_without_being_sent() {
    let place = Place::sqlite();
    let test = |sent: &str| {
        format!(
            "{}[[test]]\ngiven = [{{ stream = \"Order:1\", type = \"OrderPlaced\", data = {{ total = 40 }} }}]\n\
             then = {{ consumer = \"singly\", sent = [{sent}] }}\n",
            file("https://example.com/hook")
        )
    };
    place.write("hooks.toml", &test("{ type = \"OrderPlaced\", data = { total = 40 } }"));
    let ran = place.command(&["test", "hooks.toml"]);
    assert!(ran.status.success(), "{}", said(&ran));
    place.write("hooks.toml", &test("{ type = \"OrderPlaced\", data = { total = 41 } }"));
    let ran = place.command(&["test", "hooks.toml"]);
    assert_eq!(ran.status.code(), Some(1));
}
