//! Workers of `examples/order_processing` are killed at 200 random moments while orders keep coming. Then
//! the log, the tasks and the records of those outside are compared: every action is recorded as done
//! once, was never called again after that, and did what it does once.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    unreachable_pub,
    dead_code,
    reason = "a test fails by panicking, and the example is only borrowed"
)]

#[path = "../../../examples/order_processing/customers.rs"]
mod customers;
#[path = "../../../examples/order_processing/order.rs"]
mod order;
#[path = "../../../examples/order_processing/outside.rs"]
mod outside;
#[path = "../../../examples/order_processing/proof.rs"]
mod proof;
#[path = "../../../examples/order_processing/shop.rs"]
mod shop;
#[path = "../../../examples/order_processing/story.rs"]
mod story;

use anabranch::Namespace;
use anabranch::Options;
use anabranch::prelude::*;
use anabranch::workflow::Reaction;
use anabranch::workflow::Workflow;
use anabranch::workflow::Workflows;
use anabranch::workpool::Tasks;
use anabranch::workpool::{TaskState, TaskStatus};
use customers::Customers;
use order::Orders;
use outside::{Outside, Records};
use proof::Proof;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use story::Story;
use tempfile::TempDir;
use uuid::Uuid;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How many workers are killed. On PostgreSQL it takes longer until one works.
const ON_SQLITE: usize = 140;
const ON_POSTGRES: usize = 60;
const WORKERS_AT_ONCE: usize = 3;
/// A worker is killed within this time after its first call.
const LONGEST_LIFE_US: u64 = 150_000;
const ORDERS_PER_SECOND: u64 = 10;
/// Long enough for most orders to be paid though their workers are killed all the time.
const DEADLINE: Duration = Duration::from_secs(8);

/// A database, and workers of it.
struct Place {
    url: String,
    namespace: String,
    directory: TempDir,
}

impl Place {
    fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", directory.path().join("kills.db").display());
        Self { url, namespace: "anabranch".to_owned(), directory }
    }

    /// The tables of those outside are in a schema of this case, too.
    fn postgres() -> Self {
        let url = std::env::var("ANABRANCH_TEST_POSTGRES")
            .expect("these tests need PostgreSQL: run `cargo xtask test`");
        let namespace = format!("kills_{:016x}", Uuid::now_v7().as_u64_pair().1);
        let sign = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{sign}options=-csearch_path%3D{namespace}");
        Self { url, namespace, directory: tempfile::tempdir().unwrap() }
    }

    async fn log(&self) -> Log {
        let namespace = Namespace::new(&*self.namespace).unwrap();
        let options = Options { namespace, ..Options::default() };
        anabranch::connect_with(&self.url, &options).await.unwrap()
    }

    fn worker(&self, arguments: &[&str]) -> Worker {
        let test = std::env::current_exe().unwrap();
        let profile: PathBuf = test.parent().unwrap().parent().unwrap().into();
        let mut command = Command::new(profile.join("examples").join("order_processing"));
        for variable in ["PARTITION_KEY", "PARTITION_INDEX", "TOTAL_PARTITIONS"] {
            command.env_remove(variable);
        }
        let mut child = command
            .args(["work", "--lanes", "1", "--deadline", &DEADLINE.as_secs_f64().to_string()])
            .args(arguments)
            .env("ANABRANCH_URL", &self.url)
            .env("ANABRANCH_NAMESPACE", &self.namespace)
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Worker { child, lines }
    }
}

/// A process of the example. None outlives the test.
struct Worker {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Worker {
    /// Waits until it has called somebody outside.
    fn works(&mut self) {
        let mut line = String::new();
        while !line.contains(" of ord-") {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "a worker ended by itself");
        }
    }
}

impl Drop for Worker {
    /// SIGKILL.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Numbers that follow from a seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Starts workers and kills them at random moments, so many in all.
fn kill_workers(place: &Place, left: &AtomicUsize, mut numbers: Numbers) {
    let take = |left: usize| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        let mut worker = place.worker(&["--verbose"]);
        worker.works();
        std::thread::sleep(Duration::from_micros(numbers.below(LONGEST_LIFE_US)));
    }
}

