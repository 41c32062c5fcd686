//! What a process says of its replica sets while they come and go.

use crate::asked::*;
use crate::gates::table_of;
use crate::on_both;
use crate::support::*;
use anabranch::Tuning;
use anabranch::prelude::*;
use anabranch::watch::{Format, METRICS, Watch};
use std::time::Duration;

on_both! {
    a_run_is_counted_and_its_lease_is_shown,
    each_set_needs_its_worker,
    a_consumer_that_is_refused_is_not_ready,
    two_watches_on_one_log_count_their_own,
    a_server_shows_slots_of_dead_workers,
}

async fn a_run_is_counted_and_its_lease_is_shown(db: Db) {
    let recorder = db.recorder("orders");
    let watch = Watch::new(db.log().await);
    let server = watch.listen("127.0.0.1:0").unwrap();
    let at = server.address();
    until_not_ready(at, "no worker").await;
    until_says(at, "/livez", |status, _| status == 200).await;

    let log = watch.log();
    for number in 0..7 {
        let stream = StreamId::new("Order", format!("{number}")).unwrap();
        log.append(&stream, Expected::NoStream, [numbered(1)]).await.unwrap();
    }
    let stream = StreamId::new("Order", "0").unwrap();
    let again = log.append(&stream, Expected::NoStream, [numbered(1)]).await;
    assert!(again.unwrap_err().is_conflict());

    let running = start(&log, ReplicaSet::new("watched").projection(recorder));
    let (handled, lag) = (
        "anabranch_events_handled_total{set=\"watched\",consumer=\"orders\"}",
        "anabranch_lag_events{set=\"watched\",consumer=\"orders\"}",
    );
    let text = until_says(at, "/metrics", |_, body| {
        value(body, handled) == Some(7.0) && value(body, lag) == Some(0.0)
    })
    .await;
    for (name, number) in [
        ("anabranch_append_conflicts_total", 1.0),
        ("anabranch_append_seconds_count", 7.0),
        ("anabranch_slots_owned{set=\"watched\",consumer=\"orders\"}", 5040.0),
        ("anabranch_workers{set=\"watched\"}", 1.0),
        ("anabranch_database_up", 1.0),
        // What has not happened is 0 and not absent: `increase()` sees the first time.
        ("anabranch_event_failures_total{set=\"watched\",consumer=\"orders\"}", 0.0),
    ] {
        assert_eq!(value(&text, name), Some(number), "{name} in {text}");
    }
    // These may have happened, where a machine stands still for a moment.
    for name in [
        "anabranch_heartbeat_failures_total{set=\"watched\"}",
        "anabranch_outage_seconds_total{set=\"watched\",of=\"lane\"}",
        "anabranch_fenced_total{set=\"watched\",what=\"worker\"}",
    ] {
        assert!(value(&text, name).is_some(), "{name} in {text}");
    }
    until_ready(at).await;
    let (_, open) = asked(at, "/metrics", "application/openmetrics-text; version=1.0.0").await;
    assert!(open.ends_with("# EOF\n"), "{open}");

    running.stop().await;
    until_not_ready(at, "no worker").await;
    until_says(at, "/livez", |status, _| status == 200).await;
    assert_eq!(asked(at, "/", "*/*").await.0, 404);
}

/// A rolling deploy waits for readiness: it must not replace the last process that runs the accepted code.
async fn a_consumer_that_is_refused_is_not_ready(db: Db) {
    let coded = |code: &str| db.recorder("orders").settings(Settings::default().code(code));
    let old = coded("one");
    let new = Recorder { table: old.table.clone(), ..coded("two") };
    let plain = db.log().await;
    ReplicaSet::new("s").projection(old).catch_up(&plain).await.unwrap();
    let watch = Watch::new(plain);
    let server = watch.listen("127.0.0.1:0").unwrap();
    let (at, log) = (server.address(), watch.log());
    let set = ReplicaSet::new("s").projection(new).projection(db.recorder("others"));
    let running = start(&log, set);
    let why = until_not_ready(at, "consumer `orders` cannot run here").await;
    assert!(why.contains("code"), "{why}");
    let consumers = anabranch::operate::Consumers::new(&log);
    let change = consumers.code_change("orders").await.unwrap().unwrap();
    consumers.accept_code(&change).await.unwrap();
    until_ready(at).await;
    running.stop().await;
}

