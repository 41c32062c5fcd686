//! Small budgets: one session for all lanes of a set, a server without a connection left, and calls that
//! need what their caller holds.

use crate::budget::{Monitor, options, recorder, url_of, url_of_owner};
use crate::said::Said;
use crate::server::Server;
use crate::support::*;
use anabranch::Options;
use anabranch::backend::database::{End, Statement};
use anabranch::operate::{Consumers, Owner};
use anabranch::postgres::tokio_postgres::{Client, NoTls, connect};
use anabranch::prelude::*;
use anabranch::{AppendError, StoreError};
use std::time::{Duration, Instant};
use tokio::time::timeout;

const OPEN: End = End::Open { idle: Duration::from_secs(60) };

fn look() -> Vec<Statement> {
    vec![Statement::query("SELECT 1 AS one", vec![])]
}

/// Takes all connections that ordinary roles can have.
async fn fill_up(server: &Server) -> Vec<Client> {
    server.ask("CREATE ROLE crowd LOGIN PASSWORD 'x'");
    crowd(server).await
}

async fn crowd(server: &Server) -> Vec<Client> {
    let url = server.url_of("crowd", "x");
    let mut taken = Vec::new();
    while let Ok((client, connection)) = connect(&url, NoTls).await {
        tokio::spawn(connection);
        taken.push(client);
    }
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_lanes_take_turns_on_one_session() {
    let server = Server::start(&[]);
    url_of_owner(&server);
    let url = url_of(&server, 0);
    let options = Options { sessions: 1, readers: 1, ..options("small") };
    let log = anabranch::connect_with(&url, &options).await.unwrap();
    let one = recorder("one");
    let table = one.table.clone();
    let running = start(&log, ReplicaSet::new("s").lanes(4).projection(one));
    fill(&log, 0..100, 1..=5).await;
    let monitor = Monitor::of(&server).await;
    until("all is handled", async || {
        let taken = monitor.sessions().await;
        // A transaction of this test, and what is closed in this moment, are beside it.
        assert!(taken[0] <= 7, "{taken:?}: {}", monitor.busiest().await);
        let handled = until_table(&log, &table).await;
        (handled == 500).then_some(())
    })
    .await;
    assert_eq!(proof(&log, &table).await, Proof { handled: 500, doubled: 0, keys: 100, wrong: 0 });
    until("it rests with five", async || (monitor.sessions().await == [5]).then_some(())).await;
    running.stop().await;
}

async fn until_table(log: &Log, table: &str) -> i64 {
    let exists = format!("SELECT (to_regclass('{table}') IS NOT NULL)::int::bigint");
    match number(log, &exists).await {
        0 => 0,
        _ => number(log, &format!("SELECT count(*) FROM {table}")).await,
    }
}

/// Appends and reads through the log while its transaction is open.
struct Appends {
    log: Log,
}

impl Projection for Appends {
    fn name(&self) -> &str {
        "appends"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        tx.query("SELECT 1 AS one", vec![]).await?;
        let copy = StreamId::new("Copy", event.stream_id()).unwrap();
        let appended = self.log.append(&copy, Expected::Any, [NewEvent::new("Copied", ())]).await;
        appended.map_err(|error| anabranch::HandlerError::new(error.to_string()))?;
        let read = self.log.read_stream(&copy).collect().await;
        read.map(drop).map_err(|error| anabranch::HandlerError::new(error.to_string()))
    }
}

/// The handler has the set's only session, and the server has none left: what it appends and reads goes over
/// the session for that, which nobody keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_appends_and_reads_on_a_server_without_a_connection_left() {
    let server = Server::start(&["max_connections=20"]);
    let url = url_of_owner(&server);
    let options = Options { sessions: 1, readers: 1, ..options("small") };
    let log = anabranch::connect_with(&url, &options).await.unwrap();
    let set = ReplicaSet::new("s").lanes(2).projection(Appends { log: log.clone() });
    let running = start(&log, set);
    until("it runs", async || {
        let workers = Consumers::new(&log).workers().await.ok()?;
        (workers.len() == 1).then_some(())
    })
    .await;
    let taken = fill_up(&server).await;
    fill(&log, 0..10, 1..=2).await;
    let copies = || log.read(Query::types(["Copied"])).collect();
    until("all is copied", async || (copies().await.ok()?.len() == 20).then_some(())).await;
    drop(taken);
    running.stop().await;
}

