//! A file that changes: what would happen is said before, and one version of a consumer's code runs at a time.

use crate::place::{Place, number};
use crate::process::stdout;
use serde_json::Value;
use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

pub const FILE: &str = r#"
[[replica_set]]
name = "reports"
tuning = { lease = "60s", heartbeat = "100ms" }

[[replica_set.projection]]
name = "totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, cents BIGINT NOT NULL, by_code TEXT NOT NULL)'
reset = 'DELETE FROM totals'
[replica_set.projection.on]
OrderPlaced = "INSERT INTO totals (id, cents, by_code) VALUES (:stream_id, :data.cents, 'old')"

[[replica_set.projection]]
name = "seen"
partition = "entity:Order"
setup = 'CREATE TABLE seen (id TEXT PRIMARY KEY)'
[replica_set.projection.on]
OrderPlaced = 'INSERT INTO seen (id) VALUES (:stream_id)'
"#;

/// The same with other SQL for `totals`.
pub fn changed() -> String {
    FILE.replace("'old'", "'new'")
}

/// A process of `anabranch run`. None outlives the test.
pub struct Process(pub Child);

impl Process {
    pub fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.process(arguments);
        Self(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    pub fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        std::process::Command::new("kill").args([signal, &id]).status().unwrap();
    }

    /// Ends it as an operator does, and returns what it has said.
    pub fn stop(mut self) -> String {
        self.signal("-TERM");
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let ended = self.0.wait().unwrap();
        assert!(ended.success(), "{ended}: {said}");
        said
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited a minute for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What is planned of each consumer: its name, its change and what is said of it.
fn planned(place: &Place, file: &str, code: i32) -> Vec<(String, String, String)> {
    let output = place.command(&["run", file, "--plan", "--json"]);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    let consumers = printed["consumers"].as_array().unwrap().iter();
    consumers.map(|one| (text(one, "name"), text(one, "change"), text(one, "says"))).collect()
}

fn changes(planned: &[(String, String, String)]) -> Vec<(&str, &str)> {
    planned.iter().map(|(name, change, _)| (name.as_str(), change.as_str())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_what_would_happen_and_changes_nothing() {
    for place in [Place::sqlite(), Place::postgres()] {
        place.write("orders.toml", FILE);
        let log = place.log().await;
        let plan = planned(&place, "orders.toml", 0);
        assert_eq!(changes(&plan), [("totals", "new"), ("seen", "new")]);
        let consumers = log.database().dialect().table("consumers");
        assert_eq!(number(&log, &format!("SELECT count(*) FROM {consumers}")).await, 0);

        stdout(&place.command(&["run", "orders.toml", "--catch-up"]));
        let plan = planned(&place, "orders.toml", 0);
        assert_eq!(changes(&plan), [("totals", "unchanged"), ("seen", "unchanged")]);
        // Layout, lanes and retry are no code.
        let same = FILE
            .replace("INSERT INTO totals (id,", "INSERT  INTO totals -- so\\n (id ,")
            .replace("reset = ", "batch_size = 7\nretry = { attempts = 2 }\nreset = ")
            .replace("name = \"reports\"", "# a comment\nname = \"reports\"\nlanes = 3");
        place.write("same.toml", &same);
        let plan = planned(&place, "same.toml", 0);
        assert_eq!(changes(&plan), [("totals", "unchanged"), ("seen", "unchanged")]);

        place.write("code.toml", &changed());
        let plan = planned(&place, "code.toml", 0);
        assert_eq!(changes(&plan), [("totals", "code"), ("seen", "unchanged")]);
        assert!(plan[0].2.contains("it waits for --accept totals, or a rebuild"), "{plan:?}");
        let shown = stdout(&place.command(&["run", "code.toml", "--plan", "--accept"]));
        assert!(shown.contains("it is accepted"), "{shown}");

        let scope = FILE
            .replace("OrderPlaced = \"INSERT", "OrderPaid = 'SELECT 1'\nOrderPlaced = \"INSERT");
        place.write("scope.toml", &scope);
        let plan = planned(&place, "scope.toml", 1);
        assert_eq!(changes(&plan), [("totals", "scope"), ("seen", "unchanged")]);
        assert!(plan[0].2.contains("accept-scope totals"), "{plan:?}");

        let partition = FILE.replacen("entity:Order", "customer", 1);
        place.write("partition.toml", &partition);
        let plan = planned(&place, "partition.toml", 1);
        assert_eq!(changes(&plan), [("totals", "partition"), ("seen", "unchanged")]);

        let renamed = FILE.replace("\"totals\"", "\"sums\"");
        place.write("renamed.toml", &renamed);
        let plan = planned(&place, "renamed.toml", 0);
        assert_eq!(changes(&plan), [("sums", "new"), ("seen", "unchanged"), ("totals", "gone")]);
        assert!(plan[2].2.contains("`anabranch forget totals`"), "{plan:?}");
        // None of that has left a trace.
        let plan = planned(&place, "orders.toml", 0);
        assert_eq!(changes(&plan), [("totals", "unchanged"), ("seen", "unchanged")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_code_waits_until_it_is_accepted_and_then_the_old_one_stops() {
    for place in [Place::sqlite(), Place::postgres()] {
        place.write("old.toml", FILE);
        place.write("new.toml", &changed());
        let log = place.log().await;
        let by = async |code: &str| {
            number(&log, &format!("SELECT count(*) FROM totals WHERE by_code = '{code}'")).await
        };
        place.order(&log, "1", r#"{"cents": 1}"#).await;
        stdout(&place.command(&["run", "old.toml", "--catch-up"]));
        let new = Process::start(&place, &["run", "new.toml"]);
        until("the tables of all consumers to say it", async || {
            let says = |command: &&str| {
                let shown = stdout(&place.command(&[command]));
                shown.contains("waits: workers have other code than the accepted one")
            };
            ["status", "lag"].iter().all(says).then_some(())
        })
        .await;
        let old = Process::start(&place, &["run", "old.toml"]);
        until("the new code to be known", async || {
            let shown = stdout(&place.command(&["status", "totals"]));
            shown.contains("than the accepted one").then_some(())
        })
        .await;
        place.order(&log, "2", r#"{"cents": 2}"#).await;
        until("the second order", async || (by("old").await == 2).then_some(())).await;
        let accepting = Process::start(&place, &["run", "new.toml", "--accept", "totals"]);
        until("the old code to be refused", async || {
            let plan = planned(&place, "old.toml", 0);
            (plan[0].1 == "code").then_some(())
        })
        .await;
        for id in 3..9 {
            place.order(&log, &id.to_string(), r#"{"cents": 3}"#).await;
        }
        until("the other orders", async || (by("new").await == 6).then_some(())).await;
        until("all that are seen", async || {
            (number(&log, "SELECT count(*) FROM seen").await == 8).then_some(())
        })
        .await;
        assert_eq!(by("old").await, 2);
        let said = accepting.stop();
        assert!(said.contains("accepted for `totals`"), "{said}");
        new.stop();
        let said = old.stop();
        assert!(said.contains("has other code here"), "{said}");
    }
}
