//! The end of a log: who closes it blocks no thread, whatever the server does.

use crate::on_both;
use crate::proxy::Proxy;
use crate::support::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

on_both!(what_was_appended_before_a_close_is_there);

/// Far less than a last word takes on a server that hangs, and far more than a busy machine needs for nothing.
const AT_ONCE: Duration = Duration::from_millis(500);

async fn what_was_appended_before_a_close_is_there(db: Db) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=2).await;
    let other = log.clone();
    log.close().await;
    fill(&other, 0..2, 3..=3).await;
    other.close().await;
    assert_eq!(db.log().await.head().await.unwrap().get(), 6);
}

/// On one thread, so that all that blocks it shows: also what is dropped later, by a task of the log.
#[tokio::test]
async fn after_a_flush_a_drop_waits_for_nobody() {
    let db = Db::postgres();
    let way = Proxy::before(&db.url).await;
    let log = anabranch::connect_with(&way.url, &db.options).await.unwrap();
    fill(&log, 0..2, 1..=2).await;
    log.flush().await;
    way.swallow();
    let ticks = Ticks::start();
    drop(log);
    assert!(ticks.longest().await < AT_ONCE);
}

#[tokio::test]
async fn to_close_a_log_blocks_no_thread_though_the_server_hangs() {
    let db = Db::postgres();
    let way = Proxy::before(&db.url).await;
    let log = anabranch::connect_with(&way.url, &db.options).await.unwrap();
    fill(&log, 0..2, 1..=2).await;
    // The notification is on its way at the most: the proxy runs on this thread as well.
    way.swallow();
    let ticks = Ticks::start();
    log.close().await;
    assert!(ticks.longest().await < AT_ONCE);
}

/// Looks at the clock again and again, as a task of the runtime.
struct Ticks {
    longest: Arc<AtomicU64>,
    count: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Ticks {
    fn start() -> Self {
        let (longest, count) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (to, counted) = (Arc::clone(&longest), Arc::clone(&count));
        let mut last = Instant::now();
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                to.fetch_max(last.elapsed().as_millis() as u64, Ordering::SeqCst);
                counted.fetch_add(1, Ordering::SeqCst);
                last = Instant::now();
            }
        });
        Self { longest, count, task }
    }

    /// The longest time for which it was not run; tasks that were woken before have been run by then.
    async fn longest(self) -> Duration {
        let before = self.count.load(Ordering::SeqCst);
        until("some more", async || {
            (self.count.load(Ordering::SeqCst) > before + 20).then_some(())
        })
        .await;
        self.task.abort();
        Duration::from_millis(self.longest.load(Ordering::SeqCst))
    }
}