/// A caller that holds the last session in a transaction of its own, and reads and appends meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_holds_the_last_session_is_told_so() {
    let server = Server::start(&["max_connections=20"]);
    let url = url_of_owner(&server);
    let log = anabranch::connect_with(&url, &options("small")).await.unwrap();
    fill(&log, 0..1, 1..=1).await;
    let taken = fill_up(&server).await;
    let mut held = log.store().database().begin();
    held.run(look(), OPEN).await.unwrap();
    let started = Instant::now();
    let error = log.read(Query::all()).collect().await.unwrap_err();
    assert!(matches!(error, StoreError::NoSession { .. }), "{error:?}");
    let said = error.to_string();
    for part in
        ["anabranch//hook", "end a transaction before", "Options::readers", "max_connections is 20"]
    {
        assert!(said.contains(part), "`{part}` in: {said}");
    }
    let order = StreamId::new("Order", "0").unwrap();
    let error = log.append(&order, Expected::Any, [numbered(2)]).await.unwrap_err();
    let AppendError::Store(error) = error else { panic!("{error}") };
    assert!(matches!(error, StoreError::NoSession { .. }), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(30), "it took {:?}", started.elapsed());
    held.run(look(), End::Commit).await.unwrap();
    log.append(&order, Expected::Any, [numbered(2)]).await.unwrap();
    drop(taken);
}

/// On one thread, whose log is heard.
#[tokio::test]
async fn a_server_without_a_connection_left_is_named_with_its_limit() {
    let (heard, _guard) = Said::listen();
    let server = Server::start(&["max_connections=20"]);
    let url = url_of_owner(&server);
    let log = anabranch::connect_with(&url, &options("small")).await.unwrap();
    let taken = fill_up(&server).await;
    let other = server.url_of("crowd", "x");
    let error = anabranch::connect_with(&other, &options("small")).await.err().unwrap();
    assert!(matches!(error, StoreError::TooManyConnections { .. }), "{error:?}");
    assert!(error.is_transient());
    // Two sessions of a log at once: the second finds out, and knows the limit by then.
    let [mut one, mut two] = [0, 1].map(|_| log.store().database().begin());
    one.run(look(), OPEN).await.unwrap();
    let held = two.run(look(), OPEN);
    let error = held.await.unwrap_err().into_store_error("");
    assert!(matches!(error, StoreError::NoSession { .. }), "{error:?}");
    drop((one, two));
    // A worker waits, owns nothing, and says why; then it runs.
    let running = start(&log, ReplicaSet::new("s").projection(recorder("waits")));
    let set_up = async || until_table(&log, "waits_rows").await;
    let waits = "a worker waits for connections, and owns nothing yet";
    until("it waits", async || (!heard.lines(waits).is_empty()).then_some(())).await;
    assert!(!running.has_ended());
    drop(taken);
    fill(&log, 0..10, 1..=1).await;
    until("it runs", async || (set_up().await == 10).then_some(())).await;
    running.stop().await;
    let said = StoreError::TooManyConnections {
        at: "x".to_owned(),
        limit: "max_connections is 20, of which 3 are reserved".to_owned(),
        source: "sorry".into(),
    };
    let said = said.to_string();
    assert!(said.contains("a session for each lane at work and four more"), "{said}");
}

