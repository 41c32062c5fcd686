//! Processes of both versions: workers that keep the ledger, and those who append.

use crate::place::{Place, until};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How many keys there are, and how many of them an append is about.
const KEYS: u64 = 200;
const BATCH: u64 = 8;
/// How many events a worker has handled that goes on.
const SOME: i64 = 50;
/// A load that a busy machine holds.
const PAUSE: Duration = Duration::from_millis(10);

/// A worker process. It stops when its standard input ends.
pub struct Worker {
    pub number: i64,
    child: Child,
}

impl Worker {
    pub fn start(place: &Place, program: &Path, number: i64) -> Self {
        let number_text = number.to_string();
        let arguments = ["chaos-worker", "--number", &number_text, "--lanes=2", "--lease=4"];
        let mut command = place.command(program, &arguments);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Self { number, child }
    }

    /// Fails if it has ended by itself.
    pub fn is_running(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert_eq!(ended, None, "worker {} ended by itself", self.number);
    }

    /// Tells it to stop, and waits until it has.
    pub fn stop(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().unwrap()
    }

    /// As `kill -9` does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Nothing is left behind when a test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that appends until it is stopped, a few events to each key in turn.
pub struct Appender {
    is_over: Arc<AtomicBool>,
    appending: JoinHandle<u64>,
}

impl Appender {
    pub fn start(place: &Place, program: &Path) -> Self {
        let batch = BATCH.to_string();
        let mut command = place.command(program, &["append", "--lines", "--batch", &batch]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let appending = std::thread::spawn(move || {
            let mut input = child.stdin.take().unwrap();
            let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut appended = 0;
            while !over.load(Ordering::Relaxed) {
                for number in appended..appended + BATCH {
                    let key = number % KEYS;
                    writeln!(input, r#"{{"stream":"Key:{key}","type":"Counted"}}"#).unwrap();
                }
                for _ in 0..BATCH {
                    answers.next().expect("every append is answered").unwrap();
                    appended += 1;
                }
                std::thread::sleep(PAUSE);
            }
            drop(input);
            assert!(child.wait().unwrap().success());
            appended
        });
        Self { is_over, appending }
    }

    /// Appends no more; returns how many events were acknowledged.
    pub fn finish(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.appending.join().unwrap()
    }
}

/// Waits until each of these workers has handled events that are appended from now on, and has renewed its
/// lease. Nobody may end meanwhile.
pub async fn all_go_on(place: &Place, workers: &mut [Worker]) {
    let highest = async |what: &str, table: &str| {
        place.number(&format!("SELECT coalesce(max({what}), 0) FROM {table}")).await
    };
    let (events, entries) = (place.table("events"), place.table("handled"));
    let leases = place.table("workers");
    let (head, lease) = (highest("position", &events).await, highest("lease_us", &leases).await);
    for number in 0..workers.len() {
        let (worker, process) = (workers[number].number, workers[number].child.id());
        let handled =
            format!("SELECT count(*) FROM {entries} WHERE worker = {worker} AND position > {head}");
        let renewed =
            format!("SELECT count(*) FROM {leases} WHERE pid = {process} AND lease_us > {lease}");
        until(&format!("worker {worker} goes on after position {head}"), async || {
            workers.iter_mut().for_each(Worker::is_running);
            place.number(&handled).await >= SOME && place.number(&renewed).await == 1
        })
        .await;
    }
}