/// One set does not stand in for another.
async fn each_set_needs_its_worker(db: Db) {
    let watch = Watch::new(db.log().await);
    let server = watch.listen("127.0.0.1:0").unwrap();
    let (at, log) = (server.address(), watch.log());
    let quick = Tuning::default().heartbeat(Duration::from_millis(100));
    let one = start(&log, ReplicaSet::new("one").projection(db.recorder("a")).tuning(quick));
    until_ready(at).await;
    // Its table cannot be made, so its run ends.
    let wrong = Recorder { table: "no name; ".to_owned(), ..db.recorder("b") };
    let two = start(&log, ReplicaSet::new("two").projection(wrong).fail_fast());
    let why = until_not_ready(at, "replica set `two` has ended").await;
    assert!(!why.contains("`one`"), "{why}");
    two.ended().await.unwrap_err();
    until_not_ready(at, "replica set `two` has ended").await;
    // Begun again, it is as good as new.
    let two = start(&log, ReplicaSet::new("two").projection(db.recorder("c")).tuning(quick));
    until_ready(at).await;
    let is_up = |_, body: &str| value(body, "anabranch_database_up") == Some(1.0);
    let text = until_says(at, "/metrics", is_up).await;
    for set in ["one", "two"] {
        let workers = format!("anabranch_workers{{set=\"{set}\"}}");
        assert_eq!(value(&text, &workers), Some(1.0), "{text}");
    }
    // Its lease is over, as it finds out by its next heartbeat: others do not make up for it.
    let table = table_of(&log, "workers");
    let gone = format!("DELETE FROM {table} WHERE replica_set = 'two' RETURNING 1");
    query(&log, &gone, vec![]).await;
    let fenced = "anabranch_fenced_total{set=\"two\",what=\"worker\"}";
    until_says(at, "/metrics", |_, body| value(body, fenced) == Some(1.0)).await;
    until_ready(at).await;
    two.stop().await;
    until_ready(at).await;
    one.stop().await;
    until_not_ready(at, "no worker").await;
}

/// What runs on one handle is not counted on another, though both share their sessions.
async fn two_watches_on_one_log_count_their_own(db: Db) {
    let log = db.log().await;
    let (first, second) = (Watch::new(log.clone()), Watch::new(log.clone()));
    fill(&first.log(), 0..3, 1..=4).await;
    let set = ReplicaSet::new("s").projection(db.recorder("orders"));
    set.catch_up(&second.log()).await.unwrap();
    let (one, two) =
        (first.metrics(Format::Prometheus).await, second.metrics(Format::Prometheus).await);
    let handled = "anabranch_events_handled_total{set=\"s\",consumer=\"orders\"}";
    assert_eq!((value(&one, handled), value(&two, handled)), (None, Some(12.0)));
    let appended = "anabranch_append_seconds_count";
    assert_eq!((value(&one, appended), value(&two, appended)), (Some(4.0), Some(0.0)));
}

async fn a_server_shows_slots_of_dead_workers(db: Db) {
    let log = db.log().await;
    let watch = Watch::new(db.log().await).for_server();
    let server = watch.listen("127.0.0.1:0").unwrap();
    let at = server.address();
    until_ready(at).await;
    fill(&log, 0..5, 1..=2).await;
    let long = Tuning::default().lease(Duration::from_secs(300));
    let worker = start(&log, ReplicaSet::new("s").projection(db.recorder("orders")).tuning(long));
    let owned = "anabranch_slots_owned{set=\"s\",consumer=\"orders\"}";
    let lag = "anabranch_lag_events{set=\"s\",consumer=\"orders\"}";
    until_says(at, "/metrics", |_, body| {
        value(body, owned) == Some(5040.0) && value(body, lag) == Some(0.0)
    })
    .await;
    worker.crash();
    let end = format!("UPDATE {} SET lease_us = 1 RETURNING 1", table_of(&log, "workers"));
    query(&log, &end, vec![]).await;
    fill(&log, 0..5, 3..=4).await;
    let text = until_says(at, "/metrics", |_, body| value(body, owned) == Some(0.0)).await;
    let dead = "anabranch_slots_idle{set=\"s\",consumer=\"orders\",reason=\"owner_dead\"}";
    assert_eq!(value(&text, dead), Some(5040.0), "{text}");
    assert_eq!(value(&text, "anabranch_workers{set=\"s\"}"), Some(0.0), "{text}");
    until_says(at, "/metrics", |_, body| value(body, lag) == Some(10.0)).await;
    until_ready(at).await;
}

/// The page, and what the code knows.
#[test]
fn the_page_has_every_metric_as_it_is() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `anabranch_")).collect();
    assert_eq!(rows.len(), METRICS.len());
    for (metric, row) in METRICS.iter().zip(rows) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let kind = match metric.kind {
            anabranch::watch::Kind::Counter => "counter",
            anabranch::watch::Kind::Gauge => "gauge",
            anabranch::watch::Kind::Info => "info",
            _ => "histogram",
        };
        let name = format!("`{}`", metric.name);
        assert_eq!((cells[0], cells[1], cells[3]), (name.as_str(), kind, metric.help));
    }
    // What was promised.
    for name in [
        "lag_events",
        "lag_ready_events",
        "lag_seconds",
        "events_handled_total",
        "handler_seconds",
        "commit_seconds",
        "batch_events",
        "event_failures_total",
        "parked_keys",
        "parked_events",
        "workers",
        "slots_owned",
        "slots_idle",
        "generation",
        "generation_changes_total",
        "handover_pause_seconds",
        "takeovers_total",
        "fenced_total",
        "heartbeat_failures_total",
        "coordination_timeouts_total",
        "outage_seconds_total",
        "wakes_missed_total",
        "read_stalled_seconds",
        "append_seconds",
        "append_batch_events",
        "append_conflicts_total",
        "tasks",
        "task_seconds",
        "deliveries_total",
        "batch_rows_total",
        "sessions",
        "observer_dropped_total",
        "build_info",
    ] {
        assert!(METRICS.iter().any(|known| known.name == format!("anabranch_{name}")), "{name}");
    }
}
