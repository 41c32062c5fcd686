//! What goes wrong with a server: each error names the thing and the remedy, and nothing is half
//! written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;

use anabranch_core::{AppendError, Expected, Position, Query, StoreError};
use anabranch_postgres::Postgres;
use anabranch_store::contract::{numbered, numbers, order, soon};
use anabranch_store::{Durability, Log, Namespace, Options};
use server::{client, namespace, open, url};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The login, the host and the database of the test server.
fn parts_of_url() -> [String; 3] {
    let url = url();
    let (login, rest) = url.split_once("://").unwrap().1.rsplit_once('@').unwrap();
    let (host, database) = rest.split_once('/').unwrap();
    let database = database.split('?').next().unwrap();
    [login, host, database].map(str::to_owned)
}

/// The URL of the test server for another login.
fn url_with(login: &str) -> String {
    let [_, host, database] = parts_of_url();
    format!("postgres://{login}@{host}/{database}")
}

async fn refused(url: &str) -> StoreError {
    let options = Options { namespace: namespace(), ..Options::default() };
    soon(Postgres::connect(url, &options)).await.err().expect("it cannot work")
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let error = refused(&format!("postgres://app:secret@127.0.0.1:{port}/shop")).await;
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(&format!("cannot reach postgres://app@127.0.0.1:{port}/shop")));
    assert!(message.contains("check that the server runs"), "{message}");
    assert!(!message.contains("secret"), "{message}");
}

