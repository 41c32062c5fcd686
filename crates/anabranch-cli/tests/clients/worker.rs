//! A served log with a worker: a pool that doubles numbers, and a workflow that counts.

use crate::process::{anabranch, run, stdout};
use anabranch::prelude::*;
use anabranch::workflow::{Workflow, Workflows};
use anabranch::workpool::{OutsidePool, Run, Task};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// All of it; what is left of it ends with the test.
pub struct Work {
    _place: TempDir,
    server: Served,
    token: String,
    stop: oneshot::Sender<()>,
    worker: JoinHandle<()>,
}

struct Served {
    child: Child,
    url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Work {
    pub async fn begin() -> Self {
        let place = tempfile::tempdir().unwrap();
        let make = ["token", "make", "test", "--scope", "read,append,operate"];
        let made = run(place.path(), &[&make[..], &["--url", "sqlite://log.db"]].concat());
        let token = stdout(&made).trim().to_owned();
        let url = format!("sqlite://{}", place.path().join("log.db").display());
        let log = anabranch::connect(&url).await.unwrap();
        let counters = Workflows::new(&log, Counters);
        let set = ReplicaSet::new("work").workflow(&counters).outside_pool(Doubles).lanes(1);
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            set.run_until(&log, stopped).await.unwrap();
        });
        let server = Served::start(&place);
        Self { _place: place, server, token, stop, worker }
    }

    pub fn url(&self) -> &str {
        &self.server.url
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    pub async fn end(self) {
        let _ = self.stop.send(());
        self.worker.await.unwrap();
    }
}

impl Served {
    fn start(place: &TempDir) -> Self {
        let mut serve = anabranch(place.path());
        serve.args(["serve", "--url", "sqlite://log.db", "--listen", "127.0.0.1:0"]);
        let mut child = serve.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = said.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("the API is served at ")?;
            Some(rest.split_once(": ")?.0.to_owned())
        });
        // What it says from now on is read, so that it never waits for a reader.
        std::thread::spawn(move || said.for_each(drop));
        Self { child, url: url.expect("it says where") }
    }
}

struct Doubles;

impl OutsidePool for Doubles {
    type Output = u64;

    fn name(&self) -> &str {
        "doubles"
    }

    async fn run(&self, task: &Task, _: &mut Run) -> HandlerResult<u64> {
        Ok(2 * task.payload::<u64>()?)
    }
}

struct Counters;

#[derive(Serialize, Deserialize)]
enum Command {
    Add(i64),
}

#[derive(Serialize, Deserialize)]
enum Counted {
    Added { amount: i64 },
}

#[derive(Debug)]
struct Negative;

impl fmt::Display for Negative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it would be negative")
    }
}

impl std::error::Error for Negative {}

impl Workflow for Counters {
    type State = i64;
    type Command = Command;
    type Event = Counted;
    type Action = ();
    type Rejection = Negative;

    fn name(&self) -> &str {
        "counters"
    }

    fn decide(&self, sum: &i64, command: &Command) -> Result<Vec<Counted>, Negative> {
        let Command::Add(amount) = *command;
        if sum + amount < 0 { Err(Negative) } else { Ok(vec![Counted::Added { amount }]) }
    }

    fn evolve(&self, sum: &mut i64, event: &Counted) {
        let Counted::Added { amount } = event;
        *sum += amount;
    }
}
