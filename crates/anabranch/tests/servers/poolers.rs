//! PgBouncer before the server: in session mode everything works; in other modes it is refused, when
//! connecting or by the next heartbeat.

use crate::budget::{options, recorder};
use crate::server::{self, Server, become_another, own};
use crate::support::*;
use anabranch::prelude::*;
use anabranch::{Consumers, Owner, RunError, StoreError};
use std::collections::BTreeSet;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A pooler that is running.
struct Pooler {
    port: u16,
    process: Option<Child>,
}

impl Pooler {
    fn start(server: &Server, mode: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut pooler = Self { port, process: None };
        pooler.run(server, mode);
        pooler
    }

    /// Ends it and starts it again in another mode.
    fn run(&mut self, server: &Server, mode: &str) {
        self.stop();
        let (port, to) = (self.port, server.port());
        let settings = format!(
            "[databases]\n\
             postgres = host=127.0.0.1 port={to} user=postgres password=throwaway\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir =\n\
             auth_type = any\n\
             pool_mode = {mode}\n\
             default_pool_size = 60\n"
        );
        let path = server.home().join(format!("pgbouncer-{port}.ini"));
        fs::write(&path, settings).unwrap();
        own(&path);
        let mut command = Command::new(server::pooler());
        become_another(command.arg(&path).current_dir(server.home()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(command.spawn().unwrap());
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(30), "the pooler did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn url(&self, application: &str) -> String {
        let port = self.port;
        format!("postgres://postgres@127.0.0.1:{port}/postgres?application_name={application}")
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.stop();
    }
}

fn is_refusal(error: &StoreError) {
    assert!(matches!(error, StoreError::Unsuitable { .. }), "{error:?}");
    let said = error.to_string();
    for part in ["a pooler in transaction mode", "the direct URL of the server", "session mode"] {
        assert!(said.contains(part), "`{part}` in: {said}");
    }
    assert!(!error.is_transient());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_or_statement_mode_is_refused() {
    let server = Server::start(&[]);
    for mode in ["transaction", "statement"] {
        let pooler = Pooler::start(&server, mode);
        let error = anabranch::connect_with(&pooler.url("a"), &options("pooled")).await.err();
        is_refusal(&error.unwrap());
    }
    // Nothing was left behind: the log does not exist yet.
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'pooled'";
    assert_eq!(server.ask(schemas), "0");
}

async fn owners(log: &Log) -> usize {
    let Ok(status) = Consumers::of(log).status("pooled").await else { return 0 };
    let owner = |owner: &Owner| match owner {
        Owner::Worker(worker) => Some(worker.id.clone()),
        _ => None,
    };
    let owned: Option<BTreeSet<String>> =
        status.cursors.iter().map(|cursor| owner(&cursor.owner)).collect();
    owned.map_or(0, |owned| owned.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_mode_works_from_append_to_take_over() {
    let server = Server::start(&[]);
    let pooler = Pooler::start(&server, "session");
    let log = anabranch::connect_with(&pooler.url("a"), &options("pooled")).await.unwrap();
    let one = recorder("pooled");
    let table = one.table.clone();
    let join = async |name: &str| {
        let log = anabranch::connect_with(&pooler.url(name), &options("pooled")).await.unwrap();
        let set = ReplicaSet::new("s").lanes(2).projection(one.clone());
        start(&log, set.lease(Duration::from_secs(300)))
    };
    let (survivor, victim) = (join("survivor").await, join("victim").await);
    until("two share", async || (owners(&log).await == 2).then_some(())).await;
    let mut follower = log.subscribe(Query::all(), Position::START);
    fill(&log, 0..50, 1..=3).await;
    follower.next().await.unwrap().unwrap();
    // The lease is minutes long, so only the sign of life can tell of the death.
    victim.crash();
    until("the survivor has it all", async || (owners(&log).await == 1).then_some(())).await;
    fill(&log, 0..50, 4..=5).await;
    let all = Proof { handled: 250, doubled: 0, keys: 50, wrong: 0 };
    until("all is handled", async || (proof(&log, &table).await == all).then_some(())).await;
    survivor.stop().await;
}

/// The test when connecting can pass by luck, or before somebody changes the mode.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_finds_a_pooler_that_connecting_did_not() {
    let server = Server::start(&[]);
    let mut pooler = Pooler::start(&server, "session");
    let log = anabranch::connect_with(&pooler.url("a"), &options("pooled")).await.unwrap();
    let set = ReplicaSet::new("s").lanes(2).projection(recorder("pooled"));
    let running = start(&log, set.lease(Duration::from_secs(2)));
    until("it runs", async || (owners(&log).await == 1).then_some(())).await;
    pooler.run(&server, "transaction");
    match running.ended().await.unwrap_err() {
        RunError::Store(error) => is_refusal(&error),
        error => panic!("{error}"),
    }
}