#[tokio::test]
async fn wrong_logins_and_databases_are_told_apart() {
    let error = refused(&url_with("postgres:wrong")).await;
    assert!(matches!(error, StoreError::LoginRefused { .. }), "{error:?}");
    assert!(error.to_string().contains("check user and password"), "{error}");
    let [login, host, _] = parts_of_url();
    let error = refused(&url_with(login.split(':').next().unwrap())).await;
    assert!(matches!(error, StoreError::LoginRefused { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("the URL has none, and PGPASSWORD and .pgpass are not read"), "{said}");

    let error = refused(&format!("postgres://{login}@{host}/no_such_database")).await;
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
    assert!(error.to_string().contains("create it (createdb NAME)"), "{error}");

    let error = refused("postgres://[").await;
    assert!(error.to_string().contains("write it as postgres://user"), "{error}");
}

#[tokio::test]
async fn rights_that_are_missing_are_named() {
    let client = client().await;
    let namespace = namespace();
    let role = format!("role_{namespace}");
    client.batch_execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'x'")).await.unwrap();
    let url = url_with(&format!("{role}:x"));
    let error = refused(&url).await;
    assert!(matches!(error, StoreError::Denied { .. }), "{error:?}");
    assert!(error.to_string().contains("denied permission"), "{error}");

    // One that may write, but only on a server that does not let it.
    drop(open(&namespace).await);
    client
        .batch_execute(&format!(
            "GRANT USAGE ON SCHEMA {namespace} TO {role}; \
             GRANT ALL ON ALL TABLES IN SCHEMA {namespace} TO {role}; \
             GRANT ALL ON ALL SEQUENCES IN SCHEMA {namespace} TO {role}; \
             ALTER ROLE {role} SET default_transaction_read_only = on"
        ))
        .await
        .unwrap();
    let options = Options { namespace: namespace.clone(), ..Options::default() };
    let log = Log::new(Postgres::connect(&url, &options).await.unwrap());
    let error = log.append(&order(1), Expected::Any, [numbered(1)]).await.unwrap_err();
    assert!(matches!(error, AppendError::Store(StoreError::ReadOnly { .. })), "{error:?}");
    assert!(error.to_string().contains("connect to the primary"), "{error}");
    assert!(log.read(Query::all()).collect().await.unwrap().is_empty(), "reading is allowed");
}

#[tokio::test]
async fn a_newer_schema_is_opened_if_it_admits_this_program_and_else_left_alone() {
    let (namespace, client) = (namespace(), client().await);
    drop(open(&namespace).await);
    let known = anabranch_postgres::MIGRATIONS.newest();
    let insert = format!("INSERT INTO {namespace}.migrations (version, name, admits)");
    let later = async |version: u32, admits: &str| {
        let insert = format!("{insert} VALUES ({version}, 'from the future', {admits})");
        client.execute(&insert, &[]).await.unwrap();
    };
    later(known + 1, &known.to_string()).await;
    let log = open(&namespace).await;
    log.append(&order(1), Expected::NoStream, [numbered(1)]).await.unwrap();
    assert_eq!(numbers(&log.read(Query::all()).collect().await.unwrap()), [1]);
    log.store().database().require_newest_schema().unwrap();

    let options = Options { namespace: namespace.clone(), ..Options::default() };
    for (version, admits) in [(known + 2, (known + 2).to_string()), (known + 3, "NULL".to_owned())]
    {
        later(version, &admits).await;
        let error = Postgres::connect(&url(), &options).await.err().unwrap();
        let StoreError::SchemaTooNew { found, admits, known: knows, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!((*found, *admits, *knows), (version, version, known));
        let order = "install the newer program everywhere this one may be started, start newer \
                     workers, then stop the older ones";
        let error = error.to_string();
        assert!(error.contains(&format!("admits programs from version {version} on")), "{error}");
        assert!(error.contains(order), "{error}");
    }
    later(known + 4, &known.to_string()).await;
    assert!(Postgres::connect(&url(), &options).await.is_err(), "the highest one counts");
}

/// The printed script, applied by hand, is the log that the program expects.
#[tokio::test]
async fn migrations_can_be_applied_by_hand() {
    let namespace = namespace();
    let script = anabranch_postgres::MIGRATIONS.script(&namespace, Default::default());
    client().await.batch_execute(&script).await.unwrap();
    let options = Options { namespace, migrate: false, ..Options::default() };
    let log = Log::new(Postgres::connect(&url(), &options).await.unwrap());
    log.append(&order(1), Expected::NoStream, [numbered(1)]).await.unwrap();
}

#[tokio::test]
async fn a_namespace_may_be_a_word_of_sql() {
    let select = Namespace::new("select").unwrap();
    client().await.batch_execute("DROP SCHEMA IF EXISTS \"select\" CASCADE").await.unwrap();
    let log = open(&select).await;
    log.append(&order(1), Expected::NoStream, [numbered(1).with_tag("x")]).await.unwrap();
    assert_eq!(numbers(&log.read(Query::tags(["x"])).collect().await.unwrap()), [1]);
    assert_eq!(numbers(&log.read_stream(&order(1)).collect().await.unwrap()), [1]);
}

/// A role whose sessions would commit without the disk, and see old snapshots: the log's do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_users_defaults_do_not_weaken_the_log() {
    let (client, namespace) = (client().await, namespace());
    let role = format!("role_{namespace}");
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'x'; \
             ALTER ROLE {role} SET synchronous_commit = off; \
             ALTER ROLE {role} SET default_transaction_isolation = 'repeatable read'"
        ))
        .await
        .unwrap();
    let options = Options { namespace: namespace.clone(), ..Options::default() };
    let url = url_with(&format!("{role}:x"));
    // Processes that start together wait for one another, though an old snapshot would not show it.
    let connects = (0..12).map(|_| Postgres::connect(&url, &options));
    let connected = futures_util::future::try_join_all(connects).await.unwrap();
    let mut connected = connected.into_iter().map(Log::new);
    let (log, other) = (connected.next().unwrap(), connected.next().unwrap());
    drop(connected);
    // Whoever commits says so in a trigger.
    client.batch_execute(&seeing(&namespace)).await.unwrap();
    for number in 0..50 {
        let [one, two] = [&log, &other].map(|log| {
            let log = log.clone();
            tokio::spawn(async move {
                log.append(&order("hot"), Expected::Any, [numbered(number)]).await
            })
        });
        one.await.unwrap().unwrap();
        two.await.unwrap().unwrap();
    }
    let seen = format!("SELECT DISTINCT synchronous || ', ' || isolation FROM {namespace}.seen");
    let seen = client.query(&seen, &[]).await.unwrap();
    let seen: Vec<String> = seen.iter().map(|row| row.get(0)).collect();
    assert_eq!(seen, ["on, read committed"]);
}

/// One log of a process may lose what it appended last in a crash, because it was asked to; another one goes to
/// the same database as the same user, and may not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_may_lose_something_does_not_weaken_another() {
    let client = client().await;
    let mut logs = Vec::new();
    for durability in [Durability::Relaxed, Durability::Full, Durability::Relaxed] {
        let namespace = namespace();
        let options = Options { namespace: namespace.clone(), durability, ..Options::default() };
        let log = Log::new(Postgres::connect(&url(), &options).await.unwrap());
        client.batch_execute(&seeing(&namespace)).await.unwrap();
        logs.push((log, namespace));
    }
    let mut seen = Vec::new();
    for (log, namespace) in &logs {
        log.append(&order(1), Expected::NoStream, [numbered(1)]).await.unwrap();
        let look = format!("SELECT synchronous FROM {namespace}.seen");
        seen.push(client.query_one(&look, &[]).await.unwrap().get::<_, String>(0));
    }
    assert_eq!(seen, ["off", "on", "off"]);
}

