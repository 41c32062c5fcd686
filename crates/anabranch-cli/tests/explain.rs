//! `anabranch partition explain` says of each strategy what a consumer really does.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;

use anabranch::prelude::*;
use anabranch::{HashRule, Options};
use process::{failure, run, stdout};
use serde_json::Value;
use std::path::Path;

/// Remembers nothing.
struct Nothing(&'static str, Partition);

impl Projection for Nothing {
    fn name(&self) -> &str {
        self.0
    }

    fn partition(&self) -> Partition {
        self.1.clone()
    }

    async fn handle(&self, _: &Event, _: &mut Tx) -> HandlerResult {
        Ok(())
    }

    async fn set_up(&self, _: &mut Tx) -> HandlerResult {
        Ok(())
    }

    async fn reset(&self, _: Position, _: &mut Tx) -> HandlerResult {
        Ok(())
    }
}

fn explain(directory: &Path, arguments: &[&str]) -> Value {
    let text = stdout(&run(directory, &[&["partition", "explain", "--json"], arguments].concat()));
    serde_json::from_str(&text).unwrap()
}

/// Each strategy with a name; keys that look like streams are none.
fn partitions() -> [(&'static str, Partition); 7] {
    let by_type = |event: &Event| Some(format!("type:{}", event.event_type()));
    [
        ("entity", Partition::entity("Order")),
        ("entity", Partition::entities()),
        ("customer", Partition::customer()),
        ("saga", Partition::saga()),
        ("global", Partition::global()),
        ("dcb", Partition::dcb("seat")),
        ("custom", Partition::custom("by-type", by_type)),
    ]
}

async fn event_of(log: &Log) -> Event {
    let stream = StreamId::new("Order", "ord:1:2").unwrap();
    let new = NewEvent::new("Placed", ()).with_customer("cust:123").with_correlation("corr:a:b");
    log.append(&stream, Expected::Any, [new.with_tenant("T").with_tag("seat:7")]).await.unwrap();
    log.read_stream(&stream).collect().await.unwrap().remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_strategy_is_explained_as_it_is() {
    for rule in [HashRule::Fnv1a, HashRule::Md5, HashRule::Integer] {
        let here = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", here.path().join("x.db").display());
        let options = Options { hash_rule: Some(rule), ..Options::default() };
        let log = anabranch::connect_with(&url, &options).await.unwrap();
        let event = event_of(&log).await;
        for (number, (name, partition)) in partitions().into_iter().enumerate() {
            let key = partition.key(&event).unwrap().into_owned();
            let slot = partition.slot(&event, rule).get();
            let alone = explain(
                here.path(),
                &[&key, "--strategy", name, "--rule", rule.name(), "--total", "7"],
            );
            assert_eq!(alone["slot"], slot, "{name} by {rule}: {alone}");
            assert_eq!(alone["partitions"][0]["index"], slot % 7, "{alone}");
            let id = Box::leak(format!("{name}-{number}").into_boxed_str());
            let consumer = Nothing(id, partition);
            ReplicaSet::new(&*id).projection(consumer).catch_up(&log).await.unwrap();
            let owned = explain(here.path(), &[&key, "--consumer", id, "--url", "sqlite:x.db"]);
            assert_eq!(owned["slot"], slot, "{name} by {rule}: {owned}");
        }
    }
}

#[test]
fn the_one_sequence_is_slot_0() {
    let here = tempfile::tempdir().unwrap();
    let global = explain(here.path(), &["global"]);
    assert_eq!((&global["slot"], &global["hashed"]), (&0.into(), &Value::Null), "{global}");
    let of = |number: usize| global["partitions"][number]["index"].as_u64();
    assert!((0..8).all(|number| of(number) == Some(0)), "{global}");
    // Whatever the key is.
    assert_eq!(explain(here.path(), &["Order:1", "--strategy", "global"])["slot"], 0);
    // A stream may have that id.
    let slot = HashRule::Fnv1a.slot("global").get();
    for key in ["Order:global", "global"] {
        assert_eq!(explain(here.path(), &[key, "--strategy", "entity"])["slot"], slot);
    }
    let text = stdout(&run(here.path(), &["partition", "explain", "global", "--total", "3"]));
    assert!(text.contains("one sequence") && text.contains("--strategy entity"), "{text}");
}

#[test]
fn what_is_no_key_of_a_strategy_is_refused() {
    let here = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], code| {
        failure(&run(here.path(), &[&["partition", "explain"], arguments].concat()), code)
    };
    let said = refused(&["seat:7", "--strategy", "dcb"], 1);
    assert!(said.contains("dcb:tenant:TENANT:SCOPE:ID"), "{said}");
    assert!(refused(&["x", "--strategy", "shard"], 2).contains("use entity, customer"));
    assert!(refused(&["x", "--strategy", "saga", "--consumer", "c"], 2).contains("--consumer"));
}

#[test]
fn a_key_that_is_no_integer_is_said_to_go_by_its_hash() {
    let here = tempfile::tempdir().unwrap();
    let text = |arguments: &[&str]| {
        let all = [&["partition", "explain", "--rule", "integer"], arguments].concat();
        stdout(&run(here.path(), &all))
    };
    let said = text(&["abc"]);
    assert!(
        said.contains("slot       971 = fnv1a of `abc` % 5040: it is no integer, so by fnv1a"),
        "{said}"
    );
    let said = text(&["Order:abc"]);
    assert!(said.contains("971 = fnv1a of `abc` % 5040: it is no integer"), "{said}");
    assert!(said.contains("a stream has the slot of its id"), "{said}");
    assert_eq!(explain(here.path(), &["--rule", "integer", "abc"])["hashed_by"], "fnv1a");
    let said = text(&["--", "-1"]);
    assert!(said.contains("slot       5039 = integer of `-1` % 5040"), "{said}");
    assert_eq!(explain(here.path(), &["--rule", "integer", "41"])["hashed_by"], "integer");
}
