//! PgBouncer before the server: in session mode everything works; in other modes it is refused, when
//! connecting or by the next heartbeat.

use crate::budget::{options, recorder};
use crate::server::{self, Server, become_another, own};
use crate::support::*;
use anabranch::operate::{Consumers, Owner};
use anabranch::postgres::tokio_postgres::{Client, NoTls, SimpleQueryMessage, connect};
use anabranch::prelude::*;
use anabranch::{RunError, StoreError};
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
        Self::start_with(server, mode, "")
    }

    /// With more settings, one in each line.
    fn start_with(server: &Server, mode: &str, more: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut pooler = Self { port, process: None };
        pooler.run(server, mode, more);
        pooler
    }

    /// Ends it and starts it again in another mode.
    fn run(&mut self, server: &Server, mode: &str, more: &str) {
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
             default_pool_size = 60\n\
             {more}\n"
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

/// A transaction that is open: a pooler gives it a server process of its own, and this is its id.
async fn hold(url: &str) -> (i32, Client) {
    let (client, connection) = connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("BEGIN").await.unwrap();
    let answers = client.simple_query("SELECT pg_backend_pid()").await.unwrap();
    let pid = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    (pid.unwrap(), client)
}

fn is_refusal(error: &StoreError, found: &str) {
    assert!(matches!(error, StoreError::Unsuitable { .. }), "{error:?}");
    let said = error.to_string();
    let parts = ["a pooler in transaction mode", "the direct URL of the server", "session mode"];
    for part in parts.into_iter().chain([found]) {
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
        is_refusal(&error.unwrap(), "");
    }
    // One server process for all: whoever has it, nobody else can.
    let pooler = Pooler::start_with(&server, "transaction", "default_pool_size = 1");
    let error = anabranch::connect_with(&pooler.url("a"), &options("pooled")).await.err();
    is_refusal(&error.unwrap(), "two sessions were in server process");
    // Three, one after the other: a session is back in the process where it began, and what it has set
    // since then is in another.
    let pooler = Pooler::start_with(&server, "transaction", "server_round_robin = 1");
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(hold(&pooler.url("b")).await);
    }
    for (_, client) in held {
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    let error = anabranch::connect_with(&pooler.url("a"), &options("pooled")).await.err();
    is_refusal(&error.unwrap(), "a session was in server process");
    // Nothing was left behind: the log does not exist yet.
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'pooled'";
    assert_eq!(server.ask(schemas), "0");
}

async fn owners(log: &Log) -> usize {
    let Ok(status) = Consumers::new(log).status("pooled").await else { return 0 };
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

/// A worker that has connected while the pooler was in session mode.
async fn connected_before(server: &Server, pooler: &Pooler) -> Running {
    let log = anabranch::connect_with(&pooler.url("a"), &options("pooled")).await.unwrap();
    let set = ReplicaSet::new("s").lanes(2).projection(recorder("pooled"));
    let running = start(&log, set.lease(Duration::from_secs(2)));
    until("it runs", async || (owners(&log).await == 1).then_some(())).await;
    assert_ne!(server.ask(SHOWS_LIFE), "");
    running
}

/// In which server process is the lock that shows the life of a worker.
const SHOWS_LIFE: &str = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 \
                          AND mode = 'ExclusiveLock' AND granted";

async fn is_refused_by(running: Running, found: &str) {
    let ended = tokio::time::timeout(PATIENCE, running.ended()).await.expect("it is found");
    match ended.unwrap_err() {
        RunError::Store(error) => is_refusal(&error, found),
        error => panic!("{error}"),
    }
}

/// The test when connecting can pass by luck, or before somebody changes the mode.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_finds_a_pooler_that_connecting_did_not() {
    let server = Server::start(&[]);
    let mut pooler = Pooler::start(&server, "session");
    let running = connected_before(&server, &pooler).await;
    pooler.run(&server, "transaction", "");
    // While nobody else is there, all that an idle worker does may be in one process. Somebody else takes it.
    let mut held = Vec::new();
    until("somebody else in that process", async || {
        if running.has_ended() {
            return Some(());
        }
        let shows_life = server.ask(SHOWS_LIFE).parse::<i32>().ok()?;
        held.push(hold(&pooler.url("b")).await);
        held.iter().any(|(pid, _)| *pid == shows_life).then_some(())
    })
    .await;
    is_refused_by(running, "").await;
}

/// All is in one process, where every statement is known that was ever prepared; but what a session holds is
/// gone with each transaction. Only a heartbeat can see that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_finds_that_its_lock_is_gone() {
    let server = Server::start(&[]);
    let mut pooler = Pooler::start(&server, "session");
    let running = connected_before(&server, &pooler).await;
    let forgets = "default_pool_size = 1\n\
                   server_reset_query = SELECT pg_advisory_unlock_all()\n\
                   server_reset_query_always = 1";
    pooler.run(&server, "transaction", forgets);
    is_refused_by(running, "the session that shows life has 0 of its 1 locks left").await;
}
