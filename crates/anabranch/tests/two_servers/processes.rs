//! Processes that are killed, connections that are cut and servers that are started again, on either side, while
//! events keep coming and workers come and go: all is handled once and in order.

use crate::crew::{Appender, until_proven};
use crate::on_all_pairs;
use crate::pair::*;
use crate::proxy::Proxy;
use crate::support::*;
use anabranch::prelude::*;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How a worker process learns what to do.
const TOLD: &str = "ANABRANCH_TEST_TWO_SERVERS";
const KILLS: u64 = 12;
const SIGTERM: i32 = 15;

on_all_pairs! {
    killed_workers_and_cut_connections_lose_and_double_nothing,
}

/// A worker process. None outlives the test.
struct Worker(Child);

impl Worker {
    fn start(case: &str, ways: &[String; 2], pair: &Pair) -> Self {
        let told = [&ways[0], &pair.events.own, &ways[1], &pair.home.own].map(String::as_str);
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", case]).env(TOLD, told.join(" "));
        program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(program.spawn().unwrap())
    }

    /// Tells it to stop, and waits for that. One that has not begun yet does not listen: the signal ends it.
    fn stop(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let ended = self.0.wait().unwrap();
        assert!(ended.success() || ended.signal() == Some(SIGTERM), "{ended}");
    }
}

impl Drop for Worker {
    /// SIGKILL.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn at(url: &str, own: &str) -> Db {
    let mut db = Db::at(url.to_owned());
    db.own = own.to_owned();
    db.options.namespace = anabranch::Namespace::new(own).unwrap();
    db
}

/// This case once more, as a worker.
async fn work(told: &str) {
    let [events, events_own, home, home_own] = told.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{told}")
    };
    let pair =
        Pair { events: at(events, events_own), home: at(home, home_own), servers: [None, None] };
    // A server may be away while it starts; then the next one is there soon.
    let Ok(events) = anabranch::connect_with(&pair.events.url, &pair.events.options).await else {
        return;
    };
    let Ok(home) = anabranch::connect_with(&pair.home.url, &pair.home.options).await else {
        return;
    };
    let Ok(log) = events.with_database(&home).await else { return };
    let _ = pair.set().lease(Duration::from_secs(2)).run(&log).await;
}

async fn killed_workers_and_cut_connections_lose_and_double_nothing(pair: Pair) {
    if let Ok(told) = std::env::var(TOLD) {
        return work(&told).await;
    }
    let mut pair = pair.on_servers();
    let case = std::thread::current().name().unwrap().to_owned();
    let log = pair.log().await;
    let mut proxies: [Option<Proxy>; 2] = [None, None];
    let mut ways = [pair.events.url.clone(), pair.home.url.clone()];
    for side in 0..2 {
        if pair.servers[side].is_some() {
            let proxy = Proxy::before(&ways[side]).await;
            ways[side].clone_from(&proxy.url);
            proxies[side] = Some(proxy);
        }
    }
    let appender = Appender::start(&log);
    let mut crew = vec![Worker::start(&case, &ways, &pair), Worker::start(&case, &ways, &pair)];
    let (table, mut handled) = (pair.recorder().table, 0);
    for kill in 0..KILLS {
        // Something of it is handled between two faults.
        until("more events", async || {
            if crew.iter_mut().any(|worker| worker.0.try_wait().unwrap().is_some()) {
                // It ended since a server was away.
                crew.retain_mut(|worker| worker.0.try_wait().unwrap().is_none());
                crew.push(Worker::start(&case, &ways, &pair));
            }
            let now = handled_so_far(&log, &table).await;
            (now > handled).then(|| handled = now)
        })
        .await;
        let side = (kill % 2) as usize;
        match (kill % 6, &proxies[side]) {
            (2 | 3, Some(proxy)) => {
                proxy.refuse();
                tokio::time::sleep(Duration::from_millis(kill * 10)).await;
                proxy.pass();
            }
            // The appender must find its server: only the home is started again under it.
            (5, Some(_)) => {
                let server = pair.servers[1].as_mut().unwrap();
                tokio::task::block_in_place(|| {
                    server.stop();
                    server.run();
                });
            }
            (1, _) => drop(crew.remove(0)),
            _ => {
                drop(crew.remove(0));
                crew.push(Worker::start(&case, &ways, &pair));
            }
        }
        if crew.len() < 2 {
            crew.push(Worker::start(&case, &ways, &pair));
        }
    }
    let each = appender.finish().await;
    if let Some(server) = &mut pair.servers[0] {
        tokio::task::block_in_place(|| {
            server.stop();
            server.run();
        });
    }
    crew.push(Worker::start(&case, &ways, &pair));
    until_proven(&log, &table, Appender::STREAMS, each).await;
    for worker in crew {
        worker.stop();
    }
    pair.is_whole(&log, Appender::STREAMS as i64, each as i64).await;
    assert_eq!(log.head().await.unwrap().get(), Appender::STREAMS * each);
}

/// How many events are handled; the server may be away.
async fn handled_so_far(log: &Log, table: &str) -> i64 {
    let rows = log.query(format!("SELECT count(*) FROM {table}"), vec![]).await;
    rows.ok().and_then(|rows| rows.first()?.get(0).ok()).unwrap_or(0)
}
