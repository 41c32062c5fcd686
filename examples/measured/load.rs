//! A steady stream of orders.

use super::Outcome;
use anabranch::AppendError;
use anabranch::prelude::*;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

pub const ORDERS: u64 = 500;
/// How often events are appended.
const BEAT: Duration = Duration::from_millis(20);

/// Appends events at a rate until it is stopped.
pub struct Load {
    /// The end of the log when it began: what comes after is its own.
    pub after: Position,
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<(), AppendError>>,
}

impl Load {
    pub async fn start(log: &Log, per_second: u64) -> Outcome<Self> {
        let (log, after, stop) = (log.clone(), log.head().await?, Arc::new(AtomicBool::new(false)));
        let (stopped, run) = (Arc::clone(&stop), after.get());
        let at_once = (per_second * BEAT.as_millis() as u64 / 1000).max(1);
        let task = tokio::spawn(async move {
            let mut beat = tokio::time::interval(BEAT);
            beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                beat.tick().await;
                let mut append = Append::new();
                for event in number..number + at_once {
                    // No two runs share an order: each begins where the log ended.
                    let order = StreamId::new("Order", format!("ord-{run}-{}", event % ORDERS))?;
                    let line = NewEvent::new("LineAdded", json!({ "cents": 100 + event % 5000 }));
                    append = append.to(&order, Expected::Any, [line]);
                }
                log.append_all(append).await?;
                number += at_once;
            }
            Ok(())
        });
        Ok(Self { after, stop, task })
    }

    pub async fn stop(self) -> Outcome<()> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.task.await??)
    }
}
