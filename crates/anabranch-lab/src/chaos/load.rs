//! Events that come all the time: each key has one in every period.

use super::worker::{CATEGORY, HELD};
use anabranch::AppendError;
use anabranch::prelude::*;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

/// How long the database may be away before an appender gives up.
const PATIENCE: Duration = Duration::from_secs(90);
const RETRY: Duration = Duration::from_millis(20);

pub(crate) struct Load {
    log: Log,
    /// How often each key has an event.
    pub(crate) period: Duration,
    appended: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    appenders: JoinSet<anyhow::Result<()>>,
}

impl Load {
    pub(crate) fn start(log: &Log, keys: u64, rate: u64, appenders: u64) -> Self {
        let period = Duration::from_secs_f64(keys as f64 / rate as f64);
        let (appended, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let mut tasks = JoinSet::new();
        for number in 0..appenders {
            let own: Vec<u64> = (number..keys).step_by(appenders as usize).collect();
            let (log, appended) = (log.clone(), Arc::clone(&appended));
            let is_over = Arc::clone(&is_over);
            // Not all at the same time.
            let start = Instant::now() + period * number as u32 / appenders as u32;
            let mut ticks = tokio::time::interval_at(start.into(), period);
            // What is missed while the database is away is not made up for: no flood.
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            tasks.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    ticks.tick().await;
                    let mut append = Append::new();
                    for key in &own {
                        append = append.to(&stream(*key)?, Expected::Any, [event("Counted", ())]);
                    }
                    insist(&log, append, &appended).await?;
                }
                Ok(())
            });
        }
        Self { log: log.clone(), period, appended, is_over, appenders: tasks }
    }

    /// How many events were appended so far.
    pub(crate) fn appended(&self) -> u64 {
        self.appended.load(Ordering::SeqCst)
    }

    /// An event that makes a worker hold its transaction open for so long, if it is that worker who
    /// handles it.
    pub(crate) async fn hold(&self, key: i64, worker: i64, hold: Duration) -> anyhow::Result<()> {
        let held = event(HELD, json!({ "worker": worker, "millis": hold.as_millis() as u64 }));
        let append = Append::new().to(&stream(key.unsigned_abs())?, Expected::Any, [held]);
        insist(&self.log, append, &self.appended).await
    }

    /// Appends no more; returns how many events there are.
    pub(crate) async fn finish(&mut self) -> anyhow::Result<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.appenders.join_next().await {
            ended??;
        }
        Ok(self.appended())
    }
}

pub(crate) fn stream(key: u64) -> anyhow::Result<StreamId> {
    Ok(StreamId::new(CATEGORY, key.to_string())?)
}

/// With an id, so that it may be appended again when nobody knows whether it was.
fn event(name: &str, data: impl serde::Serialize) -> NewEvent {
    NewEvent::new(name, data).with_id(Uuid::now_v7())
}

/// Appends until the database says that it has: it may be away for a while.
async fn insist(log: &Log, append: Append, appended: &AtomicU64) -> anyhow::Result<()> {
    let (started, count) = (Instant::now(), append.events().count() as u64);
    loop {
        match log.append_all(append.clone()).await {
            Ok(_) => {
                appended.fetch_add(count, Ordering::SeqCst);
                return Ok(());
            }
            Err(AppendError::Store(error))
                if error.is_transient() && started.elapsed() < PATIENCE =>
            {
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
