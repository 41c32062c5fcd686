//! Every event once and in order, across restarts, other numbers of lanes and replays.

use crate::on_both;
use crate::script::Script;
use crate::support::{Db, Proof, fill, number, proof, start, status, until};
use anabranch::operate::{Consumers, ReplayFrom};
use anabranch::prelude::*;
use anabranch::workpool::{TaskState, Tasks};
use anabranch::{Query, Settings};

on_both! {
    everything_is_handled_once_and_in_order,
    each_lane_has_a_program_of_its_own_for_all_its_batches,
    what_it_appends_and_enqueues_is_there_once_also_after_a_replay,
    a_replay_needs_statements_that_empty_the_tables,
}

const ALL: Proof = Proof { handled: 200, doubled: 0, keys: 20, wrong: 0 };

async fn everything_is_handled_once_and_in_order(db: Db) {
    let (log, script) = (db.log().await, Script::new("serve(record)"));
    fill(&log, 0..20, 1..=5).await;
    let set =
        |lanes| ReplicaSet::new("s").projection(script.projection(&db, &log, "p")).lanes(lanes);
    set(3).catch_up(&log).await.unwrap();
    fill(&log, 0..20, 6..=10).await;
    set(2).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &db.table("p")).await, ALL);
    assert_eq!(status(&log, "p").await.lag, 0);
    Consumers::new(&log).replay("p", ReplayFrom::Start).await.unwrap();
    set(4).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &db.table("p")).await, ALL);
}

async fn each_lane_has_a_program_of_its_own_for_all_its_batches(db: Db) {
    let (log, script) = (db.log().await, Script::new("serve(record)"));
    let table = db.table("p");
    fill(&log, 0..20, 1..=1).await;
    let projection = script.projection(&db, &log, "p");
    let worker = start(&log, ReplicaSet::new("s").projection(projection).lanes(3));
    until("its tables", async || Consumers::new(&log).status("p").await.ok()).await;
    let handled = format!("SELECT count(*) FROM {table}");
    for round in 2..=10 {
        until("a round", async || (number(&log, &handled).await == 20 * (round - 1)).then_some(()))
            .await;
        fill(&log, 0..20, round as u64..=round as u64).await;
    }
    until("the last round", async || (number(&log, &handled).await == 200).then_some(())).await;
    let programs = number(&log, &format!("SELECT count(DISTINCT worker) FROM {table}")).await;
    // No more than lanes, and they are not started for each batch.
    assert!((2..=3).contains(&programs), "{programs}");
    assert_eq!(proof(&log, &table).await, ALL);
    worker.stop().await;
}

const MAKES: &str = r#"
def handle(n, event):
    key = key_of(event)
    record(n, event)
    for what in ("a", "b"):
        append = {"stream": f"Copy:{key}", "type": "Copied", "data": {"of": event["data"], "what": what},
                  "causation": event["id"], "customer": key, "tags": [f"copy-{what}"], "metadata": {"by": "raw"}}
        if what == "a" and event["data"] == 1:
            append["expected"] = "none"
        say(append=append, event=n)
        say(enqueue={"pool": "mail", "key": key, "payload": [event["data"], what]}, event=n)
serve(handle)
"#;

async fn what_it_appends_and_enqueues_is_there_once_also_after_a_replay(db: Db) {
    let (log, script) = (db.log().await, Script::new(MAKES));
    fill(&log, 0..5, 1..=4).await;
    // In other batches than before.
    for (size, replays) in [(7, false), (3, true), (100, true)] {
        if replays {
            Consumers::new(&log).replay("p", ReplayFrom::Start).await.unwrap();
        }
        let settings = Settings::default().batch_size(size);
        let projection = script.projection(&db, &log, "p").with_settings(settings);
        ReplicaSet::new("s").projection(projection).lanes(2).catch_up(&log).await.unwrap();
        let copies = log.read(Query::types(["Copied"])).collect().await.unwrap();
        assert_eq!(copies.len(), 40);
        let first = copies.iter().find(|copy| copy.stream_id() == "3").unwrap();
        assert_eq!(first.data_json(), r#"{"of": 1, "what": "a"}"#);
        assert_eq!(first.metadata_json(), Some(r#"{"by": "raw"}"#));
        assert_eq!((first.customer(), first.tags().collect()), (Some("3"), vec!["copy-a"]));
        let tasks = Tasks::new(&log, "mail").list(TaskState::Ready, 100).await.unwrap();
        assert_eq!(tasks.len(), 40);
        let expected = Proof { handled: 20, doubled: 0, keys: 5, wrong: 0 };
        assert_eq!(proof(&log, &db.table("p")).await, expected);
    }
}

async fn a_replay_needs_statements_that_empty_the_tables(db: Db) {
    let (log, script) = (db.log().await, Script::new("serve(lambda n, event: None)"));
    fill(&log, 0..1, 1..=5).await;
    let (command, everything) = (script.command(), Partition::global());
    let projection = || {
        let (programs, command) = (&script.programs, command.clone());
        anabranch_file::program::ProgramProjection::new(
            programs,
            &log,
            "p",
            everything.clone(),
            command,
        )
    };
    ReplicaSet::new("s").projection(projection()).catch_up(&log).await.unwrap();
    let replay = async |from, projection| {
        Consumers::new(&log).replay("p", from).await.unwrap();
        ReplicaSet::new("s").projection(projection).catch_up(&log).await
    };
    let said = replay(ReplayFrom::Start, projection()).await.unwrap_err().to_string();
    assert!(said.contains("it has no `reset`"), "{said}");
    let from = ReplayFrom::After(Position::new(3));
    let all = projection().with_reset(vec!["SELECT 1".to_owned()]);
    let said = replay(from, all).await.unwrap_err().to_string();
    assert!(said.contains("a replay can only begin at the start"), "{said}");
    replay(ReplayFrom::Start, projection().with_reset(vec![])).await.unwrap();
}
