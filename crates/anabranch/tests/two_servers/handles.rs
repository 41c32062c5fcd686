//! Handles of the wrong one of two databases.

use crate::on_all_pairs;
use crate::pair::*;
use crate::support::*;
use anabranch::backend::RawTx;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, Tasks};

on_all_pairs! {
    tasks_of_the_events_database_are_not_enqueued_at_home,
}

/// They would be written at home, and looked for beside the events.
async fn tasks_of_the_events_database_are_not_enqueued_at_home(pair: Pair) {
    let log = pair.log().await;
    let task = || [NewTask::new("a", &1)];
    let mut tx = Tx::on(&log.database(), PATIENCE);
    let wrong = Tasks::new(&pair.events.log().await, "mails");
    match pair.events.url == pair.home.url {
        // Two logs in one database: what is enqueued there is found there.
        true => wrong.enqueue_in(&mut tx, &task()).await.unwrap(),
        false => {
            let error = wrong.enqueue_in(&mut tx, &task()).await.unwrap_err();
            assert!(
                error.to_string().contains("Tasks of the log that the consumer runs on"),
                "{error}"
            );
        }
    }
    Tasks::new(&log, "mails").enqueue_in(&mut tx, &task()).await.unwrap();
}
