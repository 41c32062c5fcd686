//! What is logged of an outage: that something waits, and that it goes on.

use crate::crew::*;
use crate::proxy::Proxy;
use crate::said::Said;
use crate::support::*;
use anabranch::prelude::*;
use std::time::Duration;

/// Who complains while the server is away, and what the same one says when it is back.
const SAID: [(&str, &str); 3] = [
    ("the feed waits for the database", "the feed goes on after "),
    ("cannot listen and show life", "listens and shows life again after "),
    ("cannot watch other workers yet", "watches other workers again after "),
];

/// On one thread, whose log is heard.
#[tokio::test]
async fn who_has_complained_says_that_it_goes_on() {
    let (said, _guard) = Said::listen();
    let db = Db::postgres();
    let (log, way) = (db.log().await, Proxy::before(&db.url).await);
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let set = || ReplicaSet::new("s").projection(recorder.clone()).lease(Duration::from_secs(20));
    let behind = anabranch::connect_with(&way.url, &db.options).await.unwrap();
    let workers = [start(&behind, set()), start(&log, set())];
    fill(&log, 0..10, 1..=1).await;
    until_shared(&log, "orders", 2).await;
    until_proven(&log, &table, 10, 1).await;
    let goes_on = |said: &Said| said.lines(" after ").len();
    let before = goes_on(&said);
    way.refuse();
    until("complaints", async || {
        SAID.iter().all(|(complaint, _)| !said.lines(complaint).is_empty()).then_some(())
    })
    .await;
    assert_eq!(goes_on(&said), before, "{}", said.text());
    way.pass();
    until("who goes on", async || {
        SAID.iter().all(|(_, goes_on)| said.lines(goes_on).len() == 1).then_some(())
    })
    .await;
    fill(&log, 0..10, 2..=2).await;
    until_proven(&log, &table, 10, 2).await;
    for worker in workers {
        worker.stop().await;
    }
    // As loudly as it began: else a log that shows warnings ends with an outage.
    for (_, goes_on) in SAID {
        let lines = said.lines(goes_on);
        assert!(lines.len() == 1 && lines[0].contains(" WARN "), "{}", said.text());
    }
}