async fn every_action_is_done_once(place: Place, kills: usize) {
    let seed = std::env::var("ANABRANCH_SEED").map_or_else(
        |_| Uuid::now_v7().as_u64_pair().1,
        |seed| seed.parse().expect("ANABRANCH_SEED is a number"),
    );
    println!("ANABRANCH_SEED={seed}");
    let place = Arc::new(place);
    let log = place.log().await;
    let outside = Outside::open(&log, false).await.unwrap();
    let orders = Workflows::new(&log, Orders::with(outside.clone(), DEADLINE));
    let mut customers = Customers::start(&orders, ORDERS_PER_SECOND, None).await.unwrap();

    let left = Arc::new(AtomicUsize::new(kills));
    let killers: Vec<_> = (0..WORKERS_AT_ONCE as u64)
        .map(|number| {
            let (place, left) = (Arc::clone(&place), Arc::clone(&left));
            let numbers = Numbers(seed.wrapping_add(number));
            tokio::task::spawn_blocking(move || kill_workers(&place, &left, numbers))
        })
        .collect();
    for killer in killers {
        killer.await.unwrap();
    }
    customers.stop_placing().await.unwrap();

    let last = place.worker(&[]);
    let proof = Proof::when_all_is_done(&log, &outside).await.unwrap();
    drop(last);
    println!("{}", proof.check().unwrap());
    let interrupted = compare(&expected(&log).await, &actions(&log).await, proof.records());
    println!("{interrupted} calls were interrupted by {kills} kills");
}

/// The actions that the events of the log ask for: their tasks, by id.
async fn expected(log: &Log) -> HashMap<Uuid, String> {
    let (workflow, mut tasks) = (Orders::default(), HashMap::new());
    let events = log.read(Query::all()).collect().await.unwrap();
    let mut orders: HashMap<&str, _> = HashMap::new();
    for event in events.iter().filter(|event| event.category() == "Order") {
        let happened = workflow.schema().decode(event).unwrap();
        let order = orders.entry(event.stream_id()).or_default();
        workflow.evolve(order, &happened);
        let reactions = workflow.react(event.stream_id(), order, &happened);
        for (number, reaction) in reactions.into_iter().enumerate() {
            if let Reaction::Action(action) = reaction {
                let id = Uuid::new_v5(&event.id(), &number.to_be_bytes());
                let what = format!("{action:?} of {}", event.stream_id());
                assert_eq!(tasks.insert(id, what), None);
            }
        }
    }
    tasks
}

/// The actions that are recorded.
async fn actions(log: &Log) -> Vec<TaskStatus> {
    let tasks = Tasks::new(log, "orders.actions");
    let mut all = Vec::new();
    for state in TaskState::ALL {
        all.extend(tasks.list(state, 1_000_000).await.unwrap());
    }
    all
}

/// What the events ask for is what is recorded, and nobody was called after it was. Answers how many
/// calls came to nothing because the caller was killed.
fn compare(expected: &HashMap<Uuid, String>, actions: &[TaskStatus], records: &Records) -> usize {
    let mut recorded: HashMap<Uuid, &TaskStatus> = HashMap::new();
    for action in actions {
        let what = expected.get(&action.id);
        let what = what.unwrap_or_else(|| panic!("no event asks for {action:?}"));
        let ends_well = action.state == TaskState::Done && action.error.is_none();
        let is_given_up = action.state == TaskState::Compensated && what.starts_with("Ship of");
        assert!(ends_well || is_given_up, "{what}: {action:?}");
        assert!(recorded.insert(action.id, action).is_none(), "{what}: there twice");
    }
    for (id, what) in expected {
        assert!(recorded.contains_key(id), "{what}: not recorded");
    }

    let mut calls: HashMap<Uuid, usize> = HashMap::new();
    let task_of = |key: &str| key.strip_prefix("task:").unwrap().parse::<Uuid>().unwrap();
    for call in &records.calls {
        let action = recorded[&task_of(&call.key)];
        let finished_us = action.finished_at.unwrap().as_microsecond();
        let what = &expected[&action.id];
        assert!(call.at_us <= finished_us, "{what}: called at {} after {action:?}", call.at_us);
        *calls.entry(action.id).or_default() += 1;
    }
    let mut effects: HashMap<Uuid, usize> = HashMap::new();
    for effect in &records.effects {
        *effects.entry(task_of(&effect.key)).or_default() += 1;
    }
    let mut interrupted = 0;
    for (id, action) in &recorded {
        let what = &expected[id];
        let is_done = action.state == TaskState::Done;
        let needed = action.attempts as usize + usize::from(is_done);
        let called = calls.get(id).copied().unwrap_or(0);
        assert!(called >= needed, "{what}: called {called} times, recorded as {action:?}");
        interrupted += called - needed;
        let is_declined = Story::of(what) == Story::Declined && what.starts_with("TakePayment");
        let effects = effects.get(id).copied().unwrap_or(0);
        assert_eq!(effects, usize::from(is_done && !is_declined), "{what}: effects");
    }
    interrupted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_action_is_done_once_on_sqlite() {
    every_action_is_done_once(Place::sqlite(), ON_SQLITE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_action_is_done_once_on_postgres() {
    every_action_is_done_once(Place::postgres(), ON_POSTGRES).await;
}