/// A role, a database and a server have limits of their own, and each is changed in another way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_that_is_reached_is_the_one_that_is_named() {
    let server = Server::start(&["max_connections=20"]);
    let url = url_of_owner(&server);
    // One log knows how many connections the server may have, another has never been there.
    let log = anabranch::connect_with(&url, &options("small")).await.unwrap();
    let limits = async || {
        let mut held: Vec<_> = (0..2).map(|_| log.store().database().begin()).collect();
        let mut refused = Vec::new();
        for session in &mut held {
            refused.extend(session.run(look(), OPEN).await.err());
        }
        let known = refused.remove(0).into_store_error("");
        let new = format!("{url}?application_name={}", uuid::Uuid::now_v7().simple());
        let new = anabranch::connect_with(&new, &options("small")).await.err().unwrap();
        [known, new].map(|error| error.to_string())
    };
    for (whose, other) in [("ROLE app", "DATABASE"), ("DATABASE postgres", "ROLE")] {
        server.ask(&format!("ALTER {whose} CONNECTION LIMIT 0"));
        let what = whose.split(' ').next().unwrap();
        let [known, new] = limits().await;
        for said in [&known, &new] {
            let whose = format!("the CONNECTION LIMIT of the {} is reached", what.to_lowercase());
            assert!(said.contains(&whose), "`{whose}` in: {said}");
            assert!(said.contains(&format!("ALTER {what} name CONNECTION LIMIT")), "{said}");
            assert!(!said.contains(&format!("ALTER {other}")), "{said}");
        }
        server.ask(&format!("ALTER {whose} CONNECTION LIMIT -1"));
    }
    let taken = fill_up(&server).await;
    let [known, new] = limits().await;
    assert!(known.contains("max_connections is 20, of which 3 are reserved"), "{known}");
    assert!(new.contains("see max_connections"), "{new}");
    assert!(!format!("{known} {new}").contains("CONNECTION LIMIT"), "{known} {new}");
    drop(taken);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_without_a_session_for_its_lanes_gives_its_slots_back() {
    gives_back(false).await;
}

/// What it could not release at first it releases later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_gives_its_slots_back_though_that_is_refused_at_first() {
    gives_back(true).await;
}

/// Refuses releases, as a server whose disk is full would, and counts: a sequence is not rolled back.
fn refuse_releases(server: &Server, owner: &Log) {
    let cursors = owner.store().database().dialect().table("cursors");
    server.ask("CREATE SEQUENCE public.refused");
    server.ask("GRANT ALL ON public.refused TO public");
    server.ask(
        "CREATE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN \
         PERFORM nextval(''public.refused''); RAISE ''no space left'' USING ERRCODE = ''53100''; END'",
    );
    server.ask(&format!(
        "CREATE TRIGGER full_disk BEFORE UPDATE ON {cursors} FOR EACH ROW \
         WHEN (NEW.owner IS NULL AND OLD.owner IS NOT NULL) EXECUTE FUNCTION public.full_disk()"
    ));
}

/// A worker whose session for lanes is cut while there is no connection left hands its slots to the other,
/// and has its share again later.
async fn gives_back(is_refused: bool) {
    let server = Server::start(&["max_connections=40"]);
    let owner = anabranch::connect_with(&url_of_owner(&server), &options("small")).await.unwrap();
    let mut running = Vec::new();
    for process in 0..2 {
        let log =
            anabranch::connect_with(&url_of(&server, process), &options("small")).await.unwrap();
        let set = ReplicaSet::new("s").lanes(2).projection(recorder("shared"));
        running.push(start(&log, set.lease(Duration::from_secs(2))));
    }
    let owners = async || -> usize {
        let Ok(status) = Consumers::new(&owner).status("shared").await else { return 0 };
        let id = |owner: &Owner| match owner {
            Owner::Worker(worker) => Some(worker.id.clone()),
            _ => None,
        };
        let owned: Vec<_> = status.cursors.iter().map(|cursor| id(&cursor.owner)).collect();
        if owned.iter().any(Option::is_none) {
            return 0;
        }
        owned.into_iter().flatten().collect::<std::collections::BTreeSet<_>>().len()
    };
    until("two share", async || (owners().await == 2).then_some(())).await;
    let monitor = Monitor::of(&server).await;
    until("both rest with five", async || (monitor.sessions().await == [5, 5]).then_some(())).await;
    // Lanes that wait for a lock are known by their names.
    let mut held = owner.store().database().begin();
    held.run(vec![Statement::new("LOCK TABLE shared_rows", vec![])], OPEN).await.unwrap();
    fill(&owner, 0..50, 1..=3).await;
    let lanes = "pg_stat_activity WHERE usename = 'process_0' AND application_name LIKE '%/shared'";
    until("its lanes wait", async || {
        (server.ask(&format!("SELECT count(*) FROM {lanes}")) == "2").then_some(())
    })
    .await;
    if is_refused {
        refuse_releases(&server, &owner);
    }
    // What it has it keeps, but there is no connection more for it.
    server.ask("ALTER ROLE process_0 CONNECTION LIMIT 1");
    server.ask(&format!("SELECT pg_terminate_backend(pid) FROM {lanes}"));
    held.run(look(), End::Commit).await.unwrap();
    if is_refused {
        until("a release to be refused", async || {
            (server.ask("SELECT is_called FROM public.refused") == "t").then_some(())
        })
        .await;
        let cursors = owner.store().database().dialect().table("cursors");
        server.ask(&format!("DROP TRIGGER full_disk ON {cursors}"));
    }
    until("one has given its slots back", async || (owners().await == 1).then_some(())).await;
    let runners = Consumers::new(&owner).workers().await.unwrap();
    let said = format!("{runners:?}");
    assert!(said.contains("ALTER ROLE name CONNECTION LIMIT"), "{said}");
    until("everything is handled", async || {
        (until_table(&owner, "shared_rows").await == 150).then_some(())
    })
    .await;
    server.ask("ALTER ROLE process_0 CONNECTION LIMIT -1");
    until("both run again", async || (owners().await == 2).then_some(())).await;
    for running in running {
        running.stop().await;
    }
}

