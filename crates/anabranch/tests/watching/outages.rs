//! Databases that are stopped and go on, and a runtime that is stuck: whether the process says that it is alive and ready.

use crate::asked::*;
use crate::pair::Pair;
use crate::server::Server;
use crate::support::*;
use anabranch::Tuning;
use anabranch::prelude::*;
use anabranch::watch::Watch;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

fn quick() -> Tuning {
    Tuning::default().lease(Duration::from_secs(2)).heartbeat(Duration::from_millis(200))
}

/// A server that stands still with all its sessions, until this is dropped.
struct Stopped(String);

impl Stopped {
    fn new(server: &Server) -> Self {
        let file = std::fs::read_to_string(server.home().join("data/postmaster.pid")).unwrap();
        let stopped = Self(file.lines().next().unwrap().to_owned());
        // First the one that makes the others: what it makes after a look at them would go on.
        let main = &stopped.0;
        stopped.signal("STOP", main);
        let began = Instant::now();
        while !shell(&format!("ps -o state= -p {main}")).starts_with('T') {
            assert!(began.elapsed() < PATIENCE, "it does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
        stopped.signal("STOP", &format!("$(pgrep -P {main})"));
        stopped
    }

    fn signal(&self, name: &str, whom: &str) {
        shell(&format!("kill -s {name} {whom} 2> /dev/null; true"));
    }
}

fn shell(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let main = &self.0;
        self.signal("CONT", &format!("$(pgrep -P {main}) {main}"));
    }
}

async fn is_alive(at: SocketAddr) {
    assert_eq!(asked(at, "/livez", "*/*").await.0, 200, "a restart would not help");
}

/// A worker on a server that says nothing for a while, and one that is gone and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_is_ready_again_when_its_database_is() {
    let mut server = Server::start(&[]);
    let db = Db::at(format!("{}?tcp_user_timeout=2", server.url()));
    let watch = Watch::new(db.log().await);
    let http = watch.listen("127.0.0.1:0").unwrap();
    let (at, log) = (http.address(), watch.log());
    let running =
        start(&log, ReplicaSet::new("s").projection(db.recorder("orders")).tuning(quick()));
    until_ready(at).await;

    let stopped = Stopped::new(&server);
    until_not_ready(at, "no sign of life").await;
    is_alive(at).await;
    let text = asked(at, "/metrics", "*/*").await.1;
    assert_eq!(value(&text, "anabranch_database_up"), Some(0.0), "{text}");
    drop(stopped);
    until_ready(at).await;

    let failed = "anabranch_heartbeat_failures_total{set=\"s\"}";
    let before = value(&asked(at, "/metrics", "*/*").await.1, failed).unwrap();
    server.stop();
    until_not_ready(at, "").await;
    // On a slow machine others took it for dead when it was stopped, and it begins anew: then it has no life to show yet.
    let joins = "anabranch_outage_seconds_total{set=\"s\",of=\"join\"}";
    until_says(at, "/metrics", |_, body| {
        value(body, failed) > Some(before) || value(body, joins) > Some(0.0)
    })
    .await;
    is_alive(at).await;
    server.run();
    until_ready(at).await;
    until_says(at, "/metrics", |_, body| value(body, "anabranch_database_up") == Some(1.0)).await;
    // It works again, too.
    fill(&log, 0..3, 1..=2).await;
    until("all is handled", async || {
        (proof(&log, &db.table("orders")).await.handled == 6).then_some(())
    })
    .await;
    running.stop().await;
}

/// Where log and consumers are on two servers, one of both is not enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_servers_both_are_needed() {
    let mut pair = Pair::postgres().on_servers();
    let watch = Watch::new(pair.log().await);
    let http = watch.listen("127.0.0.1:0").unwrap();
    let server = Watch::new(pair.log().await).for_server();
    let (log, looks) = (watch.log(), server.listen("127.0.0.1:0").unwrap());
    let (at, of_server) = (http.address(), looks.address());
    let running = start(&log, pair.set().tuning(quick()));
    until_ready(at).await;
    until_ready(of_server).await;
    for (number, why) in [(0, "cannot reach"), (1, "no sign of life")] {
        let port = pair.servers[number].as_ref().unwrap().port().to_string();
        pair.servers[number].as_mut().unwrap().stop();
        until_not_ready(at, why).await;
        let said = until_not_ready(of_server, "cannot reach").await;
        assert!(said.contains(&port), "{said} names the one that is away, at {port}");
        is_alive(at).await;
        pair.servers[number].as_mut().unwrap().run();
        until_ready(at).await;
        until_ready(of_server).await;
    }
    running.stop().await;
}

/// A server process is ready while its database answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_ready_while_its_database_answers() {
    let server = Server::start(&[]);
    let db = Db::at(format!("{}?tcp_user_timeout=2", server.url()));
    let watch = Watch::new(db.log().await).for_server();
    let http = watch.listen("127.0.0.1:0").unwrap();
    let at = http.address();
    until_ready(at).await;
    let stopped = Stopped::new(&server);
    until_not_ready(at, "cannot reach").await;
    is_alive(at).await;
    drop(stopped);
    until_ready(at).await;
}

/// The only thread of the runtime is blocked: the server answers all the same, and says so.
#[tokio::test]
async fn a_runtime_that_is_stuck_is_not_alive_and_recovers() {
    let db = Db::sqlite();
    let watch = Watch::new(db.log().await).stuck_after(Duration::from_secs(2));
    let server = watch.listen("127.0.0.1:0").unwrap();
    let at = server.address();
    let asks = std::thread::spawn(move || {
        let began = Instant::now();
        loop {
            let (status, body) = get(at, "/livez", "*/*");
            if status == 503 {
                return (body, get(at, "/readyz", "*/*"));
            }
            assert!(began.elapsed() < PATIENCE, "it never says so");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    // Blocks this thread, on which everything of the runtime runs.
    let (body, (status, ready)) = asks.join().unwrap();
    assert!(body.contains("has not turned over"), "{body}");
    assert!(status == 503 && ready.contains("has not turned over"), "{ready}");
    until_says(at, "/livez", |status, _| status == 200).await;
}
