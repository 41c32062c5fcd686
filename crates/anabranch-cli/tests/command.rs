//! The command, as a user runs it: real processes, real files, real exit codes.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test fails by panicking")]

mod process;

use process::{anabranch, failure, postgres, run, stdout};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

#[test]
fn the_demo_proves_itself() {
    let here = tempfile::tempdir().unwrap();
    let outcome: serde_json::Value =
        serde_json::from_str(&stdout(&run(here.path(), &["demo", "--json", "--events", "20000"])))
            .unwrap();
    assert_eq!(outcome["events"], 20_000);
    assert_eq!(outcome["handled"], outcome["events"]);
    for zero in ["lost", "doubled", "out_of_order"] {
        assert_eq!(outcome[zero], 0, "{zero}");
    }
    assert!(outcome["handovers"].as_u64().unwrap() > 0, "no slot changed hands");
    for pause in ["p50", "p99", "max"] {
        assert!(outcome["handover_pause_ms"][pause].as_f64().unwrap() >= 0.0);
    }
    assert!(outcome["seconds"].as_f64().unwrap() > 0.0);
    assert!(outcome["events_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0, "it leaves nothing behind");
    let text = stdout(&run(here.path(), &["demo", "--events", "4000"]));
    assert!(text.contains("verified from the tables: every event once and in order"), "{text}");
}

#[test]
fn a_new_user_appends_and_reads_back() {
    let here = tempfile::tempdir().unwrap();
    let append = |arguments: &[&str]| run(here.path(), &[&["append"], arguments].concat());
    let id = "018f3f3e-8f6b-7c1a-8f3e-000000000001";
    let recorded = stdout(&append(&["Order:1", "OrderPlaced", r#"{"total": 4}"#, "--id", id]));
    assert_eq!(recorded, format!("1 1 {id}\n"));
    assert_eq!(
        stdout(&append(&["Order:1", "OrderPlaced", r#"{"total":4}"#, "--id", id])),
        recorded
    );
    stdout(&append(&[
        "Order:2",
        "OrderPlaced",
        "--tag",
        "x",
        "--customer",
        "c",
        "--expect",
        "none",
    ]));
    stdout(&append(&["Order:1", "OrderPaid", "--expect", "1"]));

    let conflict = failure(&append(&["Order:1", "OrderPaid", "--expect", "1"]), 1);
    assert!(conflict.contains("expected version 1, but it stands at version 2"), "{conflict}");
    let below_zero = failure(&append(&["Order:1", "OrderPaid", "--expect", "-1"]), 2);
    assert!(below_zero.contains("a whole number from 0"), "{below_zero}");
    let bad_json = failure(&append(&["Order:1", "OrderPaid", "{"]), 1);
    assert!(bad_json.contains("the data is not JSON"), "{bad_json}");
    let bad_stream = failure(&append(&["Order", "OrderPaid"]), 2);
    assert!(bad_stream.contains("write it as category:id"), "{bad_stream}");
    let typo = failure(&run(here.path(), &["tial"]), 2);
    assert!(typo.contains("'tail'"), "{typo}");

    let tail = |arguments: &[&str]| stdout(&run(here.path(), &[&["tail"], arguments].concat()));
    assert_eq!(tail(&[]).lines().count(), 3);
    assert!(tail(&["-n", "1"]).contains("Order:1@2  OrderPaid null"));
    assert!(tail(&["--tag", "x"]).contains("#x"));
    assert_eq!(tail(&["--type", "OrderPlaced"]).lines().count(), 2);
    assert_eq!(tail(&["--stream", "Order:1"]).lines().count(), 2);
    assert_eq!(tail(&["--after", "1"]).lines().count(), 2);
    let event: serde_json::Value = serde_json::from_str(&tail(&["-n", "1", "--json"])).unwrap();
    assert_eq!((&event["type"], &event["version"]), (&"OrderPaid".into(), &2.into()));
}

#[test]
fn a_database_that_is_not_there_is_an_error_with_a_remedy() {
    let here = tempfile::tempdir().unwrap();
    let tail = |url: &str| failure(&run(here.path(), &["tail", "--url", url]), 1);
    let message = tail("postgres://app:secret@127.0.0.1:1/shop");
    assert!(message.contains("cannot reach postgres://app@127.0.0.1:1/shop"), "{message}");
    assert!(message.contains("check that the server runs"), "{message}");
    let message = tail("mysql://root:secret@localhost/shop");
    assert!(message.contains("names no database that we know"), "{message}");
    assert!(!message.contains("secret"), "{message}");
    let server = postgres().rsplit_once('/').map(|(server, _)| server.to_owned()).unwrap();
    let message = tail(&format!("{server}/no_such_place"));
    assert!(message.contains("database \"no_such_place\" does not exist"), "{message}");
    assert!(message.contains("postgres://user:password@host:5432/database"), "{message}");
    assert!(!message.contains("throwaway"), "{message}");
    let append = ["append", "Order:1", "OrderPlaced", "--url", "sqlite:no/such/place.db"];
    assert!(failure(&run(here.path(), &append), 1).contains("that its directory exists"));
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
}

/// A typing error in the URL is an error, not a new and empty log.
#[test]
fn commands_that_look_or_operate_create_nothing() {
    let here = tempfile::tempdir().unwrap();
    let namespace = format!("nothing_{}", std::process::id());
    let commands = [
        "tail",
        "tail --follow",
        "tail --stream Order:1",
        "status",
        "workers",
        "generations",
        "offsets sums",
        "rescale sums --from 2 --to 3",
        "pause sums",
        "replay sums --from-start",
        "skip-to-head sums --yes",
        "forget sums --yes",
        "parked list sums",
        "tasks pools",
        "tasks list payouts",
        "batch verify --source rows --key id --job job",
        "partition explain Order:1 --consumer sums",
        "rebuild compare sums --view",
    ];
    for url in ["sqlite:typo.db", "sqlite:no/such/place.db", "sqlite::memory:", &postgres()] {
        for command in commands {
            let log = ["--url", url, "--namespace", &namespace];
            let arguments: Vec<&str> = command.split(' ').chain(log).collect();
            let error = failure(&run(here.path(), &arguments), 1);
            assert!(error.contains("there is no log `nothing_"), "{command}: {error}");
            assert!(error.contains("create it with `anabranch migrate`"), "{command}: {error}");
        }
    }
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
}

#[test]
fn migrations_are_printed_for_both_databases() {
    let here = tempfile::tempdir().unwrap();
    let print = |url: &str| {
        let options = ["--namespace", "billing", "--hash-rule", "md5"];
        let arguments = [&["migrate", "--print", "--url", url], &options[..]].concat();
        stdout(&run(here.path(), &arguments))
    };
    assert!(print("sqlite:x.db").contains("CREATE TABLE billing_events"));
    assert!(print("postgres://nowhere/x").contains("CREATE TABLE \"billing\".events"));
    assert!(print("sqlite:x.db").contains("'md5'"));
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0, "printing touches nothing");

    let migrate = |rule: &str| run(here.path(), &["migrate", "--hash-rule", rule]);
    assert!(migrate("md5").status.success());
    assert!(migrate("md5").status.success(), "nothing to do is fine");
    assert!(failure(&migrate("fnv1a"), 1).contains("hash rule md5, not fnv1a"));
    assert!(failure(&migrate("sha1"), 2).contains("use fnv1a, md5 or integer"));
}

/// Kills a process that appends, at whatever it is doing: what it had acknowledged is there, and
/// every append is there whole or not at all.
#[test]
fn a_killed_process_leaves_whole_appends_and_all_that_it_acknowledged() {
    let here = tempfile::tempdir().unwrap();
    let namespace = format!("kill_{}", std::process::id());
    for url in ["sqlite:kill.db", &postgres()] {
        let log = ["--url", url, "--namespace", &namespace];
        for round in 0..5u64 {
            let mut child = anabranch(here.path())
                .args(["append", "--lines", "--batch", "7"])
                .args(log)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = child.stdin.take().unwrap();
            let writer = std::thread::spawn(move || {
                for number in 0.. {
                    let batch = number / 7;
                    let data = format!(r#"{{"round":{round},"batch":{batch}}}"#);
                    let stream = format!("Kill:{}", number % 3);
                    let line = format!(
                        r#"{{"stream":"{stream}","type":"Line","data":{data},"tags":["t"]}}"#
                    );
                    if writeln!(input, "{line}").is_err() {
                        return;
                    }
                }
            });
            let acknowledged = BufReader::new(child.stdout.take().unwrap()).lines();
            let some = 50 + 37 * round as usize;
            let acknowledged: Vec<String> = acknowledged.take(some).map(Result::unwrap).collect();
            child.kill().unwrap();
            child.wait().unwrap();
            writer.join().unwrap();
            let all = run(here.path(), &[&["tail", "--after", "0", "--json"], &log[..]].concat());
            verify(&stdout(&all), round, &acknowledged);
        }
    }
}

fn verify(stored: &str, round: u64, acknowledged: &[String]) {
    let stored: Vec<serde_json::Value> =
        stored.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: HashSet<&str> = stored.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), stored.len());
    for line in acknowledged {
        let id = line.split(' ').nth(2).unwrap();
        assert!(ids.contains(id), "{line} was acknowledged and is gone");
    }
    let of_round: Vec<u64> = stored
        .iter()
        .filter(|event| event["data"]["round"] == round)
        .map(|event| event["data"]["batch"].as_u64().unwrap())
        .collect();
    assert!(of_round.len() >= acknowledged.len());
    assert_eq!(of_round.len() % 7, 0, "a batch is there in part");
    let expected: Vec<u64> = (0..of_round.len() as u64).map(|number| number / 7).collect();
    assert_eq!(of_round, expected, "whole batches, in order");
}

#[test]
fn lines_that_are_wrong_are_named() {
    let here = tempfile::tempdir().unwrap();
    let append = |text: &str| {
        let mut child = anabranch(here.path())
            .args(["append", "--lines"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let good = r#"{"stream":"A:1","type":"T","metadata":{"a":1},"schema_version":2}"#;
    assert_eq!(stdout(&append(&format!("{good}\n\n{good}\n"))).lines().count(), 2);
    for (bad, message) in [
        (r#"{"stream":"A:1"}"#, "missing field `type`"),
        (r#"{"stream":"A","type":"T"}"#, "has no colon"),
        (r#"{"stream":"A:1","type":"T","tag":1}"#, "unknown field `tag`"),
        (r#"{"stream":"A:1","type":""}"#, "type of event 1: is empty"),
    ] {
        let output = append(&format!("{good}\n{bad}\n"));
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("line 2") && error.contains(message), "{error}");
    }
}

/// The figures are for a machine at rest; here the shape of the output counts.
#[test]
fn the_benchmark_prints_one_object_a_case() {
    let here = tempfile::tempdir().unwrap();
    for url in ["sqlite:bench.db", &postgres()] {
        let small = ["--events", "2000", "--seconds", "0.1", "--repeats", "1", "--json"];
        let output = run(here.path(), &[&["bench", "log", "--url", url], &small[..]].concat());
        let mut cases = Vec::new();
        for line in stdout(&output).lines() {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(case["bench"], "log");
            for number in ["lanes", "rate", "limit", "ratio"] {
                assert!(case[number].as_f64().unwrap() > 0.0, "{number} in {line}");
            }
            cases.push(case["case"].as_str().unwrap().to_owned());
        }
        assert_eq!(cases, ["single", "concurrent", "batch", "processes", "read"]);
    }
}
