//! A standby that is promoted while a fleet works: everybody goes on there, by a URL with both hosts or by an
//! address that moves.

use crate::crew::until_shared;
use crate::fleet::Fleet;
use crate::server::Server;
use crate::support::*;
use anabranch::StoreError;
use anabranch::prelude::*;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A primary, and a standby that has everything that the primary has acknowledged.
async fn in_step() -> (Server, Server) {
    let mut primary = Server::start(&[]);
    let standby = Server::standby_of(&mut primary, &[]);
    until_repeated(&primary, &standby).await;
    primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary.ask("SELECT pg_reload_conf()");
    let sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    until("a standby in step", async || (primary.ask(sync) == "1").then_some(())).await;
    (primary, standby)
}

/// Waits until a standby has everything that its primary has now.
async fn until_repeated(primary: &Server, standby: &Server) {
    let end = primary.ask("SELECT pg_current_wal_lsn()");
    let has_it = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
    until("a standby that follows", async || (standby.ask(&has_it) == "t").then_some(())).await;
}

/// A URL with hosts in this order.
fn url_of(hosts: [u16; 2]) -> String {
    let [one, two] = hosts;
    format!("postgres://postgres:throwaway@127.0.0.1:{one},127.0.0.1:{two}/postgres")
}

/// Nothing that was acknowledged is lost, nothing doubled, no append fails, and nobody ends. Which host stands
/// first makes no difference.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_is_promoted_is_where_the_fleet_goes_on() {
    let (mut primary, standby) = in_step().await;
    let [one, two] = [primary.port(), standby.port()];
    let (url, other) = (url_of([one, two]), url_of([two, one]));
    let fleet = Fleet::start(Db::at(url.clone()), [&url, &other], &url).await;
    primary.stop();
    standby.promote();
    fleet.until_further(&url).await;
    assert!(fleet.is_unrefused());
    fleet.end(&standby.url()).await;
}

/// An address that leads to one server and then to another.
struct Address {
    port: u16,
    to: watch::Sender<u16>,
}

impl Address {
    async fn of(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (to, where_to) = watch::channel(server.port());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut where_to = where_to.clone();
                tokio::spawn(async move {
                    let port = *where_to.borrow_and_update();
                    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else {
                        return;
                    };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        _ = where_to.changed() => {}
                    }
                });
            }
        });
        Self { port, to }
    }

    fn moves_to(&self, server: &Server) {
        self.to.send_replace(server.port());
    }

    fn url(&self) -> String {
        format!("postgres://postgres:throwaway@127.0.0.1:{}/postgres", self.port)
    }
}

/// It leads to the standby before that is promoted: until then it is refused, since it only repeats another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_moves_to_a_standby_is_followed_once_it_is_promoted() {
    let (mut primary, standby) = in_step().await;
    let address = Address::of(&primary).await;
    let url = address.url();
    let mut fleet = Fleet::start(Db::at(url.clone()), [&url, &url], &url).await;
    // Both run for a while, and those who connect anew end up at the standby.
    address.moves_to(&standby);
    fleet.until_refused("it is a standby", &primary.url()).await;
    until_repeated(&primary, &standby).await;
    primary.stop();
    standby.promote();
    fleet.end(&standby.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_says_nothing_is_passed_over() {
    let primary = Server::start(&[]);
    // Connections are taken by the system, and nobody answers.
    let frozen = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hosts = url_of([frozen.local_addr().unwrap().port(), primary.port()]);
    let url = format!("{hosts}?connect_timeout=1");
    let fleet = Fleet::start(Db::at(url.clone()), [&url, &url], &url).await;
    assert!(fleet.is_unrefused());
    fleet.end(&url).await;
}

/// A standby that was cut off: what it has not got is lost, events and cursors and what was written with them
/// alike, so a worker finds its cursors where the log is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_standby_has_not_got_is_lost_together() {
    let mut primary = Server::start(&[]);
    let mut standby = Server::standby_of(&mut primary, &[]);
    let url = url_of([primary.port(), standby.port()]);
    let db = Db::at(url.clone());
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let worker =
        start(&log, ReplicaSet::new("s").projection(recorder).lease(Duration::from_secs(2)));
    let handled = async |events: i64| {
        until("all events", async || (proof(&log, &table).await.handled == events).then_some(()))
            .await;
    };
    until_shared(&log, "orders", 1).await;
    fill(&log, 0..10, 1..=5).await;
    handled(50).await;
    let mut subscription = log.subscribe(Query::all(), Position::new(50));
    let position = format!("SELECT min(position) FROM {}.cursors", db.own);
    until_repeated(&primary, &standby).await;
    standby.stop();
    fill(&log, 0..10, 6..=25).await;
    handled(250).await;
    assert!(number(&log, &position).await >= 250);
    for _ in 0..200 {
        subscription.next().await.unwrap().unwrap();
    }
    primary.stop();
    standby.run();
    standby.promote();
    let kept = until("the new primary", async || {
        let events = log.read(Query::all()).collect().await.ok()?;
        Some(events.len() as i64)
    })
    .await;
    assert_eq!(kept, 50, "it had no more");
    // The numbers of each stream go on after what is there.
    fill(&log, 0..10, 6..=8).await;
    handled(80).await;
    let all = Proof { handled: 80, doubled: 0, keys: 10, wrong: 0 };
    assert_eq!(proof(&log, &table).await, all);
    assert!(!worker.has_ended());
    worker.stop().await;
    // A reader that has seen what is lost would not see what takes its place.
    let error = subscription.next().await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::FellBack { .. }), "{error:?}");
}

/// Law 4: what a process knew of the old primary's log says nothing about appends in flight on the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_is_not_read_past_appends_in_flight() {
    let mut primary = Server::start(&[]);
    let mut standby = Server::standby_of(&mut primary, &[]);
    let db = Db::at(url_of([primary.port(), standby.port()]));
    let log = db.log().await;
    fill(&log, 0..10, 1..=5).await;
    until_repeated(&primary, &standby).await;
    standby.stop();
    fill(&log, 0..10, 6..=25).await;
    assert_eq!(log.head().await.unwrap().get(), 250);
    primary.stop();
    standby.run();
    standby.promote();

    // A first append takes its time, a second one has a later position and is there.
    let (mut client, connection) = anabranch::postgres::tokio_postgres::connect(
        &standby.url(),
        anabranch::postgres::tokio_postgres::NoTls,
    )
    .await
    .unwrap();
    tokio::spawn(connection);
    let postgres: &anabranch::postgres::Postgres = log.backend().unwrap();
    let slow = client.transaction().await.unwrap();
    let stream = |id: &str| StreamId::new("Slow", id).unwrap();
    let append = Append::new().to(&stream("1"), Expected::NoStream, [numbered(1)]);
    let first = postgres.append_in(&slow, append).await.unwrap().position();
    let second =
        log.append(&stream("2"), Expected::NoStream, [numbered(2)]).await.unwrap().position();
    assert!(first < second && second.get() < 250, "{first} {second}");
    let mut events = log.subscribe(Query::all(), Position::new(50));
    let early = tokio::time::timeout(Duration::from_secs(1), events.next()).await;
    assert!(early.is_err(), "nobody passes an append in flight: {early:?}");
    slow.commit().await.unwrap();
    for position in [first, second] {
        assert_eq!(events.next().await.unwrap().unwrap().position(), position);
    }
}
