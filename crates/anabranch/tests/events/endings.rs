//! How a run ended is an event too: a run that is refused says nothing else.

use crate::on_both;
use crate::seen::Seen;
use crate::support::*;
use anabranch::errors::ErrorCode;
use anabranch::events::Happening;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, Pool, PoolSettings, Task, Tasks};
use anabranch::{HashRule, Retry};

on_both! {
    a_run_says_how_it_ended,
    a_run_that_is_dropped_says_so,
    a_dead_task_that_holds_its_key_is_an_error,
}

async fn a_run_says_how_it_ended(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    let seen = Seen::default();
    let set = || ReplicaSet::new("s").observer(seen.clone());
    set().projection(db.recorder("orders")).catch_up(&log).await.unwrap();
    // Of another partition than it was: refused before a worker has joined.
    let changed = Recorder {
        partition: Partition::entity("Order").with_rule(HashRule::Md5),
        ..db.recorder("orders")
    };
    let error = set().projection(changed).catch_up(&log).await.unwrap_err();
    let ended = seen.of("run_ended");
    let [first, second] = &ended[..] else { panic!("{ended:?}") };
    assert!(
        matches!(&first.what, Happening::RunEnded { error: None, code: None, .. }),
        "{first:?}"
    );
    let Happening::RunEnded { error: said, code, .. } = &second.what else { panic!("{second:?}") };
    assert_eq!((said.as_deref(), *code), (Some(&*error.to_string()), Some(error.code())));
    assert_eq!(*code, Some(ErrorCode::ConsumerRefused));
    assert_eq!(second.set.as_deref(), Some("s"));
}

/// Whoever counts runs would wait for it for ever.
async fn a_run_that_is_dropped_says_so(db: Db) {
    let log = db.log().await;
    let seen = Seen::default();
    let set = ReplicaSet::new("s").observer(seen.clone()).projection(db.recorder("orders"));
    let run = tokio::spawn(async move { set.run_until(&log, std::future::pending()).await });
    seen.first("worker_joined").await;
    assert_eq!(seen.of("run_ended").len(), 0);
    run.abort();
    run.await.unwrap_err();
    let ended = seen.first("run_ended").await;
    let Happening::RunEnded { error: Some(said), code: None, .. } = &ended.what else {
        panic!("{ended:?}")
    };
    assert!(said.contains("dropped before its end"), "{said}");
    assert_eq!(seen.of("run_ended").len(), 1);
}

struct Broken;

impl Pool for Broken {
    type Output = ();
    fn name(&self) -> &str {
        "broken"
    }
    fn settings(&self) -> PoolSettings {
        PoolSettings::default().retry(Retry::never())
    }
    async fn run(&self, _: &Task, _: &mut Tx) -> HandlerResult {
        Err("no")?
    }
}

async fn a_dead_task_that_holds_its_key_is_an_error(db: Db) {
    let log = db.log().await;
    Tasks::new(&log, "broken").enqueue(NewTask::new("a", &())).await.unwrap();
    let seen = Seen::default();
    let set = ReplicaSet::new("s").pool(Broken).observer(seen.clone());
    set.catch_up(&log).await.unwrap_err();
    let died = seen.first("task_died").await;
    assert!(matches!(&died.what, Happening::TaskDied { is_held: true, .. }), "{died:?}");
    assert_eq!(died.what.severity(), anabranch::events::Severity::Error);
}
