//! Operating tasks from the command line: a pool that runs in this process, and the command in
//! others.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod printed;
mod process;

use anabranch::Options;
use anabranch::prelude::*;
use anabranch::workpool::TaskGaveUp;
use anabranch::workpool::{NewTask, Pool, Task, Tasks};
use anabranch::workpool::{PoolSettings, TaskState};
use anabranch::{HandlerError, Namespace, Retry};
use printed::{lines, said, words};
use process::{failure, postgres, stdout};
use serde_json::{Value, json};
use std::process::Output;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(60);

/// Fails for what is broken, the first time that it is asked.
struct Payouts;

impl Pool for Payouts {
    type Output = i64;

    fn name(&self) -> &str {
        "payouts"
    }

    fn settings(&self) -> PoolSettings {
        PoolSettings::default().retry(Retry::never())
    }

    async fn run(&self, task: &Task, _: &mut Tx) -> HandlerResult<i64> {
        match task.payload::<i64>()? {
            cents if cents < 0 => Err(HandlerError::new("less than\nnothing")),
            cents => Ok(cents * 2),
        }
    }

    /// One cent less than nothing waits for somebody, two are booked elsewhere, three are nobody's.
    fn gave_up(&self, task: &Task, _: &str) -> TaskGaveUp {
        match task.payload() {
            Ok(-2) => TaskGaveUp::GoOn(vec![("booked".to_owned(), NewTask::new(task.key(), &2))]),
            Ok(-3) => TaskGaveUp::GoOn(Vec::new()),
            _ => TaskGaveUp::AsSet,
        }
    }
}

/// Has nothing to do.
struct Others;

impl Pool for Others {
    type Output = ();

    fn name(&self) -> &str {
        "others"
    }

    async fn run(&self, _: &Task, _: &mut Tx) -> HandlerResult {
        Ok(())
    }
}

/// A log of its own, and the command that works on it.
struct Bench {
    url: String,
    namespace: String,
    directory: tempfile::TempDir,
}

struct Running {
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Running {
    async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }
}

impl Bench {
    fn sqlite() -> Self {
        Self::new("sqlite:anabranch.db".to_owned())
    }

    fn new(url: String) -> Self {
        let namespace = format!("tasks_{:016x}", uuid::Uuid::now_v7().as_u64_pair().1);
        Self { url, namespace, directory: tempfile::tempdir().unwrap() }
    }

