//! A database that is away for longer than a lease, while deliveries are under way.

use crate::hooks::*;
use crate::server::Server;
use crate::support::*;
use anabranch_lab::receiver::Reply;
use std::time::Duration;

/// What its lane waits for meanwhile are permits, and those of the old lease are gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_go_on_though_the_lease_is_over() {
    let mut server = Server::start(&[]);
    let db = Db::at(server.url());
    let log = db.log().await;
    fill(&log, 0..200, 1..=10).await;
    let receiver =
        receiver(|_| Reply { after: Duration::from_millis(5), ..Reply::default() }).await;
    let lease = Duration::from_secs(1);
    let quick = tuning().lease(lease).heartbeat(Duration::from_millis(100));
    let running = start(&log, set(hook(&log, &receiver)).tuning(quick));
    until("deliveries", async || (receiver.received().len() > 200).then_some(())).await;
    server.stop();
    assert!(receiver.received().len() < 2_000, "it is over before the server is away");
    // By the clock of a server that is away nothing else tells that a lease is over.
    tokio::time::sleep(lease * 2).await;
    server.run();
    until_handled(&log).await;
    running.stop().await;
    is_whole(&receiver, 200, 10);
}
