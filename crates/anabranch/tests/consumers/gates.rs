//! What cases need to stop things at a bad moment.

use crate::support::{Db, number, until};
use anabranch::Retry;
use anabranch::backend::database::{End, Session, Statement};
use anabranch::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub fn never() -> Settings {
    Settings::default().retry(Retry::never())
}

pub fn table_of(log: &Log, name: &str) -> String {
    log.store().database().dialect().table(name)
}

pub async fn one(log: &Log, stream: &str, event: NewEvent) {
    let stream = StreamId::new("Order", stream).unwrap();
    log.append(&stream, Expected::Any, [event]).await.unwrap();
}

/// A transaction that stays open and holds what the statement locks.
pub async fn hold(log: &Log, sql: String) -> Box<dyn Session> {
    let mut session = log.store().database().begin();
    let open = End::Open { idle: Duration::from_secs(120) };
    session.run(vec![Statement::query(sql, vec![])], open).await.unwrap();
    session
}

/// Waits until a statement of this case waits for a lock.
pub async fn until_blocked(log: &Log, db: &Db) {
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
         AND query LIKE '%{}%' AND pid <> pg_backend_pid()",
        db.own
    );
    until("a statement that waits for a lock", async || {
        (number(log, &waiting).await > 0).then_some(())
    })
    .await;
}

/// Blocks the lane that meets stream `gate` until it is opened.
#[derive(Clone, Default)]
pub struct Gate {
    pub met: Arc<AtomicBool>,
    pub open: Arc<AtomicBool>,
}

impl Gate {
    pub fn pass(&self, event: &Event) {
        if event.stream_id() == "gate" {
            self.met.store(true, Ordering::SeqCst);
            tokio::task::block_in_place(|| {
                while !self.open.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
    }

    /// As a hook of a recorder.
    pub fn hook(&self) -> impl Fn(&Event) -> HandlerResult + Send + Sync + 'static {
        let gate = self.clone();
        move |event| {
            gate.pass(event);
            Ok(())
        }
    }

    pub async fn is_met(&self) {
        until("the gate", async || self.met.load(Ordering::SeqCst).then_some(())).await;
    }

    pub fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }
}

/// Waits until a worker has given so many signs of life.
pub async fn until_beats(log: &Log, count: usize) {
    let select = format!("SELECT lease_us FROM {}", table_of(log, "workers"));
    let mut seen = BTreeSet::new();
    until("signs of life", async || {
        seen.insert(number(log, &select).await);
        (seen.len() > count).then_some(())
    })
    .await;
}

/// Takes cursors from their owner as a claim does, wherever they stand.
pub async fn raise_epochs(log: &Log, only: &str) {
    let raise = format!("UPDATE {} SET epoch = epoch + 1 {only}", table_of(log, "cursors"));
    let raise = Statement::new(raise, vec![]);
    log.store().database().begin().run(vec![raise], End::Commit).await.unwrap();
}
