//! Programs that are slow with all events, and not with one of them: fewer at a time work, and that is remembered.

use crate::on_both;
use crate::said::Said;
use crate::script::Script;
use crate::support::{Db, Proof, fill, proof};
use anabranch::Tuning;
use anabranch::prelude::*;
use std::time::Duration;

on_both! {
    after_its_first_query_it_gets_fewer_events,
    before_its_first_query_it_gets_fewer_events,
}

const EVENTS: u64 = 600;

/// Runs it over many events, of which only so many are done in its time. Says how often it was started.
async fn starts(db: Db, record: &str, timeout: Duration) -> usize {
    let log = db.log().await;
    fill(&log, 0..20, 1..=EVENTS / 20).await;
    let body = format!(
        "with open('starts', 'a') as file:\n    file.write('x')\ndef handle(n, event):\n    {record}(n, event)\n    \
         time.sleep(0.01)\nserve(handle)"
    );
    let script = Script::new(&body);
    let mut command = script.command();
    command.timeout = timeout;
    let projection = script.projection_by(&db, &log, "p", command);
    let tuning = Tuning::default().lease(Duration::from_secs(2));
    let set = ReplicaSet::new("s").projection(projection).lanes(1).tuning(tuning);
    set.catch_up(&log).await.unwrap();
    let all = Proof { handled: EVENTS as i64, doubled: 0, keys: 20, wrong: 0 };
    assert_eq!(proof(&log, &db.table("p")).await, all);
    script.note("starts").unwrap().len()
}

async fn after_its_first_query_it_gets_fewer_events(db: Db) {
    let starts = starts(db, "record", Duration::from_secs(30)).await;
    assert!((2..=8).contains(&starts), "{starts} starts");
}

async fn before_its_first_query_it_gets_fewer_events(db: Db) {
    let starts = starts(db, "upsert", Duration::from_secs(1)).await;
    assert!((2..=8).contains(&starts), "{starts} starts");
}

#[tokio::test]
async fn each_end_of_a_slow_one_is_in_the_log() {
    let (said, _listening) = Said::listen();
    let db = Db::sqlite();
    let (log, script) = (
        db.log().await,
        Script::new(
            "def handle(n, event):\n    upsert(n, event)\n    if once('slept'):\n        time.sleep(1000)\nserve(handle)",
        ),
    );
    fill(&log, 0..1, 1..=3).await;
    let mut command = script.command();
    command.timeout = Duration::from_secs(2);
    let projection = script.projection_by(&db, &log, "p", command);
    ReplicaSet::new("s").projection(projection).catch_up(&log).await.unwrap();
    let lines = said.lines("did not finish its answer within 2.0s");
    let ends: Vec<_> = lines.iter().filter(|line| line.contains("anabranch::program")).collect();
    assert_eq!(ends.len(), 1, "{ends:?}");
    for part in ["WARN", "consumer=\"p\"", "events=3", "`batch_size`", "it is restarted"] {
        assert!(ends[0].contains(part), "{part} in: {}", ends[0]);
    }
}
