//! How programs end: with their consumer, with grace, and with all that they have started.

use crate::on_both;
use crate::said::Said;
use crate::script::{Script, runs};
use crate::support::{Db, Proof, fill, proof, start, until};
use anabranch::prelude::*;
use std::time::{Duration, Instant};

on_both! {
    a_batch_that_is_given_up_kills_its_program,
    what_it_has_started_ends_with_it,
    it_is_told_to_end_and_has_time,
    one_that_does_not_end_is_killed,
    one_that_ended_between_two_batches_is_restarted,
    what_is_written_between_two_batches_fails_the_next,
}

async fn gone(id: &str) {
    until(&format!("the end of process {id}"), async || (!runs(id)).then_some(())).await;
}

async fn a_batch_that_is_given_up_kills_its_program(db: Db) {
    let body =
        "def handle(n, event):\n    note('id', os.getpid())\n    time.sleep(1000)\nserve(handle)";
    let (log, script) = (db.log().await, Script::new(body));
    fill(&log, 0..1, 1..=1).await;
    let worker = start(&log, ReplicaSet::new("s").projection(script.projection(&db, &log, "p")));
    let id = until("the program", async || script.note("id")).await;
    assert!(runs(&id));
    worker.crash();
    gone(&id).await;
    script.programs.ended().await;
}

async fn what_it_has_started_ends_with_it(db: Db) {
    let body =
        "def handle(n, event):\n    record(n, event)\n    note('id', os.getpid())\nserve(handle)";
    let (log, script) = (db.log().await, Script::new(body));
    fill(&log, 0..3, 1..=3).await;
    let mut command = script.command();
    let shell = "sleep 1000 & echo $! > sleeper; python3 program.py; echo over >&2";
    command.argv = ["sh", "-c", shell].map(str::to_owned).to_vec();
    let projection = script.projection_by(&db, &log, "p", command);
    ReplicaSet::new("s").projection(projection).catch_up(&log).await.unwrap();
    script.programs.ended().await;
    for name in ["id", "sleeper"] {
        gone(&script.note(name).unwrap()).await;
    }
    let all = Proof { handled: 9, doubled: 0, keys: 3, wrong: 0 };
    assert_eq!(proof(&log, &db.table("p")).await, all);
}

const ENDS_LATE: &str = r#"
assert os.getpgid(0) == os.getpid(), "Ctrl-C would end it"
greet()
for line in sys.stdin:
    say(done=json.loads(line)["batch"])
    sys.stdout.flush()
print("the end", "x" * 1_000_000)
time.sleep(0.3)
note("ended", "in time")
"#;

async fn it_is_told_to_end_and_has_time(db: Db) {
    let (log, script) = (db.log().await, Script::new(ENDS_LATE));
    fill(&log, 0..1, 1..=1).await;
    ReplicaSet::new("s")
        .projection(script.projection(&db, &log, "p"))
        .catch_up(&log)
        .await
        .unwrap();
    script.programs.ended().await;
    assert_eq!(script.note("ended").unwrap(), "in time");
}

async fn one_that_does_not_end_is_killed(db: Db) {
    let body = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nnote('id', os.getpid())\ngreet()\nfor line in \
                sys.stdin:\n    say(done=json.loads(line)['batch'])\n    sys.stdout.flush()\ntime.sleep(1000)";
    let (log, script) = (db.log().await, Script::new(body));
    fill(&log, 0..1, 1..=1).await;
    let mut command = script.command();
    command.grace = Duration::from_millis(200);
    let projection = script.projection_by(&db, &log, "p", command);
    ReplicaSet::new("s").projection(projection).catch_up(&log).await.unwrap();
    script.programs.ended().await;
    gone(&script.note("id").unwrap()).await;
}

async fn one_that_ended_between_two_batches_is_restarted(db: Db) {
    let (log, script) = (db.log().await, Script::new("note('id', os.getpid())\nserve(record)"));
    fill(&log, 0..1, 1..=1).await;
    let worker =
        start(&log, ReplicaSet::new("s").projection(script.projection(&db, &log, "p")).lanes(1));
    let handled = async |events| {
        let is = async || (proof(&log, &db.table("p")).await.handled == events).then_some(());
        until("events", is).await;
    };
    until("the program", async || script.note("id")).await;
    handled(1).await;
    let id = script.note("id").unwrap();
    std::process::Command::new("kill").args(["-9", &id]).status().unwrap();
    gone(&id).await;
    fill(&log, 0..1, 2..=2).await;
    handled(2).await;
    assert_ne!(script.note("id").unwrap(), id);
    worker.stop().await;
    let all = Proof { handled: 2, doubled: 0, keys: 1, wrong: 0 };
    assert_eq!(proof(&log, &db.table("p")).await, all);
}

/// As a thread of the program would.
async fn what_is_written_between_two_batches_fails_the_next(db: Db) {
    let body = "import threading\ndef later():\n    while not os.path.exists('go'):\n        time.sleep(0.01)\n    \
                if once('written'):\n        execute('DELETE FROM ' + TABLE)\n        sys.stdout.flush()\n        \
                note('wrote', 'it')\nthreading.Thread(target=later, daemon=True).start()\nserve(record)";
    let (log, script) = (db.log().await, Script::new(body));
    fill(&log, 0..1, 1..=1).await;
    let worker =
        start(&log, ReplicaSet::new("s").projection(script.projection(&db, &log, "p")).lanes(1));
    let handled = async |events| {
        let is = async || (proof(&log, &db.table("p")).await.handled == events).then_some(());
        until("events", is).await;
    };
    until("the table", async || {
        let there = anabranch::operate::Consumers::new(&log).status("p").await.ok()?;
        (there.lag == 0).then_some(())
    })
    .await;
    handled(1).await;
    std::fs::write(script.file("go"), "").unwrap();
    until("the statement", async || script.note("wrote")).await;
    fill(&log, 0..1, 2..=2).await;
    handled(2).await;
    worker.stop().await;
}

/// Four lines of a known text, and one of 50 MB: it neither waits for us nor fills our memory.
#[tokio::test]
async fn standard_error_is_logged_with_the_name_of_the_consumer() {
    let (said, _listening) = Said::listen();
    let body = r#"
def handle(n, event):
    sys.stderr.write("one\ntwo \xff\n" + "x" * 10_000 + "\n")
    sys.stderr.buffer.write(b"\xff\n")
    for _ in range(50):
        sys.stderr.write("y" * 1_000_000)
    sys.stderr.flush()
    record(n, event)
serve(handle)
"#;
    let db = Db::sqlite();
    let (log, script) = (db.log().await, Script::new(body));
    fill(&log, 0..1, 1..=1).await;
    let began = Instant::now();
    ReplicaSet::new("s")
        .projection(script.projection(&db, &log, "p"))
        .catch_up(&log)
        .await
        .unwrap();
    script.programs.ended().await;
    until("all lines", async || said.text().contains("yyy").then_some(())).await;
    let lines = said.lines("anabranch::program");
    assert!(lines[0].contains("INFO") && lines[0].contains("one consumer=\"p\""), "{}", lines[0]);
    assert!(lines[1].contains("two"));
    assert!(lines[2].contains("xxx…") && lines[2].len() < 5_000);
    assert!(lines[3].contains('\u{fffd}'));
    assert!(lines[4].contains("yyy…") && lines[4].len() < 5_000);
    println!("50 MB of standard error: {:?}", began.elapsed());
}
