//! The tokio runtime that a log was opened in.
//!
//! What a log has running in the background (tasks, sockets, timers) belongs to that runtime. Another one may use
//! the log while it runs. When it has ended, or nobody drives it (one of a single thread runs only inside
//! `block_on`), whoever waits for its tasks would wait for ever, so that is an error.

use anabranch_core::StoreError;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// A runtime in which a task does not get its turn for so long does not run.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often somebody who waits makes sure that it still runs.
const LOOK: Duration = Duration::from_secs(1);

/// The runtime that a log was opened in.
#[derive(Clone, Debug)]
pub struct Home(Handle);

/// Why nothing happens there: for messages, after "which".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRunning(&'static str);

const ENDED: NotRunning = NotRunning("has ended");
const ASLEEP: NotRunning = NotRunning("has not run for 5 seconds");

impl NotRunning {
    /// What it means for the log in the database `at`.
    #[must_use]
    pub fn at(self, at: &str) -> StoreError {
        StoreError::OtherRuntime { at: at.to_owned(), why: self.0 }
    }
}

impl Home {
    /// The runtime of the caller.
    ///
    /// # Panics
    /// Outside a runtime.
    #[must_use]
    pub fn here() -> Self {
        Self(Handle::current())
    }

    fn is_here(&self) -> bool {
        Handle::try_current().is_ok_and(|here| here.id() == self.0.id())
    }

    /// Starts a task there.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.0.spawn(task)
    }

    /// Does something there, since what it opens stays there.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NotRunning> {
        if self.is_here() {
            return Ok(work.await);
        }
        self.wait_for(self.0.spawn(work)).await?.map_err(|_| ENDED)
    }

    /// Waits for something that is done there.
    pub async fn wait_for<T>(&self, work: impl Future<Output = T>) -> Result<T, NotRunning> {
        if self.is_here() {
            return Ok(work.await);
        }
        let stands_still = async {
            loop {
                if let Err(why) = self.runs().await {
                    return why;
                }
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            biased;
            done = work => Ok(done),
            why = stands_still => Err(why),
        }
    }

    /// Makes sure that it runs.
    pub async fn runs(&self) -> Result<(), NotRunning> {
        if self.is_here() {
            return Ok(());
        }
        match timeout(PATIENCE, self.0.spawn(async {})).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(ENDED),
            Err(_) => Err(ASLEEP),
        }
    }
}
