//! How many sessions a process takes: its lanes at work, and four.

use crate::server::Server;
use crate::support::*;
use anabranch::Namespace;
use anabranch::Options;
use anabranch::postgres::tokio_postgres::{Client, NoTls, connect};
use anabranch::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The URL of an ordinary role that owns the log.
pub fn url_of_owner(server: &Server) -> String {
    server.ask(
        "CREATE ROLE app LOGIN PASSWORD 'x'; GRANT ALL ON DATABASE postgres TO app; \
         GRANT ALL ON SCHEMA public TO app",
    );
    server.url_of("app", "x")
}

/// A role of its own for each process of a test: its sessions can be told from others' by it, whatever they
/// call themselves. What it does it does as the owner.
pub fn url_of(server: &Server, process: usize) -> String {
    let role = format!("process_{process}");
    server.ask(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'x' IN ROLE app; ALTER ROLE {role} SET role = 'app'"
    ));
    server.url_of(&role, "x")
}

/// Looks at sessions over one of its own, which is there before others take them all.
pub struct Monitor(Client);

impl Monitor {
    pub async fn of(server: &Server) -> Self {
        let (client, connection) = connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    /// How many sessions each process has, the largest number first.
    pub async fn sessions(&self) -> Vec<i64> {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'process\\_%' \
                     GROUP BY usename ORDER BY 1 DESC";
        let rows = self.0.query(count, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// How many sessions one process has.
    pub async fn sessions_of(&self, role: &str) -> i64 {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1::text";
        self.0.query_one(count, &[&role]).await.unwrap().get(0)
    }

    /// The sessions that show the life of a worker, or last tried to.
    pub async fn shows_life(&self) -> Vec<i32> {
        let look = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
                    AND query LIKE '%pg_try_advisory_lock%'";
        self.0.query(look, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    /// What the process with the most sessions does.
    pub async fn busiest(&self) -> String {
        let look = "SELECT string_agg(concat_ws(' ', pid, state, now() - backend_start, now() - state_change, left(query, 99)), E'\n') \
                    FROM pg_stat_activity WHERE usename = (SELECT usename FROM pg_stat_activity \
                    WHERE usename LIKE 'process\\_%' GROUP BY usename ORDER BY count(*) DESC LIMIT 1)";
        self.0.query_one(look, &[]).await.unwrap().get(0)
    }
}

pub fn options(namespace: &str) -> Options {
    Options { namespace: Namespace::new(namespace).unwrap(), ..Options::default() }
}

pub fn recorder(name: &str) -> Recorder {
    Recorder {
        name: name.to_owned(),
        table: format!("{name}_rows"),
        partition: Partition::entity("Order"),
        settings: Settings::default(),
        worker: "w".to_owned(),
        hook: None,
        handled: std::sync::Arc::default(),
    }
}

/// What a runtime has opened ends with it; a log of another runtime has sessions of its own.
#[test]
fn a_runtime_that_ends_takes_nothing_from_another() {
    let server = Server::start(&[]);
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (short, long) = (runtime(), runtime());
    let first = short.block_on(async {
        let log = anabranch::connect_with(&server.url(), &options("one")).await.unwrap();
        (handles_all(&log, "first").await, log)
    });
    let log = long.block_on(anabranch::connect_with(&server.url(), &options("two"))).unwrap();
    short.shutdown_background();
    drop(first);
    long.block_on(async { handles_all(&log, "second").await.stop().await });
}

/// A worker that has handled what there is.
async fn handles_all(log: &Log, name: &str) -> Running {
    let one = recorder(name);
    let handled = Arc::clone(&one.handled);
    let running = start(log, ReplicaSet::new(name).projection(one));
    fill(log, 0..10, 1..=1).await;
    until("it runs", async || (handled.load(Ordering::Relaxed) >= 10).then_some(())).await;
    running
}

/// Three sets and two logs of four lanes each, one of them with nine consumers, and somebody who follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_takes_its_lanes_at_work_and_four() {
    let server = Server::start(&["max_connections=200"]);
    url_of_owner(&server);
    let url = url_of(&server, 0);
    let one = anabranch::connect_with(&url, &options("one")).await.unwrap();
    let two = anabranch::connect_with(&url, &options("two")).await.unwrap();
    let all: Vec<Recorder> = (0..11).map(|number| recorder(&format!("c_{number}"))).collect();
    let handled: Vec<Arc<AtomicU64>> = all.iter().map(|one| Arc::clone(&one.handled)).collect();
    let mut all = all.into_iter();
    let nine = all.by_ref().take(9);
    let nine = nine.fold(ReplicaSet::new("nine").lanes(4), ReplicaSet::projection);
    let sets = [
        start(&one, nine),
        start(&one, ReplicaSet::new("other").lanes(4).projection(all.next().unwrap())),
        start(&two, ReplicaSet::new("third").lanes(4).projection(all.next().unwrap())),
    ];
    let mut follower = one.subscribe(Query::all(), Position::START);
    fill(&one, 0..50, 1..=4).await;
    fill(&two, 0..50, 1..=4).await;
    until("all have handled all", async || {
        handled.iter().all(|count| count.load(Ordering::Relaxed) >= 200).then_some(())
    })
    .await;
    follower.next().await.unwrap().unwrap();
    // At rest: one session for each set, and four.
    let monitor = Monitor::of(&server).await;
    until("a process at rest takes seven", async || {
        (monitor.sessions().await == [7]).then_some(())
    })
    .await;
    for set in sets {
        set.stop().await;
    }
}
