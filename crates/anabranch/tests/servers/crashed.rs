//! A server that crashes right after the first events of a new log.

use crate::server::Server;
use crate::support::*;
use anabranch::prelude::*;

/// Positions are drawn ahead, and a crash must not take back those of events that are stored: they would be given
/// to other events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_of_stored_events_are_never_drawn_again() {
    let mut server = Server::start(&[]);
    let db = Db::at(server.url());
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    log.close().await;
    server.stop();
    server.run();
    let log = db.log().await;
    assert_eq!(log.head().await.unwrap().get(), 5);
    // The first one that is appended after it, not the first that succeeds.
    let next = NewEvent::new("Numbered", 1);
    let next = log.append(&"Order:6".parse().unwrap(), Expected::NoStream, [next]).await.unwrap();
    assert!(next.position().get() > 5, "{}", next.position());
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    ReplicaSet::new("s").projection(recorder).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await.handled, 6);
}