    async fn log(&self) -> Log {
        let path = |file: &str| format!("sqlite:{}", self.directory.path().join(file).display());
        let url = self.url.strip_prefix("sqlite:").map_or_else(|| self.url.clone(), path);
        let namespace = Namespace::new(self.namespace.clone()).unwrap();
        let options = Options { namespace, ..Options::default() };
        anabranch::connect_with(&url, &options).await.unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Output {
        let mut command = process::anabranch(self.directory.path());
        command.env("ANABRANCH_URL", &self.url).env("ANABRANCH_NAMESPACE", &self.namespace);
        command.args(arguments).stdin(std::process::Stdio::null()).output().unwrap()
    }

    fn tasks(&self, arguments: &[&str]) -> Output {
        self.command(&[&["tasks"], arguments].concat())
    }

    /// Enqueues a task and returns its id.
    fn enqueue(&self, arguments: &[&str]) -> String {
        let output = self.tasks(&[&["enqueue", "payouts"], arguments].concat());
        stdout(&output).trim().to_owned()
    }

    fn show(&self, id: &str) -> Value {
        serde_json::from_str(&stdout(&self.tasks(&["show", id, "--json"]))).unwrap()
    }

    async fn until(&self, id: &str, state: &str) -> Value {
        let wait = async {
            loop {
                let shown = self.show(id);
                if shown["state"] == state {
                    return shown;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        waited.unwrap_or_else(|_| panic!("task {id} is not {state}: {}", self.show(id)))
    }

    fn run(&self, log: &Log) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        let log = log.clone();
        let run = async move {
            let told = async { drop(stopped.await) };
            ReplicaSet::new("payouts").pool(Payouts).run_until(&log, told).await.unwrap();
        };
        Running { task: tokio::spawn(run), stop }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_enqueued_run_and_shown() {
    let bench = Bench::sqlite();
    assert!(failure(&bench.tasks(&[]), 1).contains("there is no log"));
    let enqueue = bench.tasks(&["enqueue", "payouts", "cust-7", "40"]);
    assert!(failure(&enqueue, 1).contains("there is no log"), "it creates no log");
    let log = bench.log().await;
    assert!(said(&bench.tasks(&[])).contains("no tasks"));
    let output = bench.tasks(&["enqueue", "payouts", "cust-7", "40", "--json"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no worker has run a pool `payouts`"));
    let enqueued = &lines(&output)[0];
    assert_eq!(enqueued["is_new"], true);
    let id = enqueued["id"].as_str().unwrap().to_owned();
    assert_eq!(bench.show(&id)["state"], "ready");
    let status = stdout(&bench.command(&["status"]));
    let row = words(&status).into_iter().find(|row| row[0] == "payouts").unwrap();
    assert_eq!(row[4..9], ["no worker has run it yet", "-", "-", "1", "1"], "{status}");
    assert_eq!(words(&stdout(&bench.command(&["status", "payouts"]))).last(), Some(&row));
    let shown = &lines(&bench.command(&["status", "--json"]))[0];
    let expected = ("payouts", "pool", "no worker has run it yet", 1);
    let of = |name: &str| shown[name].as_str().unwrap();
    let lag = shown["lag_ready"].as_i64().unwrap();
    assert_eq!((of("name"), of("kind"), of("state"), lag), expected);
    let later = bench.enqueue(&["cust-7", "1", "--after", "1h30m"]);
    let at = bench.enqueue(&["cust-7", "2", "--at", "2999-11-15T09:16:47Z"]);
    assert_eq!(bench.show(&later)["state"], "scheduled");
    assert_eq!(bench.show(&at)["run_at"], "2999-11-15T09:16:47Z");

    let running = bench.run(&log);
    let shown = bench.until(&id, "done").await;
    assert_eq!((&shown["result"], &shown["pool"]), (&80.into(), &"payouts".into()));
    let text = stdout(&bench.tasks(&["show", &id]));
    assert!(text.contains("key         cust-7\n") && text.contains("result      80\n"), "{text}");
    assert!(text.contains("payload     40\n") && text.contains("state       done\n"), "{text}");
    let more = bench.tasks(&["enqueue", "payouts", "cust-7", "1"]);
    assert!(more.status.success() && more.stderr.is_empty(), "a worker has run it: {more:?}");
    bench.until(stdout(&more).trim(), "done").await;

    for arguments in [&[][..], &["pools"]] {
        let text = stdout(&bench.tasks(arguments));
        let headings = "POOL READY SCHEDULED HELD DEAD COMPENSATED SKIPPED DONE CANCELLED";
        let counts = "payouts 0 2 0 0 0 0 2 0";
        let expected = [headings, counts].map(|line| line.split(' ').collect::<Vec<_>>());
        assert_eq!(words(&text), expected);
    }
    let pools = lines(&bench.tasks(&["--json"]));
    let counts = json!({
        "pool": "payouts", "ready": 0, "scheduled": 2, "held": 0, "dead": 0, "compensated": 0,
        "skipped": 0, "done": 2, "cancelled": 0
    });
    assert_eq!(pools, [counts]);
    let listed = lines(&bench.tasks(&["list", "payouts", "--json"]));
    assert_eq!(listed.iter().map(|task| &task["id"]).collect::<Vec<_>>(), [&*later, &*at]);
    let done = lines(&bench.tasks(&["list", "payouts", "--state", "done", "-n", "1", "--json"]));
    assert_eq!((done.len(), &done[0]["id"]), (1, &Value::from(id)));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unique_keys_and_ids_are_enqueued_once() {
    let bench = Bench::sqlite();
    bench.log().await;
    let id = bench.enqueue(&["a", "1", "--unique", "reminder-42"]);
    let again = bench.tasks(&["enqueue", "payouts", "a", "1", "--unique", "reminder-42"]);
    assert_eq!(stdout(&again).trim(), id);
    assert!(String::from_utf8_lossy(&again.stderr).contains("there already"), "{again:?}");
    assert_eq!(bench.enqueue(&["b", "1", "--id", &id]), id);
    assert_eq!(bench.show(&id)["key"], "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_are_refused_with_what_to_do() {
    let bench = Bench::sqlite();
    bench.log().await;
    let refused = |arguments: &[&str], code| failure(&bench.tasks(arguments), code);
    assert!(refused(&["enqueue", "payouts", "a", "{x"], 1).contains("the payload is not JSON"));
    let empty = refused(&["enqueue", "", "a", "1"], 1);
    assert!(empty.contains("name of a pool"), "{empty}");
    assert!(
        refused(&["enqueue", "payouts", "", "1"], 1).contains("key of a task of pool `payouts`")
    );
    assert!(refused(&["enqueue", "p", "a", "1", "--after", "soon"], 2).contains("such as 5s"));
    assert!(
        refused(&["list", "payouts", "--state", "broken"], 2).contains("ready, scheduled, held")
    );
    let wrong = refused(&["retry", "--where", "state=dead"], 2);
    assert!(
        wrong.contains("`state=dead` is no condition") && wrong.contains("FIELD~TEXT"),
        "{wrong}"
    );
    assert!(refused(&["retry"], 2).contains("--all"));
    assert!(refused(&["retry", "--all", "--where", "pool=x"], 2).contains("cannot be used"));
    let open = refused(&["retry", "--all", "--state", "ready"], 1);
    assert!(open.contains("ready tasks cannot be tried again"), "{open}");
    let compensated = refused(&["retry", "--all", "--state", "compensated", "--yes"], 1);
    assert!(compensated.contains("add --force"), "{compensated}");
    let nobody = uuid::Uuid::now_v7().to_string();
    for what in ["show", "cancel", "retry", "discard"] {
        assert!(refused(&[what, &nobody], 1).contains(&format!("there is no task {nobody}")));
        let seven = refused(&[what, "seven"], 2);
        assert!(seven.contains("'seven'") && seven.contains("looks like 0199d3a0-"), "{seven}");
        assert!(seven.contains("`anabranch tasks list POOL` shows"), "{seven}");
    }
    let seven = refused(&["enqueue", "p", "a", "1", "--id", "seven"], 2);
    assert!(seven.contains("looks like 0199d3a0-"), "{seven}");
}

/// Nothing is found of a pool that is not there, and nothing held: a typing error must not look like that.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_nobody_has_is_an_error_everywhere() {
    for bench in [Bench::sqlite(), Bench::new(postgres())] {
        let log = bench.log().await;
        for command in [
            &["list", "payout"][..],
            &["list", "payout", "--json"],
            &["pause-key", "payout", "a"],
            &["resume-key", "payout", "a"],
        ] {
            let error = failure(&bench.tasks(command), 1);
            assert!(error.contains("there is no pool `payout`"), "{command:?}: {error}");
            assert!(error.contains("`anabranch tasks` shows"), "{command:?}: {error}");
        }
        // One has tasks, one was run, and one has a paused key: all of them are there.
        bench.enqueue(&["a", "1"]);
        let runs = ReplicaSet::new("others").pool(Others);
        runs.catch_up(&log).await.unwrap();
        Tasks::new(&log, "later").pause_key("a").await.unwrap();
        for pool in ["payouts", "others", "later"] {
            let none = said(&bench.tasks(&["list", pool, "--state", "dead"]));
            assert!(none.contains("has no dead tasks"), "{none}");
            said(&bench.tasks(&["pause-key", pool, "b"]));
            said(&bench.tasks(&["resume-key", pool, "b"]));
            let condition = format!("pool={pool}");
            for more in [&[][..], &["--where", "key=x"], &["--where", "error~y"]] {
                let retry = [&["retry", "--where", &condition], more].concat();
                let none = said(&bench.tasks(&retry));
                assert!(none.contains("no dead task is as you say"), "{none}");
            }
        }
        for condition in ["pool=payout", "pool~other-", "pool="] {
            for more in [&[][..], &["--where", "key=a"], &["--state", "skipped", "--yes"]] {
                let retry = [&["retry", "--where", condition], more].concat();
                let error = failure(&bench.tasks(&retry), 1);
                let refused = format!("there is no pool for which `{condition}` is true");
                assert!(error.contains(&refused), "{error}");
                assert!(error.contains("`anabranch tasks` shows"), "{error}");
            }
        }
        said(&bench.tasks(&["retry", "--where", "pool~other"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_task_is_retried_or_discarded() {
    let bench = Bench::sqlite();
    let log = bench.log().await;
    let running = bench.run(&log);
    a_dead_task(&bench).await;
    many_dead_tasks(&bench).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_task_is_retried_or_discarded_on_postgres() {
    let bench = Bench::new(postgres());
    let log = bench.log().await;
    let running = bench.run(&log);
    a_dead_task(&bench).await;
    many_dead_tasks(&bench).await;
    running.stop().await;
    drop_namespace(&bench, &log).await;
}

async fn drop_namespace(bench: &Bench, log: &Log) {
    use anabranch::backend::database::{End, Statement};
    let drop = format!("DROP SCHEMA {} CASCADE", bench.namespace);
    let run = vec![Statement::new(drop, vec![])];
    log.store().database().begin().run(run, End::Commit).await.unwrap();
}

async fn a_dead_task(bench: &Bench) {
    let dead = bench.enqueue(&["a", "-1"]);
    let shown = bench.until(&dead, "dead").await;
    assert_eq!(shown["error"], "less than\nnothing");
    let behind = bench.enqueue(&["a", "1"]);
    bench.until(&behind, "held").await;
    let text = stdout(&bench.tasks(&["list", "payouts"]));
    let table = words(&text);
    assert_eq!(table[0], ["ID", "KEY", "STATE", "ATTEMPTS", "ENQUEUED", "RUN AT", "ERROR"]);
    assert_eq!((table[1][0], table[1][2]), (&*dead, "dead"));
    assert_eq!(table[1].last(), Some(&"less than nothing"));
    assert_eq!((table[2][0], table[2][2]), (&*behind, "held"));
    let status = stdout(&bench.command(&["status"]));
    assert_eq!(words(&status)[1][0..2], ["payouts", "pool"]);
    assert_eq!(words(&status)[1][4], "running, 1 key held", "{status}");
    assert_eq!(words(&status)[1].last(), Some(&"1 dead task, 1 held"), "{status}");
    let json = &lines(&bench.command(&["status", "--json"]))[0];
    assert_eq!((&json["open_tasks"], &json["dead_tasks"]), (&1.into(), &1.into()));
    assert_eq!(json["held_tasks"], 1);

    assert!(failure(&bench.tasks(&["cancel", &dead]), 1).contains("tasks discard"));
    assert!(failure(&bench.tasks(&["discard", &behind]), 1).contains("tasks cancel"));
    assert!(failure(&bench.tasks(&["retry", &behind]), 1).contains("only a dead one"));
    said(&bench.tasks(&["retry", &dead]));
    let again = async || bench.show(&dead)["finished_at"] != shown["finished_at"];
    while !again().await {}
    bench.until(&dead, "dead").await;

    let refused = failure(&bench.tasks(&["discard", &dead]), 2);
    assert!(refused.contains("add --yes") && refused.contains("`a` would go on"), "{refused}");
    assert_eq!(bench.show(&dead)["state"], "dead");
    assert!(said(&bench.tasks(&["discard", &dead, "--yes"])).contains("is discarded"));
    bench.until(&behind, "done").await;
    assert_eq!(bench.show(&dead)["state"], TaskState::Cancelled.to_string());
    assert!(
        failure(&bench.tasks(&["discard", &dead, "--yes"]), 1).contains("is cancelled already")
    );
}

async fn many_dead_tasks(bench: &Bench) {
    let compensated = bench.enqueue(&["c", "-2"]);
    let shown = bench.until(&compensated, "compensated").await;
    assert_eq!((&shown["payload"], &shown["attempts"]), (&(-2).into(), &1.into()));
    let instead = &shown["compensated_by"][0];
    assert_eq!((&instead["pool"], &instead["key"]), (&"booked".into(), &"c".into()));
    assert_eq!(instead["state"], "ready", "nobody runs that pool");
    let booked = instead["id"].as_str().unwrap();
    let text = stdout(&bench.tasks(&["show", &compensated]));
    let line = format!("instead     {booked} of pool `booked`, key `c` (ready)");
    assert!(text.contains(&line) && text.contains("its key has gone on"), "{text}");

    let refused = failure(&bench.tasks(&["retry", &compensated]), 1);
    assert!(refused.contains(&line[12..]) && refused.contains("--force"), "{refused}");
    let skipped = bench.enqueue(&["c", "-3"]);
    let shown = bench.until(&skipped, "skipped").await;
    assert_eq!(shown["compensated_by"], json!([]));
    let dead: Vec<String> = (0..3).map(|key| bench.enqueue(&[&format!("d{key}"), "-1"])).collect();
    for id in &dead {
        bench.until(id, "dead").await;
    }
    // Only what waits for somebody is left to do.
    let listed = lines(&bench.tasks(&["list", "payouts", "--json"]));
    assert!(listed.iter().all(|task| task["state"] == "dead"), "{listed:?}");
    let listed = lines(&bench.tasks(&["list", "payouts", "--state", "compensated", "--json"]));
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &Value::from(&*compensated)));
    let json = &lines(&bench.command(&["status", "payouts", "--json"]))[0];
    assert_eq!((&json["open_tasks"], &json["dead_tasks"]), (&0.into(), &3.into()));
    let status = stdout(&bench.command(&["status"]));
    assert_eq!(words(&status)[1].last(), Some(&"3 dead tasks"), "{status}");
    // What is dealt with is not held, though its key waits behind another one.
    let another = bench.enqueue(&["c", "-1"]);
    bench.until(&another, "dead").await;
    let status = stdout(&bench.command(&["status"]));
    assert_eq!(words(&status)[1].last(), Some(&"4 dead tasks"), "{status}");
    assert_eq!(words(&status)[1][7..9], ["4", "0"], "{status}");
    said(&bench.tasks(&["discard", &another, "--yes"]));

    let finished: Vec<Value> =
        dead.iter().map(|id| bench.show(id)["finished_at"].clone()).collect();
    let refused = failure(&bench.tasks(&["retry", "--all"]), 2);
    let consequence = "3 dead tasks would be tried again: 3 of pool `payouts`; add --yes";
    assert!(refused.contains(consequence), "{refused}");
    let none = said(&bench.tasks(&["retry", "--where", "error~nowhere", "--yes"]));
    assert!(none.contains("no dead task is as you say"), "{none}");
    assert_eq!(bench.show(&dead[0])["finished_at"], finished[0], "nothing was done");
    let has_died_again = async |number: usize| {
        while bench.until(&dead[number], "dead").await["finished_at"] == finished[number] {}
    };
    // One needs no second word.
    let one = said(&bench.tasks(&["retry", "--where", "pool=payouts", "--where", "key=d1"]));
    assert_eq!(one.trim(), "1 dead task ready again");
    has_died_again(1).await;
    assert_eq!(bench.show(&dead[0])["finished_at"], finished[0], "it was not meant");
    let all = said(&bench.tasks(&["retry", "--where", "error~less than", "--yes"]));
    assert_eq!(all.trim(), "3 dead tasks ready again");
    has_died_again(0).await;
    has_died_again(2).await;
    bench.until(&dead[1], "dead").await;

    assert!(said(&bench.tasks(&["discard", &skipped, "--yes"])).contains("had gone on before"));
    let before = bench.show(&compensated)["finished_at"].clone();
    let forced = said(&bench.tasks(&["retry", &compensated, "--force"]));
    assert!(forced.contains(&format!("not undone: {booked}")), "{forced}");
    while bench.until(&compensated, "compensated").await["finished_at"] == before {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_key_stands_still_and_a_cancelled_task_is_not_run() {
    let bench = Bench::sqlite();
    let log = bench.log().await;
    let (paused, cancelled) = (bench.enqueue(&["a", "1"]), bench.enqueue(&["a", "2"]));
    assert!(said(&bench.tasks(&["pause-key", "payouts", "a"])).contains("resume-key payouts a"));
    let running = bench.run(&log);
    bench.until(&paused, "held").await;
    let status = stdout(&bench.command(&["status"]));
    assert_eq!(words(&status)[1].last(), Some(&"2 held tasks"), "nothing has failed");
    let other = bench.enqueue(&["b", "1"]);
    bench.until(&other, "done").await;
    assert!(said(&bench.tasks(&["cancel", &cancelled])).contains("is cancelled"));
    assert!(failure(&bench.tasks(&["cancel", &cancelled]), 1).contains("is cancelled already"));
    said(&bench.tasks(&["resume-key", "payouts", "a"]));
    bench.until(&paused, "done").await;
    assert_eq!(bench.show(&cancelled)["state"], "cancelled");
    running.stop().await;
}
