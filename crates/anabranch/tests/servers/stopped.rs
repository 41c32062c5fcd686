//! A server process that stops answering while its connection stays: nobody waits for it for ever.

use crate::budget::{Monitor, options, recorder};
use crate::server::Server;
use crate::support::*;
use anabranch::prelude::*;
use std::process::Command;
use std::time::Duration;

fn signal(pid: &str, name: &str) {
    let mut kill = Command::new("kill");
    assert!(kill.args(["-s", name, pid]).status().unwrap().success());
}

/// The session that shows the life of a worker, which takes its heartbeats and its notifications.
const LINK: &str = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 \
                    AND mode = 'ExclusiveLock' AND granted";

/// What stops is the session that all workers of a process depend on. Whatever is sent there first finds out:
/// a notification, where heartbeats are minutes apart, or else a heartbeat.
async fn stops(lease: Duration, is_notified: bool) {
    let server = Server::start(&[]);
    let monitor = Monitor::of(&server).await;
    let url = format!("{}?tcp_user_timeout=2", server.url());
    let log = anabranch::connect_with(&url, &options("stopped")).await.unwrap();
    let one = recorder("orders");
    let table = one.table.clone();
    let running = start(&log, ReplicaSet::new("s").projection(one).lease(lease));
    let other = anabranch::connect_with(&server.url(), &options("stopped")).await.unwrap();
    fill(&other, 0..10, 1..=1).await;
    until_handled(&log, &table, 10).await;
    let link =
        until("its life", async || Some(server.ask(LINK)).filter(|pid| !pid.is_empty())).await;
    signal(&link, "STOP");
    if is_notified {
        fill(&log, 0..10, 2..=2).await;
    }
    // The new one tries to show the life that the old one still shows.
    until("another session instead of it", async || {
        (monitor.shows_life().await.iter().any(|pid| pid.to_string() != link)).then_some(())
    })
    .await;
    signal(&link, "CONT");
    fill(&other, 0..10, if is_notified { 3..=3 } else { 2..=2 }).await;
    until_handled(&log, &table, if is_notified { 30 } else { 20 }).await;
    assert!(!running.has_ended());
    running.stop().await;
}

async fn until_handled(log: &Log, table: &str, events: i64) {
    let exists = format!("SELECT (to_regclass('{table}') IS NOT NULL)::int::bigint");
    until("all is handled", async || {
        let is_there = number(log, &exists).await == 1;
        (is_there && proof(log, table).await.handled == events).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_does_not_wait_for_ever() {
    stops(Duration::from_secs(300), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_does_not_wait_for_ever() {
    stops(Duration::from_secs(20), false).await;
}
