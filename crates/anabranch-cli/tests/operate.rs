//! Operating consumers from the command line: a projection that runs in this process, and the
//! command in others.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod printed;
mod process;
mod sums;

use printed::{lines, said, words};
use process::{failure, postgres, run, stdout};
use serde_json::Value;
use std::time::Duration;
use sums::{Bench, until};

/// The projection's name; its table is named after the bench.
const NAME: &str = "sums";

#[tokio::test(flavor = "multi_thread")]
async fn status_says_how_far_consumers_are_and_who_runs_them() {
    let bench = Bench::sqlite();
    assert!(failure(&bench.command(&["status"]), 1).contains("there is no log"));
    let log = bench.log().await;
    assert!(said(&bench.command(&["status"])).contains("no consumers yet"));
    assert!(said(&bench.command(&["workers"])).contains("no workers"));

    bench.fill(&log, 1..=5, 2).await;
    bench.catch_up(&log).await;
    bench.fill(&log, 1..=1, 1).await;
    let text = stdout(&bench.command(&["status"]));
    assert_eq!(
        words(&text),
        [
            vec![
                "CONSUMER", "KIND", "STRATEGY", "VERSION", "STATE", "POSITION", "HEAD", "LAG",
                "READY", "RETRYING", "PARKED"
            ],
            vec![
                NAME,
                "projection",
                "entity, fnv1a",
                "1",
                "no worker",
                "10",
                "11",
                "1",
                "1",
                "-",
                "-"
            ],
        ]
    );
    let text = stdout(&bench.command(&["status", NAME]));
    assert_eq!(
        words(&text)[3..],
        [
            ["SLOTS", "COUNT", "POSITION", "LAG", "OWNER", "REASON"],
            ["all", "5040", "10", "1", "unassigned", "unassigned: no living worker runs it"],
        ]
    );
    let json = &lines(&bench.command(&["status", "--json"]))[0];
    assert_eq!(
        (&json["name"], &json["state"], &json["lag"]),
        (&NAME.into(), &"no worker".into(), &1.into())
    );
    assert_eq!(json["cursors"][0]["owner"], "unassigned");

    let running = bench.start(&log).await;
    until("it is handled", async || bench.status(&log).await.lag == 0).await;
    let me = std::process::id();
    let text = stdout(&bench.command(&["status", NAME]));
    assert!(text.contains("running"), "{text}");
    assert!(text.contains(&format!(", pid {me}, a share")), "{text}");
    let runner = words(&text).pop().unwrap().join(" ");
    assert!(runner.ends_with(&format!(":{me} bench 1 5040 -")), "who runs it: {text}");
    let text = stdout(&bench.command(&["workers"]));
    let worker = &words(&text)[1];
    assert_eq!(
        (worker[0], worker[2], worker[3], worker[5], worker[8]),
        ("bench", &*me.to_string(), "a share", "alive", NAME)
    );
    let worker = &lines(&bench.command(&["workers", "--json"]))[0];
    assert_eq!(worker["is_alive"], true);
    let runs = serde_json::json!([{ "consumer": NAME, "version": 1, "unable": null }]);
    assert_eq!(worker["consumers"], runs);
    let json = &lines(&bench.command(&["status", "--json"]))[0];
    assert_eq!(json["runners"][0]["slots"], 5040);
    assert_eq!(json["runners"][0]["replica_set"], "bench");
    let text = stdout(&bench.command(&["generations"]));
    let newest = &words(&text)[1];
    assert_eq!((newest[0], newest[1]), ("bench", "3"), "{text}");
    assert!(newest[3].ends_with("joined") && newest[4].ends_with(": 5040 slots"), "{text}");
    let history = lines(&bench.command(&["generations", "bench", "--json", "-n", "2"]));
    assert_eq!(history.len(), 2);
    assert_eq!(history[1]["members"], serde_json::json!([]), "everybody had left");
    for more in [&[][..], &["--json"]] {
        let typo = bench.command(&[&["generations", "typo"], more].concat());
        assert!(failure(&typo, 1).contains("there is no replica set `typo`"));
    }
    let owner = stdout(&bench.command(&["partition", "explain", "Order:3", "--consumer", NAME]));
    assert!(owner.contains("consumer   sums, by entity, fnv1a"), "{owner}");
    assert!(owner.contains("owner      bench on "), "{owner}");
    assert!(failure(&bench.command(&["forget", NAME, "--yes"]), 1).contains("is being run"));

    running.crash();
    let state = async || stdout(&bench.command(&["status", NAME])).contains("dead worker bench on");
    until("its lease is over", state).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_consumer_stands_still_until_it_is_resumed() {
    let bench = Bench::sqlite();
    let log = bench.log().await;
    let running = bench.start(&log).await;
    until("it runs", async || running.holds_all()).await;
    assert!(said(&bench.command(&["pause", NAME])).contains("anabranch resume sums"));
    until("it is paused", async || running.is_paused()).await;
    bench.fill(&log, 1..=3, 1).await;
    let status = &lines(&bench.command(&["status", NAME, "--json"]))[0];
    assert_eq!((&status["state"], &status["lag"]), (&"paused".into(), &3.into()));
    assert_eq!(bench.handled(&log).await, 0);
    said(&bench.command(&["resume", NAME]));
    until("it goes on", async || bench.handled(&log).await == 3).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_stopped_by_itself_says_so_and_is_resumed() {
    for bench in [Bench::sqlite().strict(), Bench::postgres(postgres()).strict()] {
        let log = bench.log().await;
        bench.break_orders(true);
        let running = bench.start(&log).await;
        bench.fill(&log, 1..=3, 1).await;
        let status = || lines(&bench.command(&["status", NAME, "--json"])).remove(0);
        until("it has stopped", async || status()["outage"]["probes"].as_u64() > Some(0)).await;
        let status = status();
        let state = status["state"].as_str().unwrap();
        assert!(state.starts_with("stopped by itself") && state.contains("; tried "), "{state}");
        assert!(state.contains("order 1 is broken in call"), "{state}");
        assert_eq!(status["cursors"][0]["reasons"][0]["reason"], "outage", "{status}");
        let text = stdout(&bench.command(&["status", NAME]));
        assert!(text.contains("stopped by itself") && text.contains(", next "), "{text}");
        said(&bench.command(&["pause", NAME]));
        let paused = lines(&bench.command(&["status", NAME, "--json"])).remove(0);
        let state = paused["state"].as_str().unwrap();
        assert!(state.starts_with("paused, stopped by itself"), "{state}");
        assert!(state.ends_with(", not tried while it is paused"), "{state}");
        assert!(paused["outage"]["next_ms"].is_null(), "{paused}");
        let text = stdout(&bench.command(&["status", NAME]));
        assert_eq!(text.matches("not tried while it is paused").count(), 2, "{text}");
        bench.break_orders(false);
        said(&bench.command(&["resume", NAME]));
        until("it goes on", async || bench.handled(&log).await == 3).await;
        until("it says so", async || bench.status(&log).await.outage.is_none()).await;
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_done_by_the_next_worker() {
    let bench = Bench::sqlite();
    let log = bench.log().await;
    bench.fill(&log, 1..=2, 1).await;
    let then = just_after(&log).await;
    bench.fill(&log, 3..=5, 1).await;
    bench.catch_up(&log).await;
    for (from, after) in [
        (vec!["--from-start"], 0),
        (vec!["--after", "3"], 3),
        (vec!["--from-time", then.as_str()], 2),
    ] {
        let before = bench.calls();
        let asked = said(&bench.command(&[&["replay", NAME], &from[..]].concat()));
        assert!(
            asked.contains(&format!("after position {after}; no worker runs it now")),
            "{asked}"
        );
        let status = &lines(&bench.command(&["status", "--json"]))[0];
        assert_eq!(
            (&status["state"], &status["replay_from"]),
            (&"replay asked".into(), &after.into())
        );
        let running = bench.start(&log).await;
        until("it is replayed", async || bench.calls() == before + 5 - after).await;
        running.stop().await;
        let status = bench.status(&log).await;
        assert_eq!((status.replay_from, status.lag), (None, 0));
        assert_eq!(bench.handled(&log).await, 5, "its reset hook undid what is done again");
    }
    let forwards = failure(&bench.command(&["replay", NAME, "--after", "6"]), 1);
    assert!(forwards.contains("choose a position up to 5"), "{forwards}");
    assert!(failure(&bench.command(&["replay", NAME]), 2).contains("--from-start"));
    let no_zone = failure(&bench.command(&["replay", NAME, "--from-time", "2026-11-15"]), 2);
    assert!(no_zone.contains("with its zone"), "{no_zone}");
}

/// A time after the last event and before the next one.
async fn just_after(log: &anabranch::Log) -> String {
    let all = log.read(anabranch::Query::all()).collect().await.unwrap();
    let last = all.last().unwrap().recorded_at();
    let then = last.checked_add(Duration::from_millis(1)).unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    then.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_keys_are_listed_shown_retried_and_skipped() {
    let bench = Bench::sqlite();
    let log = bench.log().await;
    bench.break_orders(true);
    bench.fill(&log, 1..=1, 3).await;
    let running = bench.start(&log).await;
    let parked = async |keys, events| {
        let status = bench.status(&log).await;
        let counts = (status.parked_keys, status.parked_events, status.lag);
        counts == (keys, events, events) && status.lag_ready == 0
    };
    until("the first order is parked", async || parked(1, 3).await).await;
    bench.break_orders(false);
    bench.fill(&log, 2..=2, 1).await;
    until("other orders go on", async || bench.handled(&log).await == 1).await;
    let text = stdout(&bench.command(&["status"]));
    assert_eq!(words(&text)[1][4], "running, 1 key parked", "{text}");
    assert_eq!(words(&text)[1][7..], ["3", "0", "-", "1 key, 3 events"], "{text}");
    let json = &lines(&bench.command(&["status", "--json"]))[0];
    assert_eq!((&json["lag"], &json["lag_ready"]), (&3.into(), &0.into()));
    assert_eq!((&json["parked_keys"], &json["retrying_keys"]), (&1.into(), &0.into()));
    let text = stdout(&bench.command(&["offsets", NAME]));
    assert!(text.ends_with("lag 3, 3 of it parked\n"), "{text}");
    let json = &lines(&bench.command(&["offsets", NAME, "--json"]))[0];
    assert_eq!((&json["lag"], &json["lag_ready"]), (&3.into(), &0.into()));

    let list = stdout(&bench.command(&["parked", "list", NAME]));
    let row = &words(&list)[1];
    assert_eq!(row[..5], ["Order:1", "parked", "3", "1", "1"]);
    assert_eq!((row[6], row[7]), ("when asked", "order 1 is broken in call 1"), "{list}");
    let key = &lines(&bench.command(&["parked", "list", NAME, "--json"]))[0];
    assert_eq!((&key["key"], &key["events"]), (&"Order:1".into(), &3.into()));
    let show = stdout(&bench.command(&["parked", "show", NAME, "Order:1", "-n", "2"]));
    assert!(
        show.contains("error         order 1 is broken in call 1\nwaiting       3 events\n"),
        "{show}"
    );
    assert_eq!(show.matches("Order:1@").count(), 2, "{show}");
    let show = &lines(&bench.command(&["parked", "show", NAME, "Order:1", "--json"]))[0];
    assert_eq!((&show["attempts"], &show["first_events"][2]["version"]), (&1.into(), &3.into()));

    bench.break_orders(true);
    let error = bench.error(&log).await;
    said(&bench.command(&["parked", "retry", NAME, "Order:1"]));
    let fails_again = async |error: &str| {
        let now = bench.error(&log).await;
        now != error && now.starts_with("order 1 is broken")
    };
    until("it fails again", async || fails_again(&error).await).await;
    assert!(parked(1, 3).await);
    let error = bench.error(&log).await;
    said(&bench.command(&["parked", "skip", NAME, "Order:1"]));
    until("its first event is left out", async || parked(1, 2).await).await;
    until("the next one fails", async || fails_again(&error).await).await;
    bench.break_orders(false);
    said(&bench.command(&["parked", "retry", NAME, "--all"]));
    until("the others are handled", async || parked(0, 0).await).await;
    assert_eq!(bench.handled(&log).await, 3);
    assert!(said(&bench.command(&["parked", "list", NAME])).contains("no parked or retrying keys"));

    bench.break_orders(true);
    bench.fill(&log, 1..=1, 2).await;
    until("it is parked anew", async || parked(1, 2).await).await;
    said(&bench.command(&["parked", "skip", NAME, "Order:1", "--all-events"]));
    until("all are left out", async || parked(0, 0).await).await;
    running.stop().await;

    for command in ["show", "retry", "skip"] {
        let error = failure(&bench.command(&["parked", command, NAME, "Order:9"]), 1);
        assert!(error.contains("no parked key `Order:9`"), "{error}");
    }
    assert!(failure(&bench.command(&["parked", "retry", NAME]), 2).contains("<KEY"));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_tried_again_by_themselves_are_shown_apart() {
    for bench in [Bench::sqlite(), Bench::postgres(postgres())].map(Bench::patient) {
        let log = bench.log().await;
        bench.break_orders(true);
        bench.fill(&log, 1..=2, 2).await;
        let running = bench.start(&log).await;
        until("it has failed once", async || {
            let status = bench.status(&log).await;
            status.retrying_keys == 1 && status.lag == 2
        })
        .await;
        let text = stdout(&bench.command(&["status"]));
        assert_eq!(words(&text)[1][4], "running, 1 key failing", "{text}");
        assert_eq!(words(&text)[1][7..], ["2", "2", "1 key, 2 events", "-"], "{text}");
        let text = stdout(&bench.command(&["status", NAME]));
        assert!(text.contains("1 key waits for its next attempt"), "{text}");
        assert!(!text.contains("parked key"), "{text}");
        let json = &lines(&bench.command(&["status", "--json"]))[0];
        let counts = ["lag", "lag_ready", "parked_keys", "parked_events", "retrying_keys"];
        assert_eq!(counts.map(|name| json[name].as_u64().unwrap()), [2, 2, 0, 0, 1]);
        assert_eq!(json["retrying_events"], 2);
        let list = stdout(&bench.command(&["parked", "list", NAME]));
        let row = &words(&list)[1];
        assert_eq!(row[..2], ["Order:1", "retrying"], "{list}");
        assert!(row[6].starts_with("in "), "{list}");
        let parked = bench.command(&["parked", "list", NAME, "--state", "parked"]);
        assert!(said(&parked).contains("no parked keys"));
        let json = bench.command(&["parked", "list", NAME, "--state", "retrying", "--json"]);
        assert_eq!(lines(&json)[0]["state"], "retrying");
        bench.break_orders(false);
        said(&bench.command(&["parked", "retry", NAME, "--all"]));
        until("it is handled", async || bench.status(&log).await.lag == 0).await;
        running.stop().await;
        assert_eq!(bench.handled(&log).await, 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_taken_back_needs_a_yes() {
    let bench = Bench::sqlite();
    let log = bench.log().await;
    bench.catch_up(&log).await;
    bench.fill(&log, 1..=4, 1).await;
    let skip = failure(&bench.command(&["skip-to-head", NAME]), 2);
    assert!(skip.contains("after position 0 up to 4") && skip.contains("--yes"), "{skip}");
    assert_eq!(bench.status(&log).await.lag, 4);
    assert!(said(&bench.command(&["skip-to-head", NAME, "--yes"])).contains("after position 4"));
    assert_eq!(bench.status(&log).await.lag, 0);
    assert!(failure(&bench.command(&["forget", NAME]), 2).contains("would begin anew"));
    said(&bench.command(&["forget", NAME, "--yes"]));
    assert!(stdout(&bench.command(&["status"])).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_nobody_has_is_an_error_everywhere() {
    let bench = Bench::sqlite();
    bench.log().await;
    for command in [
        &["status", "x"][..],
        &["pause", "x"],
        &["resume", "x"],
        &["replay", "x", "--from-start"],
        &["skip-to-head", "x", "--yes"],
        &["forget", "x", "--yes"],
        &["parked", "list", "x"],
        &["parked", "show", "x", "k"],
        &["parked", "retry", "x", "--all"],
        &["partition", "explain", "k", "--consumer", "x"],
        &["rebuild", "compare", "x", "--table", "t"],
        &["rebuild", "switch", "x", "--view"],
        &["rebuild", "abandon", "x", "--view"],
    ] {
        let error = failure(&bench.command(command), 1);
        assert!(error.contains("there is no consumer `x`"), "{command:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_commands_serve_postgres() {
    let bench = Bench::postgres(postgres());
    let log = bench.log().await;
    bench.fill(&log, 1..=3, 1).await;
    bench.catch_up(&log).await;
    said(&bench.command(&["pause", NAME]));
    let status = &lines(&bench.command(&["status", "--json"]))[0];
    assert_eq!((&status["state"], &status["position"]), (&"paused".into(), &3.into()));
    said(&bench.command(&["resume", NAME]));
    said(&bench.command(&["replay", NAME, "--from-start"]));
    let before = bench.calls();
    let running = bench.start(&log).await;
    until("it is replayed", async || bench.calls() == before + 3).await;
    assert_eq!(lines(&bench.command(&["workers", "--json"]))[0]["replica_set"], "bench");
    running.stop().await;
    assert!(stdout(&bench.command(&["parked", "list", NAME, "--json"])).is_empty());
    said(&bench.command(&["skip-to-head", NAME, "--yes"]));
    said(&bench.command(&["forget", NAME, "--yes"]));
}

#[test]
fn a_key_is_explained_without_a_database() {
    let here = tempfile::tempdir().unwrap();
    let explain = |arguments: &[&str]| {
        let output = run(here.path(), &[&["partition", "explain"], arguments].concat());
        stdout(&output)
    };
    // Computed with other programs.
    for (key, rule, hashed, slot, of_3) in [
        ("ord-123", "fnv1a", "ord-123", 313, 1),
        ("Order:ord-123", "fnv1a", "ord-123", 313, 1),
        ("Order:ord-123", "md5", "ord-123", 4988, 2),
        ("dcb:tenant:T:reservation:res-456", "fnv1a", "dcb:tenant:T:reservation:res-456", 4308, 0),
        ("foobar", "md5", "foobar", 3327, 0),
        ("5041", "integer", "5041", 1, 1),
        ("-1", "integer", "-1", 5039, 2),
    ] {
        let text = explain(&[key, "--rule", rule, "--total", "3", "--json"]);
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["hashed"], &json["slot"]), (&hashed.into(), &slot.into()), "{key}");
        assert_eq!(json["partitions"][0]["index"], of_3, "{key} by {rule}");
    }
    let text = explain(&["Order:ord-123", "--total", "3", "--type", "order"]);
    assert!(
        text.contains("313 = fnv1a of `ord-123` % 5040: a stream has the slot of its id"),
        "{text}"
    );
    assert!(text.contains("partition  1 of 3"), "{text}");
    assert!(text.contains("reader     order_runner_partition_1_of_3\n"), "{text}");
    assert!(explain(&["x", "--total", "11"]).contains("11 does not divide 5040"));
    let table = explain(&["ord-123"]);
    let found: Vec<_> = words(&table).split_off(4);
    let expected = [
        ["2", "1"],
        ["3", "1"],
        ["4", "1"],
        ["5", "3"],
        ["6", "1"],
        ["8", "1"],
        ["10", "3"],
        ["12", "1"],
    ];
    assert_eq!(found, expected, "{table}");
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0, "no database was opened");
    let bad = run(here.path(), &["partition", "explain", "x", "--total", "5041"]);
    assert!(failure(&bad, 2).contains("1..=5040"));
}

#[test]
fn a_log_that_is_named_says_its_rule() {
    let here = tempfile::tempdir().unwrap();
    let log = ["--url", "sqlite:x.db"];
    let migrate = [&["migrate", "--hash-rule", "md5"], &log[..]].concat();
    assert!(run(here.path(), &migrate).status.success());
    let explain = [&["partition", "explain", "Order:ord-123"], &log[..]].concat();
    assert!(stdout(&run(here.path(), &explain)).contains("4988 = md5 of `ord-123`"));
}

#[test]
fn answers_make_a_strategy() {
    let here = tempfile::tempdir().unwrap();
    let classify =
        |arguments: &[&str]| run(here.path(), &[&["partition", "classify"], arguments].concat());
    for (answers, strategy, lanes) in [
        (vec!["--one-entity", "yes"], "entity", 10),
        (vec!["--one-entity", "yes", "--customer-order", "yes"], "customer", 5),
        (vec!["--process", "yes", "--total-order", "no"], "saga", 5),
        (vec!["--process", "yes", "--total-order", "yes"], "global", 1),
    ] {
        let json = &lines(&classify(&[&answers[..], &["--json"]].concat()))[0];
        assert_eq!((&json["strategy"], &json["lanes"]), (&strategy.into(), &lanes.into()));
    }
    let text = stdout(&classify(&["--total-order", "yes"]));
    assert!(
        text.starts_with("strategy  global\nlanes     1 to begin with\nreason    All"),
        "{text}"
    );
    assert!(!text.contains("caution"), "one sequence writes its rows alone: {text}");
    let text = stdout(&classify(&["--one-entity", "yes", "--shared-rows", "yes"]));
    assert!(text.contains("caution   Events of different keys write the same row"), "{text}");
    assert!(failure(&classify(&[]), 2).contains("nobody to ask"));
    assert!(failure(&classify(&["--process", "maybe"]), 2).contains("maybe"));
}
