//! Programs, the processes that run them, and both at once are killed at random moments, while events keep coming and
//! processes come and go. Then every event has been handled once and in order, and so was all that the programs have
//! appended and enqueued.

use crate::hits::{Numbers, Process, append_until, signal};
use crate::place::{Place, number, python, python_client};
use crate::printed::lines;
use anabranch::Log;
use anabranch::Query;
use anabranch::workpool::{TaskState, Tasks};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const KEYS: u64 = 40;
/// How often something is killed, started or stopped.
const MOMENTS: usize = 30;
const MOST_PROCESSES: usize = 4;
/// Something happens within this time after the next progress.
const LONGEST_WAIT_US: u64 = 60_000;

const FILE: &str = r#"
[[replica_set]]
name = "records"
lanes = 2
tuning = { lease = "600ms", heartbeat = "150ms" }

[[replica_set.program]]
name = "recorder"
partition = "entity:Order"
types = ["Numbered"]
command = ["@PYTHON@", "recorder.py"]
env = { PYTHONPATH = "@CLIENT@" }
batch_size = 20
retry = { lasting = "10m", first = "10ms", longest = "100ms" }
setup = [
    'CREATE TABLE records (position BIGINT, key TEXT)',
    'CREATE TABLE numbers (key TEXT PRIMARY KEY, number BIGINT, wrong BIGINT)',
]
"#;

/// It asks, writes, appends and enqueues for each event: all of that is in one transaction, or none of it is.
const PROGRAM: &str = r#"
from anabranch import run

def handle(event, tx):
    key, number = event.stream_id, event.data
    tx.execute("INSERT INTO records (position, key) VALUES ($1, $2)", event.position, key)
    row = tx.query_first("SELECT number FROM numbers WHERE key = $1", key)
    wrong = 0 if number == (row["number"] if row else 0) + 1 else 1
    tx.execute(
        "INSERT INTO numbers (key, number, wrong) VALUES ($1, $2, $3) ON CONFLICT (key) DO UPDATE "
        "SET number = excluded.number, wrong = numbers.wrong + excluded.wrong",
        key, number, wrong,
    )
    if number % 4 == 0:
        tx.append(f"Copy:{key}", "Copied", number, causation=event.id)
        tx.enqueue("copies", key, number)

run(handle)
"#;

async fn handled(log: &Log) -> i64 {
    number(log, "SELECT count(*) FROM records").await
}

/// Waits until more is handled than was.
async fn progress(log: &Log, seed: u64) {
    let (before, began) = (handled(log).await, Instant::now());
    while handled(log).await == before {
        assert!(began.elapsed() < PATIENCE, "nothing was handled for a minute (seed {seed})");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn everything_is_handled_once(place: Place) {
    let (seed, mut random) = Numbers::chosen();
    let client = python_client();
    place.write(
        "records.toml",
        &FILE.replace("@PYTHON@", &python()).replace("@CLIENT@", client.to_str().unwrap()),
    );
    place.write("recorder.py", PROGRAM);
    let log = place.log().await;
    // The tables are there from here on.
    assert!(place.command(&["run", "records.toml", "--catch-up"]).status.success());

    let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let appending =
        tokio::spawn(append_until(log.clone(), KEYS, Arc::clone(&stop), Arc::clone(&rounds)));
    let mut processes = vec![Process::start(&place, "records.toml")];
    let mut done: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..MOMENTS {
        progress(&log, seed).await;
        tokio::time::sleep(Duration::from_micros(random.below(LONGEST_WAIT_US))).await;
        let at = random.below(processes.len() as u64) as usize;
        let what = match random.below(8) {
            0..3 if processes.len() < MOST_PROCESSES => {
                processes.push(Process::start(&place, "records.toml"));
                "started"
            }
            0..5 => {
                let programs = processes[at].programs();
                if programs.is_empty() {
                    continue;
                }
                signal("-KILL", programs[random.below(programs.len() as u64) as usize]);
                "program killed"
            }
            5 => {
                processes.swap_remove(at).kill();
                "process killed"
            }
            6 => {
                let process = processes.swap_remove(at);
                // First the one or first the other.
                let programs = process.programs();
                if random.below(2) == 0 {
                    programs.iter().for_each(|id| signal("-KILL", *id));
                    process.kill();
                } else {
                    process.kill();
                    programs.iter().for_each(|id| signal("-KILL", *id));
                }
                "both killed"
            }
            _ => {
                processes.swap_remove(at).stop();
                "stopped"
            }
        };
        *done.entry(what).or_default() += 1;
        if processes.is_empty() {
            processes.push(Process::start(&place, "records.toml"));
        }
    }
    stop.store(true, Ordering::Relaxed);
    appending.await.unwrap();
    for process in processes {
        process.stop();
    }
    let ran = place.command(&["run", "records.toml", "--catch-up", "--json"]);
    let [printed] = lines(&ran).try_into().unwrap();
    assert_eq!(
        (&printed["consumers"][0]["parked"], &printed["consumers"][0]["lag"]),
        (&0.into(), &0.into())
    );

    let numbers = rounds.load(Ordering::Relaxed);
    let events = numbers * KEYS as i64;
    println!("{events} events, {done:?}");
    assert_eq!(handled(&log).await, events, "lost or doubled (seed {seed})");
    let different = "SELECT count(DISTINCT position) FROM records";
    assert_eq!(number(&log, different).await, events, "doubled (seed {seed})");
    let wrong = "SELECT CAST(sum(wrong) AS BIGINT) FROM numbers";
    assert_eq!(number(&log, wrong).await, 0, "out of order (seed {seed})");
    let copies = log.read(Query::types(["Copied"])).collect().await.unwrap();
    assert_eq!(copies.len() as i64, numbers / 4 * KEYS as i64, "appended (seed {seed})");
    let tasks = Tasks::new(&log, "copies").list(TaskState::Ready, 1_000_000).await.unwrap();
    assert_eq!(tasks.len(), copies.len(), "enqueued (seed {seed})");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_handled_once_on_sqlite() {
    everything_is_handled_once(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_handled_once_on_postgres() {
    everything_is_handled_once(Place::postgres()).await;
}
