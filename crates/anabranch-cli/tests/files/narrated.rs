//! What a run says: what it runs and where, and counts now and then. Fixed partitions by flags.

use crate::place::{Place, number};
use crate::process::{failure, stdout};
use serde_json::Value;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Stdio};

const TOTALS: &str = r#"
[[replica_set]]
name = "reports"
lanes = 2

[[replica_set.projection]]
name = "Totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, cents BIGINT NOT NULL)'
retry = { attempts = 1, then = "park" }
on.OrderPlaced = 'INSERT INTO totals (id, cents) VALUES (:stream_id, :data.cents)'
"#;

struct Run {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
}

impl Run {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.process(&[&["run", "orders.toml"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, said }
    }

    fn next(&mut self) -> String {
        self.said.next().unwrap().unwrap()
    }

    /// The first line that has this.
    fn until(&mut self, part: &str) -> String {
        let found = self.said.by_ref().map(Result::unwrap).find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("it never says {part}"))
    }

    fn stop(self) -> String {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(&id).status().unwrap().success());
        stdout(&self.child.wait_with_output().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_says_what_it_runs_and_counts() {
    for (place, url) in [(Place::sqlite(), "sqlite:"), (Place::postgres(), "postgres")] {
        let log = place.log().await;
        place.write("orders.toml", TOTALS);
        place.order(&log, "1", r#"{"cents": 2}"#).await;
        place.order(&log, "2", "{}").await;
        let mut run = Run::start(&place, &["--json", "--counts-every", "1"]);
        let first = run.next();
        assert!(first.contains("running `reports` (Totals; 2 lanes) on "), "{first}");
        assert!(first.contains(url) && first.contains(", elastic; Ctrl-C"), "{first}");
        assert!(!first.contains("password"), "{first}");
        let line = run.until("in the last 1 s: Totals");
        assert!(line.contains("handled"), "{line}");
        // One that failed is parked, and said once.
        let line = if line.contains("1 parked") { line } else { run.until("1 parked") };
        assert!(line.contains("lag 0, 1 parked"), "{line}");
        place.order(&log, "3", r#"{"cents": 2}"#).await;
        let line = run.until("in the last");
        assert!(
            line.contains("Totals 1 handled, lag 0, 1 parked"),
            "nothing was new before: {line}"
        );
        let printed = run.stop();
        let figures: Value = serde_json::from_str(printed.trim()).unwrap();
        assert_eq!(figures["consumers"][0]["handled"], 2, "only JSON is on standard output");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_make_a_run_one_partition() {
    for place in [Place::sqlite(), Place::postgres()] {
        let log = place.log().await;
        place.write("orders.toml", TOTALS);
        for order in 0..40 {
            place.order(&log, &order.to_string(), r#"{"cents": 2}"#).await;
        }
        let count = "SELECT count(*) FROM totals";
        let mut command = place.process(&["run", "orders.toml", "--catch-up"]);
        command.args(["--partition-key", "0", "--total-partitions", "2"]);
        // A flag wins over its variable.
        let ran = command.env("PARTITION_KEY", "1").env("TOTAL_PARTITIONS", "3").output().unwrap();
        let said = String::from_utf8(ran.stderr.clone()).unwrap();
        stdout(&ran);
        assert!(said.contains("catching up `reports` (Totals; 2 lanes) on "), "{said}");
        assert!(said.contains(", partition 0 of 2; "), "{said}");
        let some = number(&log, count).await;
        assert!((1..40).contains(&some), "{some}");
        let rest =
            ["run", "orders.toml", "--catch-up", "--partition-index=1", "--total-partitions=2"];
        stdout(&place.command(&rest));
        assert_eq!(number(&log, count).await, 40);
    }
}

#[test]
fn half_a_partition_is_refused_before_anything_is_created() {
    let place = Place::sqlite();
    place.write("orders.toml", TOTALS);
    for (flag, other) in
        [("--partition-key", "--total-partitions"), ("--total-partitions", "--partition-key")]
    {
        let said = failure(&place.command(&["run", "orders.toml", flag, "1"]), 1);
        let expected = format!("{flag}: is set, but {other} is not; set both or neither");
        assert!(said.contains(&expected), "{said}");
    }
    let wrong = ["run", "orders.toml", "--partition-key", "2", "--total-partitions", "2"];
    assert!(failure(&place.command(&wrong), 1).contains("--partition-key: is 2; use 0 to 1"));
    assert!(!place.path("orders.db").exists());
}

#[test]
fn names_that_differ_in_capitals_only_are_one_mistake() {
    let place = Place::sqlite();
    let twin =
        TOTALS.split_once("[[replica_set.projection]]").unwrap().1.replace("Totals", "TOTALS");
    place.write("orders.toml", &format!("{TOTALS}\n[[replica_set.projection]]{twin}"));
    let said = failure(&place.command(&["check", "orders.toml", "--offline"]), 1);
    assert!(said.contains("there is another consumer `Totals`, in line 7"), "{said}");
    assert!(
        said.contains("differ only in capital letters") && said.contains("1 mistake"),
        "{said}"
    );
}
