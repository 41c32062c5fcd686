//! What a program says after the end of a batch is no answer to the next one, however the two meet in the pipe.

use crate::on_both;
use crate::script::Script;
use crate::support::{Db, Proof, fill, proof};
use anabranch::prelude::*;
use anabranch::{Retry, Settings};

on_both! {
    an_end_that_is_guessed_is_none,
    a_statement_that_comes_late_is_not_executed,
    a_statement_without_its_batch_is_not_executed,
}

const ALL: Proof = Proof { handled: 120, doubled: 0, keys: 6, wrong: 0 };

/// After every batch it says something more, a little later: when the next batch may be on its way.
async fn says_late(db: Db, late: &str) {
    let log = db.log().await;
    fill(&log, 0..6, 1..=20).await;
    let body = format!(
        r#"
greet()
while True:
    batch = read()
    for n, event in enumerate(batch["events"]):
        upsert(n, event)
    say(done=batch["batch"])
    sys.stdout.flush()
    time.sleep(0.003)
    number = batch["batch"]
    {late}
    sys.stdout.flush()
"#
    );
    let script = Script::new(&body);
    // It fails in the middle of most batches, and none of its keys is given up for it.
    let retry = Retry::default().first(std::time::Duration::from_millis(1)).attempts(1_000);
    let settings = Settings::default().batch_size(5).retry(retry);
    let projection = script.projection(&db, &log, "p").with_settings(settings);
    ReplicaSet::new("s").projection(projection).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &db.table("p")).await, ALL);
}

async fn an_end_that_is_guessed_is_none(db: Db) {
    says_late(db, "say(done=number + 1)").await;
}

async fn a_statement_that_comes_late_is_not_executed(db: Db) {
    says_late(db, "say(execute='DELETE FROM ' + TABLE, batch=number)").await;
}

async fn a_statement_without_its_batch_is_not_executed(db: Db) {
    says_late(db, "write(json.dumps({'execute': 'DELETE FROM ' + TABLE}) + '\\n')").await;
}
