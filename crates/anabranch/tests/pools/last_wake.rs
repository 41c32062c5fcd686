//! A program that appends, or enqueues, and ends at once: others hear of it all the same.

use crate::ledger::*;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, Tasks};
use anabranch::{Namespace, Options, Tuning};
use std::process::Command;
use std::time::Duration;

on_both!(what_a_program_did_last_is_heard_of_although_it_ends);

const TOLD: &str = "ANABRANCH_TEST_ENDS_AT_ONCE";

/// The program, on a runtime of one thread: appends an event or enqueues a task, and that is it.
#[tokio::main(flavor = "current_thread")]
async fn end_at_once(told: &str) {
    let [what, namespace, number, url] = &told.splitn(4, ' ').collect::<Vec<_>>()[..] else {
        panic!("{told}")
    };
    let options = Options { namespace: Namespace::new(*namespace).unwrap(), ..Options::default() };
    let log = anabranch::connect_with(url, &options).await.unwrap();
    if *what == "append" {
        let stream = StreamId::new("Order", *number).unwrap();
        log.append(&stream, Expected::NoStream, [numbered(1)]).await.unwrap();
    } else {
        let task = NewTask::new(*number, &1);
        Tasks::new(&log, "ledger").enqueue(task).await.unwrap();
    }
}

async fn what_a_program_did_last_is_heard_of_although_it_ends(db: Db) {
    if let Ok(told) = std::env::var(TOLD) {
        // This case once more, as the program.
        return tokio::task::spawn_blocking(move || end_at_once(&told)).await.unwrap();
    }
    let case = std::thread::current().name().unwrap().to_owned();
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let recorder = db.recorder("orders");
    let tuning = Tuning::default().poll(Duration::from_secs(300));
    let set = ReplicaSet::new("work").pool(ledger.clone()).projection(recorder.clone());
    let worker = start(&log, set.tuning(tuning));
    crate::crew::until_shared(&log, "ledger", 1).await;
    crate::crew::until_shared(&log, "orders", 1).await;
    for number in 1..=5 {
        for what in ["append", "task"] {
            let told = format!("{what} {} {number} {}", db.options.namespace, db.url);
            let mut program = Command::new(std::env::current_exe().unwrap());
            program.args(["--exact", &case]).env(TOLD, told);
            let ended = tokio::task::spawn_blocking(move || program.output().unwrap());
            let ended = ended.await.unwrap();
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        }
        until("what it did", async || {
            let events = recorder.handled.load(std::sync::atomic::Ordering::SeqCst);
            (ledger.proof(&log).await.0 == number && events == number as u64).then_some(())
        })
        .await;
    }
    worker.stop().await;
}