/// What one process has idle it closes at once when another needs it, though it would keep it for longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_sessions_are_closed_when_another_process_needs_them() {
    let server = Server::start(&["max_connections=30"]);
    url_of_owner(&server);
    let one = anabranch::connect_with(&url_of(&server, 0), &options("small")).await.unwrap();
    let other = anabranch::connect_with(&url_of(&server, 1), &options("small")).await.unwrap();
    let set = |name: &str| ReplicaSet::new(name).projection(recorder(name));
    let [ended, stays] = ["a", "b"].map(|name| start(&one, set(name)));
    let needy = start(&other, set("c"));
    until("all run", async || {
        let workers = Consumers::new(&one).workers().await.ok()?;
        (workers.len() == 3).then_some(())
    })
    .await;
    // A set that ends takes nothing with it that the other one needs.
    ended.stop().await;
    let mut taken = fill_up(&server).await;
    taken.truncate(taken.len().saturating_sub(6));
    let monitor = Monitor::of(&server).await;
    until("one closes what the other needs", async || {
        // What is left, of which a worker may have taken some.
        let mut open = Vec::new();
        for _ in 0..6 {
            let mut session = one.store().database().begin();
            match timeout(Duration::from_secs(1), session.run(look(), OPEN)).await {
                Ok(Ok(_)) => open.push(session),
                _ => break,
            }
        }
        // In this round only: it would else take what was closed too late, and the next one could not begin.
        let crowd = crowd(&server).await;
        let before = monitor.sessions_of("process_0").await;
        let idle_since = Instant::now();
        drop(open);
        // The second finds no connection left, says so, and takes a turn with reads and appends.
        let mut wanted = [0, 1].map(|_| other.store().database().begin());
        for session in &mut wanted {
            let _ = timeout(Duration::from_millis(900), session.run(look(), OPEN)).await;
        }
        // After a second it would close them by itself.
        while idle_since.elapsed() < Duration::from_millis(900) {
            if before > 7 && monitor.sessions_of("process_0").await <= 5 {
                return Some(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drop(crowd);
        None
    })
    .await;
    drop(taken);
    stays.stop().await;
    needy.stop().await;
}

/// All logs of a process read over one session if there is no other: those who wait for it have it in turn, however
/// often they look for another meanwhile.
#[tokio::test]
async fn those_who_wait_for_a_session_have_it_in_turn() {
    let server = Server::start(&["max_connections=20"]);
    let url = url_of_owner(&server);
    let mut logs = Vec::new();
    for number in 0..10 {
        let log = anabranch::connect_with(&url, &options(&format!("turn_{number}"))).await.unwrap();
        logs.push(log);
    }
    let taken = fill_up(&server).await;
    // It takes the only session that is left.
    let mut held = logs[0].store().database().begin();
    held.run(look(), OPEN).await.unwrap();
    let served = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for (number, log) in logs.iter().cloned().enumerate() {
        let served = std::sync::Arc::clone(&served);
        waiting.push(tokio::spawn(async move {
            log.head().await.unwrap();
            served.lock().unwrap().push(number);
        }));
        tokio::time::sleep(Duration::from_millis(80)).await;
    }
    assert!(served.lock().unwrap().is_empty(), "no session is left");
    held.run(look(), End::Commit).await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..10).collect::<Vec<_>>());
    drop(taken);
}