/// A trigger that writes down with which settings an append commits.
fn seeing(namespace: &Namespace) -> String {
    format!(
        "CREATE TABLE {namespace}.seen (synchronous text, isolation text); \
         CREATE FUNCTION {namespace}.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             INSERT INTO {namespace}.seen VALUES (current_setting('synchronous_commit'), \
                 current_setting('transaction_isolation')); \
             RETURN NULL; \
         END $$; \
         CREATE TRIGGER see AFTER INSERT ON {namespace}.events \
             FOR EACH STATEMENT EXECUTE FUNCTION {namespace}.see()"
    )
}

/// A server that says of itself that it is another: the function that connecting asks is found in a schema that
/// stands before PostgreSQL's own.
#[tokio::test]
async fn a_server_that_only_looks_like_postgresql_is_refused() {
    let (client, namespace) = (client().await, namespace());
    client
        .batch_execute(&format!(
            "CREATE SCHEMA {namespace}_other; \
             CREATE FUNCTION {namespace}_other.version() RETURNS text LANGUAGE sql \
                 AS $$SELECT 'CockroachDB CCL v24.1.2 (x86_64-pc-linux-gnu)'::text$$; \
             CREATE ROLE role_{namespace} LOGIN SUPERUSER PASSWORD 'x'; \
             ALTER ROLE role_{namespace} SET search_path = {namespace}_other, pg_catalog"
        ))
        .await
        .unwrap();
    let error = refused(&url_with(&format!("role_{namespace}:x"))).await;
    assert!(matches!(error, StoreError::Unsuitable { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("it is CockroachDB, whose advisory locks lock nothing"), "{said}");
    assert!(said.contains("use PostgreSQL 13 or newer"), "{said}");
}

/// What the server says of its disk is told as such, with what to do: it is no fault of the event.
#[tokio::test]
async fn a_disk_that_fails_or_is_full_is_named() {
    let namespace = namespace();
    let log = open(&namespace).await;
    for (code, remedy) in [("58030", "look at the disk"), ("53100", "free some space")] {
        let disk = format!(
            "CREATE OR REPLACE FUNCTION {namespace}.disk() RETURNS trigger LANGUAGE plpgsql AS $$ \
                 BEGIN RAISE 'could not write' USING ERRCODE = '{code}'; END $$; \
             CREATE OR REPLACE TRIGGER disk AFTER INSERT ON {namespace}.events \
                 FOR EACH STATEMENT EXECUTE FUNCTION {namespace}.disk()"
        );
        client().await.batch_execute(&disk).await.unwrap();
        let error = soon(log.append(&order(1), Expected::Any, [numbered(1)])).await.unwrap_err();
        let AppendError::Store(error) = error else { panic!("{error:?}") };
        match code {
            "58030" => assert!(matches!(error, StoreError::Disk { .. }), "{error:?}"),
            _ => assert!(matches!(error, StoreError::Full { .. }), "{error:?}"),
        }
        assert!(error.is_worth_waiting() && !error.is_transient(), "{error}");
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

/// A server that takes connections and says nothing, and one that falls silent later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_noticed() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let [login, _, database] = parts_of_url();
    let url = |port: u16| {
        let patience = "connect_timeout=2&tcp_user_timeout=2";
        format!("postgres://{login}@127.0.0.1:{port}/{database}?{patience}")
    };
    let error = refused(&url(port)).await;
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");

    let proxy = Proxy::start().await;
    let options = Options { namespace: namespace(), ..Options::default() };
    let log = Log::new(Postgres::connect(&url(proxy.port), &options).await.unwrap());
    let stream = order(1);
    let append = |number| log.append(&stream, Expected::Exact(number), [numbered(number)]);
    append(0).await.unwrap();
    proxy.is_silent.store(true, Ordering::Relaxed);
    let error = soon(append(1)).await.unwrap_err();
    assert!(
        error.to_string().contains("no answer within 2s")
            || error.to_string().contains("cannot reach"),
        "{error}"
    );
    let error = soon(log.read(Query::all()).collect()).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    proxy.is_silent.store(false, Ordering::Relaxed);
    // Whether or not the append of before was stored, the next one tells.
    soon(log.append(&order(2), Expected::NoStream, [numbered(9)])).await.unwrap();
    assert!(!soon(log.read(Query::all()).collect()).await.unwrap().is_empty());
}

/// Forwards to the server, until it is told to say nothing.
struct Proxy {
    port: u16,
    is_silent: Arc<AtomicBool>,
}

impl Proxy {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_silent = Arc::new(AtomicBool::new(false));
        let [_, to, _] = parts_of_url();
        let silent = Arc::clone(&is_silent);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = tokio::net::TcpStream::connect(&to).await.unwrap();
                let (client, server) = (client.into_split(), server.into_split());
                tokio::spawn(forward(client.0, server.1, Arc::clone(&silent)));
                tokio::spawn(forward(server.0, client.1, Arc::clone(&silent)));
            }
        });
        Self { port, is_silent }
    }
}

