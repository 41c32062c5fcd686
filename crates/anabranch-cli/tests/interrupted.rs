//! Commands that make something for themselves and are ended in the middle: nothing is left.

#![cfg(unix)]
#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;

use anabranch::postgres::tokio_postgres::{Client, NoTls, connect};
use process::{anabranch, postgres};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// What runs long enough to be ended in the middle, and the beginning of its schemas' names. All of it
/// is busy at once, but for the work pools, whose processes must start first.
const COMMANDS: &[(&str, &str)] = &[
    ("bench log --events 100000", "bench"),
    ("bench dcb", "bench"),
    ("bench project --events 100000 --cases upsert", "bench"),
    ("bench project --events 2000 --streams 100 --repeats 9 --cases partitions", "bench"),
    ("bench latency", "bench"),
    ("bench rescale", "bench"),
    ("bench workpool --tasks 20000", "bench"),
    ("bench workflow", "bench"),
    ("bench observer", "bench"),
    ("bench batch", "bench"),
    ("chaos --workers 2", "chaos"),
];

struct Server(Client);

impl Server {
    async fn connect() -> Self {
        let (client, connection) = connect(&postgres(), NoTls).await.unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    /// How many tables there are in schemas that were not there before, of this kind.
    async fn tables(&self, kind: &str, before: &[String]) -> usize {
        let sql = "SELECT schemaname FROM pg_tables WHERE schemaname LIKE $1";
        let rows = self.0.query(sql, &[&format!("{kind}\\_%")]).await.unwrap();
        rows.iter().filter(|row| !before.contains(&row.get(0))).count()
    }

    async fn schemas(&self, kind: &str) -> Vec<String> {
        let sql = "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE $1";
        let rows = self.0.query(sql, &[&format!("{kind}\\_%")]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

fn start(words: &str, here: &Path) -> Child {
    let mut command = anabranch(here);
    command.args(words.split(' ')).env("ANABRANCH_URL", postgres()).env("TMPDIR", here);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
}

/// The processes that a process has started and that are still there.
fn children(of: u32) -> usize {
    let listed = Command::new("pgrep").args(["-P", &of.to_string()]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().count()
}

fn ended(child: &mut Child) -> (Option<i32>, String) {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(LOOK);
    }
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

async fn nothing_is_left(name: &str, code: i32, word: &str) {
    let (server, here) = (Server::connect().await, tempfile::tempdir().unwrap());
    for (words, kind) in COMMANDS {
        let before = server.schemas(kind).await;
        let mut child = start(words, here.path());
        let started = Instant::now();
        let spawns = ["rescale", "workpool", "partitions", "chaos"];
        let spawns = spawns.iter().any(|other| words.contains(other));
        while server.tables(kind, &before).await == 0 || spawns && children(child.id()) == 0 {
            assert!(started.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "{words}");
            std::thread::sleep(LOOK);
        }
        signal(&child, name);
        let (ended_with, said) = ended(&mut child);
        assert_eq!(ended_with, Some(code), "{words}: {said}");
        assert!(said.ends_with(&format!("error: {word}\n")), "{words}: {said}");
        // Others may run benchmarks on this server, too: theirs have other process ids.
        let mine = format!("_{}", child.id());
        let is_mine = |schema: &String| *kind == "chaos" || schema.ends_with(&mine);
        let left: Vec<_> = server.schemas(kind).await.into_iter().filter(is_mine).collect();
        assert!(left.iter().all(|schema| before.contains(schema)), "{words} leaves {left:?}");
        let files: Vec<_> = std::fs::read_dir(here.path()).unwrap().collect();
        assert!(files.is_empty(), "{words} leaves {files:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_leaves_nothing_behind() {
    nothing_is_left("INT", 130, "interrupted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_leaves_nothing_behind() {
    nothing_is_left("TERM", 143, "terminated").await;
}

/// The header is read, and then nobody is there any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_ends_a_benchmark_in_the_middle() {
    let (server, here) = (Server::connect().await, tempfile::tempdir().unwrap());
    let mut child = start("bench log --events 1000 --seconds 20", here.path());
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut String::new()).unwrap();
    drop(reader);
    assert_eq!(ended(&mut child).0, Some(0));
    let mine = format!("_{}", child.id());
    let left: Vec<_> = server.schemas("bench").await;
    assert!(!left.iter().any(|schema| schema.ends_with(&mine)), "{left:?}");
}

/// A consumer that cannot go on: its table is taken away.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_the_middle_leaves_nothing_behind() {
    let (server, here) = (Server::connect().await, tempfile::tempdir().unwrap());
    let mut child = start("bench log --events 1000 --seconds 20", here.path());
    let schema = format!("bench_ours_{}", child.id());
    let started = Instant::now();
    let drop_events = format!("DROP TABLE {schema}.events CASCADE");
    while server.0.batch_execute(&drop_events).await.is_err() {
        assert!(started.elapsed() < PATIENCE && child.try_wait().unwrap().is_none());
        std::thread::sleep(LOOK);
    }
    let (code, said) = ended(&mut child);
    assert_eq!(code, Some(1), "{said}");
    let mine = format!("_{}", child.id());
    let left: Vec<_> = server.schemas("bench").await;
    assert!(!left.iter().any(|schema| schema.ends_with(&mine)), "{left:?}");
}

/// The demo has no server; what it makes is a directory and processes.
#[test]
fn a_demo_that_is_interrupted_removes_its_directory() {
    let here = tempfile::tempdir().unwrap();
    let mut child = start("demo", here.path());
    let started = Instant::now();
    while children(child.id()) == 0 {
        assert!(started.elapsed() < PATIENCE && child.try_wait().unwrap().is_none());
        std::thread::sleep(LOOK);
    }
    signal(&child, "INT");
    let (code, said) = ended(&mut child);
    assert_eq!(code, Some(130), "{said}");
    let files: Vec<_> = std::fs::read_dir(here.path()).unwrap().collect();
    assert!(files.is_empty(), "{files:?}");
}
