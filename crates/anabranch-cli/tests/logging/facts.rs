//! The log as programs read it: every line of two workers with a hand-over and a parked key is one JSON object, and who,
//! where and in which generation are fields of it.

use crate::place::{Place, python, python_client};
use crate::process::stdout;
use anabranch::operate::Consumers;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "hunter2kolibri";

const FILE: &str = r#"
[[replica_set]]
name = "reports"
lanes = 2
tuning = { lease = "60s", heartbeat = "150ms" }

[[replica_set.projection]]
name = "totals"
partition = "entity:Order"
setup = 'CREATE TABLE totals (id TEXT PRIMARY KEY, cents BIGINT NOT NULL)'
retry = { attempts = 2, first = "10ms", then = "park" }
on.OrderPlaced = 'INSERT INTO totals (id, cents) VALUES (:stream_id, :data.cents)'

[[replica_set.webhook]]
name = "crm"
partition = "entity:Nothing"
to = "https://example.com/hook?token=hunter2kolibri"
headers = { Authorization = "Bearer hunter2kolibri" }

[[replica_set.pool]]
name = "mail"
command = ["@PYTHON@", "mail.py"]
env = { PYTHONPATH = "@CLIENT@" }
retry = { attempts = 2, first = "10ms", then = "park" }
"#;

/// A worker that logs all it has to say, as JSON.
struct Worker {
    process: Child,
    log: std::path::PathBuf,
}

impl Worker {
    fn start(place: &Place, name: &str) -> Self {
        let log = place.path(name);
        let level = "debug,hyper_util=off";
        let said = ["run", "reports.toml", "--log-format", "json", "--log-level", level];
        let mut command = place.process(&said);
        command.env("PGPASSWORD", SECRET);
        let process = command.stderr(std::fs::File::create(&log).unwrap()).stdout(Stdio::null());
        Self { process: process.spawn().unwrap(), log }
    }

    /// Every line, of which each is an object.
    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        assert!(!text.contains(SECRET), "{text}");
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| match serde_json::from_str(line) {
                Ok(line @ Value::Object(_)) => line,
                other => panic!("{other:?}: {line}"),
            })
            .collect()
    }

    fn until(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            if let Some(line) = self.lines().into_iter().find(|line| is_it(line)) {
                return line;
            }
            assert!(began.elapsed() < PATIENCE, "no line says {what}: {:#?}", self.lines());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(mut self) -> Vec<Value> {
        let pid = self.process.id().to_string();
        std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(self.process.wait().unwrap().success(), "{:#?}", self.lines());
        self.lines()
    }
}

fn says(line: &Value, text: &str) -> bool {
    line["message"].as_str().is_some_and(|message| message.contains(text))
}