/// Drops what it reads while it is silent, as a broken network does, and keeps the connection.
async fn forward(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    is_silent: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 65536];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if !is_silent.load(Ordering::Relaxed) && to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// An append that only the server refuses, amid others in the same commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_append_that_the_server_refuses_does_not_fail_its_neighbours() {
    let namespace = namespace();
    let log = open(&namespace).await;
    client()
        .await
        .batch_execute(&format!("ALTER TABLE {namespace}.events ADD CHECK (data::text <> '13')"))
        .await
        .unwrap();
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let log = log.clone();
            tokio::spawn(async move {
                log.append(
                    &order(task),
                    Expected::Any,
                    [numbered(if task % 16 == 3 { 13 } else { 1 })],
                )
                .await
            })
        })
        .collect();
    for (task, append) in tasks.into_iter().enumerate() {
        let answer = soon(append).await.unwrap();
        assert_eq!(answer.is_err(), task % 16 == 3, "{task}: {answer:?}");
    }
    assert_eq!(log.read(Query::all()).collect().await.unwrap().len(), 60);
}

/// Appends at the same time become few transactions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_appends_share_commits() {
    let namespace = namespace();
    let log = open(&namespace).await;
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let log = log.clone();
            tokio::spawn(async move {
                for number in 0..10 {
                    log.append(&order(task), Expected::Exact(number), [numbered(number)])
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let commits = format!("SELECT count(DISTINCT xmin::text), count(*) FROM {namespace}.events");
    let row = client().await.query_one(&commits, &[]).await.unwrap();
    let (commits, events): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(events, 640);
    assert!(commits <= 160, "{events} events took {commits} commits");
}

/// All connections of the log are cut again and again while it is appended to and followed: every
/// append is answered, and each is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_lose_and_double_nothing() {
    const APPENDS: u64 = 2000;
    let namespace = namespace();
    let name = format!("cut_{namespace}");
    let separator = if url().contains('?') { '&' } else { '?' };
    let named = format!("{}{separator}application_name={name}", url());
    let options = Options { namespace: namespace.clone(), ..Options::default() };
    let log = Log::new(Postgres::connect(&named, &options).await.unwrap());

    let mut events = log.subscribe(Query::all(), Position::START);
    let follower = tokio::spawn(async move {
        let mut seen = Vec::new();
        while (seen.len() as u64) < APPENDS {
            seen.push(soon(events.next()).await.unwrap().unwrap());
        }
        seen
    });
    let done = Arc::new(AtomicBool::new(false));
    let cutter = {
        let (done, client) = (Arc::clone(&done), client().await);
        tokio::spawn(async move {
            let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                       WHERE application_name = $1";
            let mut cuts = 0;
            while !done.load(Ordering::Relaxed) {
                cuts += client.query_one(cut, &[&name]).await.unwrap().get::<_, i64>(0);
                tokio::time::sleep(std::time::Duration::from_millis(150)).await;
            }
            cuts
        })
    };
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let log = log.clone();
            tokio::spawn(async move {
                for number in (task..APPENDS).step_by(8) {
                    log.append(&order(task), Expected::Exact(number / 8), [numbered(number)])
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    assert!(cutter.await.unwrap() > 0, "nothing was cut");
    let seen = follower.await.unwrap();
    let distinct: HashSet<u64> = numbers(&seen).into_iter().collect();
    assert_eq!(distinct.len() as u64, APPENDS);
    assert_eq!(
        open(&namespace).await.read(Query::all()).collect().await.unwrap().len(),
        seen.len()
    );
}
