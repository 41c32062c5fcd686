//! Views that begin anew, or whose state cannot be written.

use crate::gates::*;
use crate::on_both;
use crate::support::*;
use anabranch::ViewReader;
use anabranch::operate::{Consumers, ReplayFrom};
use anabranch::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

on_both! {
    a_forgotten_view_begins_anew,
    a_state_that_cannot_be_written_parks_its_own_key,
    a_view_is_replayed_while_it_runs,
}

/// The lane that folds it again must not go on with what it remembers.
async fn a_view_is_replayed_while_it_runs(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=10).await;
    let view = Sums::default();
    let running = start(&log, ReplicaSet::new("s").view(view.clone()));
    let applied = async |count: u64| {
        until("the events", async || {
            let known = Consumers::new(&log).status("sums").await.ok()?;
            let done = view.applied.load(Ordering::Relaxed) >= count && known.lag == 0;
            (done && known.replay_from.is_none()).then_some(())
        })
        .await;
    };
    applied(50).await;
    Consumers::new(&log).replay("sums", ReplayFrom::Start).await.unwrap();
    applied(100).await;
    running.stop().await;
    let reader = ViewReader::new(&log, &view);
    assert_eq!(reader.get("3").await.unwrap().unwrap().total, 55);
}

#[derive(Clone, Default, Debug, PartialEq, serde::Deserialize)]
struct Sum {
    total: i64,
    broken: bool,
}

impl serde::Serialize for Sum {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{Error, SerializeStruct};
        if self.broken {
            return Err(S::Error::custom("cannot be written"));
        }
        let mut sum = to.serialize_struct("Sum", 2)?;
        sum.serialize_field("total", &self.total)?;
        sum.serialize_field("broken", &self.broken)?;
        sum.end()
    }
}

#[derive(Clone, Default)]
struct Sums {
    /// The stream whose state cannot be written.
    broken: Option<&'static str>,
    applied: Arc<AtomicU64>,
}

impl View for Sums {
    type State = Sum;
    fn name(&self) -> &str {
        "sums"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        never()
    }
    fn apply(&self, sum: &mut Sum, event: &Event) -> HandlerResult {
        self.applied.fetch_add(1, Ordering::Relaxed);
        sum.total += event.data::<i64>()?;
        sum.broken = self.broken == Some(event.stream_id());
        Ok(())
    }
}

/// Its table is the view's own: one that begins again must not find the states of before.
async fn a_forgotten_view_begins_anew(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=10).await;
    let view = Sums::default();
    ReplicaSet::new("s").view(view.clone()).catch_up(&log).await.unwrap();
    let reader = ViewReader::new(&log, &view);
    assert_eq!(reader.get("3").await.unwrap().unwrap().total, 55);
    Consumers::new(&log).forget("sums").await.unwrap();
    ReplicaSet::new("s").view(view).catch_up(&log).await.unwrap();
    assert_eq!(reader.get("3").await.unwrap().unwrap().total, 55);
}

/// The state of one key cannot be written; its neighbours in the batch are not to blame.
async fn a_state_that_cannot_be_written_parks_its_own_key(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let view = Sums { broken: Some("2"), ..Sums::default() };
    let running = start(&log, ReplicaSet::new("s").view(view.clone()));
    let consumers = Consumers::new(&log);
    until("a parked key, or the same again and again", async || {
        let parked = !consumers.parked("sums").await.ok()?.is_empty();
        (parked || view.applied.load(Ordering::Relaxed) > 200).then_some(())
    })
    .await;
    running.stop().await;
    let parked = consumers.parked("sums").await.unwrap();
    let keys: Vec<_> = parked.iter().map(|key| key.key.as_str()).collect();
    assert_eq!(keys, ["Order:2"]);
}
