//! Several instances of one job: they share, die, stop, and never collide.

use crate::table::{Rows, Running};
use serde_json::Value;
use std::time::{Duration, Instant};

on_both! {
    three_instances_share_and_finish,
    killed_instances_lose_and_repeat_nothing,
    two_instances_with_the_same_id_do_not_collide,
    fixed_and_elastic_instances_do_not_collide,
    fixed_instances_take_over_what_an_elastic_one_left,
    new_rows_are_found_until_it_is_told_to_stop,
    a_limit_ends_it,
}

const SOON: [&str; 2] = ["--lease", "1"];

fn rows_of(summary: &Value) -> u64 {
    summary["succeeded"].as_u64().unwrap()
}

async fn three_instances_share_and_finish(rows: Rows) {
    rows.add(1..=240).await;
    // Rows that take a while, so that nobody is done before the last has started.
    let arguments = ["--workers", "2", "--command", "sleep 0.05"];
    let running: Vec<Running> = (0..3).map(|_| rows.start(&arguments)).collect();
    let shares: Vec<u64> = running.into_iter().map(|one| rows_of(&one.summary())).collect();
    assert_eq!(shares.iter().sum::<u64>(), 240);
    assert!(shares.iter().all(|share| *share >= 40), "one has had too little: {shares:?}");
    let (verified, sound) = rows.verify(&["--complete"]);
    assert!(sound && verified["sessions"].as_array().unwrap().len() == 3, "{verified}");
    rows.drop().await;
}

async fn killed_instances_lose_and_repeat_nothing(rows: Rows) {
    let copy = rows.copy();
    let arguments = [&SOON[..], &["--batch-size", "50", "--sql", &copy]].concat();
    let mut total = 0;
    for round in 0..5 {
        // Where it is hit differs from run to run; the first rounds are hit as soon as one has started.
        let hit_at = if round < 1 { 0 } else { uuid::Uuid::now_v7().as_u64_pair().1 % 1_500 };
        rows.add(total + 1..=total + 2_000).await;
        let mut running: Vec<Running> = (0..3).map(|_| rows.start(&arguments)).collect();
        rows.until_effects(total as u64 + hit_at).await;
        running.remove(round % 3).kill();
        for other in running {
            other.summary();
        }
        total += 2_000;
        rows.are_done().await;
    }
    rows.drop().await;
}

async fn two_instances_with_the_same_id_do_not_collide(rows: Rows) {
    rows.add(1..=2_000).await;
    let copy = rows.copy();
    let of = |id| rows.start(&["--instance-id", id, "--instance-count", "2", "--sql", &copy]);
    let running = [of("0"), of("0"), of("1")];
    let done: Vec<u64> = running.into_iter().map(|one| rows_of(&one.summary())).collect();
    assert_eq!((done[0] + done[1], done[2]), (1_000, 1_000));
    rows.are_done().await;
    let (verified, _) = rows.verify(&[]);
    for session in verified["sessions"].as_array().unwrap() {
        assert_eq!(session["partitions"], 1, "{verified}");
    }
    rows.drop().await;
}

async fn fixed_and_elastic_instances_do_not_collide(rows: Rows) {
    rows.add(1..=3_000).await;
    let copy = rows.copy();
    let fixed = |id| rows.start(&["--instance-id", id, "--instance-count", "3", "--sql", &copy]);
    let running = [fixed("0"), fixed("1"), rows.start(&["--sql", &copy])];
    let done: u64 = running.into_iter().map(|one| rows_of(&one.summary())).sum();
    assert_eq!(done, 3_000);
    rows.are_done().await;
    rows.drop().await;
}

async fn fixed_instances_take_over_what_an_elastic_one_left(rows: Rows) {
    rows.add(1..=40).await;
    let stuck = rows.start(&[&SOON[..], &["--command", "sleep 20"]].concat());
    let log = rows.table("processing_log");
    let claimed = format!("SELECT count(*) AS n FROM {log} WHERE state = 'claimed'");
    // Before it has made the table there is nothing to count.
    while rows.verify(&[]).0["claimed"] == 0 {}
    stuck.kill();
    assert!(rows.number(&claimed).await > 0);
    let copy = rows.copy();
    let fixed = |id: &str| {
        let part = ["--instance-id", id, "--instance-count", "3", "--sql", &copy];
        rows.run(&[&SOON[..], &part].concat())
    };
    let done: u64 = ["0", "1", "2"].map(|id| rows_of(&fixed(id))).iter().sum();
    assert_eq!(done, 40);
    rows.are_done().await;
    rows.drop().await;
}

async fn new_rows_are_found_until_it_is_told_to_stop(rows: Rows) {
    rows.add(1_000..=1_100).await;
    let running = rows.start(&["--continuous", "0.1", "--sql", &rows.copy()]);
    rows.until_effects(101).await;
    rows.add(1..=10).await;
    rows.until_effects(111).await;
    running.terminate();
    let output = running.output();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    rows.are_done().await;
    rows.drop().await;
}

async fn a_limit_ends_it(rows: Rows) {
    rows.add(1..=100).await;
    let copy = rows.copy();
    assert_eq!(rows_of(&rows.run(&["--limit", "7", "--sql", &copy])), 7);
    let (verified, sound) = rows.verify(&[]);
    assert!(sound && verified["missing"] == 93 && verified["claimed"] == 0, "{verified}");
    let (verified, sound) = rows.verify(&["--complete"]);
    assert!(!sound, "{verified}");
    assert_eq!(verified["violations"][0], "93 rows are not processed yet");
    rows.run(&["--sql", &copy]);
    rows.are_done().await;
    rows.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_it_finishes_what_it_has_begun_and_gives_back_the_rest() {
    let rows = Rows::sqlite().await;
    rows.add(1..=500).await;
    // A row ends when there is a file `go`, and writes down that it has begun and ended.
    let command = "sh -c 'echo >> begun; while [ ! -e go ]; do sleep 0.01; done; echo >> ended'";
    let mut running = rows.start(&["--workers", "2", "--command", command]);
    let lines = |file| {
        let text = std::fs::read_to_string(rows.directory.path().join(file));
        text.map_or(0, |text| text.lines().count())
    };
    let started = Instant::now();
    while lines("begun") < 2 {
        assert!(started.elapsed() < Duration::from_secs(60), "it never begins");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.terminate();
    running.until_said("told to stop");
    std::fs::write(rows.directory.path().join("go"), "").unwrap();
    let summary = running.summary();
    assert_eq!(rows_of(&summary), 2, "{summary}");
    assert_eq!((lines("begun"), lines("ended")), (2, 2));
    let (verified, _) = rows.verify(&[]);
    assert_eq!((&verified["claimed"], &verified["missing"]), (&0.into(), &498.into()));
}