async fn every_line_is_a_fact(place: Place) {
    let file = FILE.replace("@PYTHON@", &python());
    place.write("reports.toml", &file.replace("@CLIENT@", &python_client().display().to_string()));
    place.write("mail.py", "from anabranch import Failed, run_tasks\ndef handle(task, tx):\n    raise Failed('no')\nrun_tasks(handle)\n");
    let first = Worker::start(&place, "first.log");
    let claimed = first.until("that slots are claimed", |line| {
        says(line, "slots are claimed") && line["consumer"] == "totals"
    });
    assert!(claimed["lane"].is_u64() && claimed["worker"].is_string(), "{claimed}");
    assert_eq!((&claimed["set"], &claimed["generation"]), (&"reports".into(), &1.into()));
    // A key that fails, of an event and of a task.
    stdout(&place.command(&["append", "Order:1", "OrderPlaced", "{}"]));
    let log = place.log().await;
    let tasks = anabranch::workpool::Tasks::new(&log, "mail");
    let task = anabranch::workpool::NewTask::new("c-1", &serde_json::json!({ "cents": null }));
    let task = tasks.enqueue(task).await.unwrap().id.to_string();
    let parked = first.until("a parked key", |line| says(line, "parked a key"));
    assert_eq!(parked["level"], "ERROR");
    assert_eq!((&parked["consumer"], &parked["key"]), (&"totals".into(), &"Order:1".into()));
    assert_eq!((&parked["worker"], &parked["generation"]), (&claimed["worker"], &1.into()));
    assert!(parked["lane"].is_u64() && parked["attempts"] == 1, "{parked}");
    assert!(!parked["error"].as_str().unwrap().is_empty());
    let dead = first.until("a dead task", |line| says(line, "a task is dead"));
    assert_eq!((&dead["consumer"], &dead["task"]), (&"mail".into(), &task.into()));
    assert!(dead["lane"].is_u64() && dead["worker"] == claimed["worker"], "{dead}");

    // Another one comes, and gets half of it.
    let second = Worker::start(&place, "second.log");
    let handed = second.until("what it was handed", |line| {
        says(line, "slots are claimed") && line["consumer"] == "totals"
    });
    assert_ne!(handed["worker"], claimed["worker"]);
    let generation = handed["generation"].as_i64().unwrap();
    assert!(generation > 1, "{handed}");
    let released = first.until("what it has handed over", |line| {
        says(line, "slots are released") && line["consumer"] == "totals"
    });
    assert_eq!(released["worker"], claimed["worker"]);
    assert!(released["lane"].is_u64() && released["generation"].as_i64() >= Some(2), "{released}");
    let owners = Consumers::new(&log).workers().await.unwrap();
    let mut alive: Vec<String> = owners.into_iter().map(|it| it.id).collect();
    alive.sort_unstable();
    let mut said = [&claimed, &handed].map(|line| line["worker"].as_str().unwrap().to_owned());
    said.sort_unstable();
    assert_eq!(alive, said);
    let mut lines = first.stop();
    lines.extend(second.stop());

    let mut made = BTreeSet::new();
    for line in &lines {
        for field in ["timestamp", "level", "target", "message"] {
            assert!(line[field].is_string(), "{field}: {line}");
        }
        // Who and where are not hidden in a text.
        let text = format!("{} {}", line["message"], line["detail"]);
        for field in ["consumer=", "lane=", "worker=", "generation="] {
            assert!(!text.contains(field), "{line}");
        }
        assert!(line["lane"].is_null() || line["lane"].is_u64(), "{line}");
        assert!(line["generation"].is_null() || line["generation"].is_i64(), "{line}");
        // What a lane does is of a consumer, a worker, a set and a generation.
        if line["lane"].is_u64() {
            assert!(line["consumer"].is_string() && line["worker"].is_string(), "{line}");
            assert!(line["generation"].is_i64() && line["set"] == "reports", "{line}");
        }
        if says(line, "a new generation") {
            assert!(made.insert(line["generation"].as_i64().unwrap()), "said twice: {line}");
        }
    }
    assert!(made.len() >= 2, "{made:?}");
}

#[tokio::test]
async fn every_line_is_a_fact_on_sqlite() {
    Box::pin(every_line_is_a_fact(Place::sqlite())).await;
}

#[tokio::test]
async fn every_line_is_a_fact_on_postgres() {
    Box::pin(every_line_is_a_fact(Place::postgres())).await;
}

/// A collector that is named while the build exports nothing is said once, and nothing else is different.
#[cfg(not(feature = "otel"))]
#[test]
fn a_build_without_spans_says_so_once() {
    let here = crate::place();
    for name in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
        let said = |command: &[&str]| {
            let mut command = crate::process::anabranch(here.path())
                .args(command)
                .env(name, "http://localhost:4318")
                .output()
                .unwrap();
            String::from_utf8(std::mem::take(&mut command.stderr)).unwrap()
        };
        let text = said(&["run", "orders.toml", "--catch-up"]);
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(name)).collect();
        assert!(lines.len() == 1 && lines[0].contains("--features otel"), "{text}");
        // Who only looks has nothing to export.
        assert!(!said(&["status", "--url", "sqlite:orders.db"]).contains(name));
    }
}
