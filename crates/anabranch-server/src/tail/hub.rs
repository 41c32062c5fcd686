//! Where tails meet: one subscription to the log for all of them, and none without tails.

use super::counts::Tails;
use super::ring::Room;
use super::run::{Run, Seat};
use crate::problem::Problem;
use anabranch::Log;
use anabranch::errors::ErrorCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};

/// The limits of tails and live streams.
///
/// ```
/// use anabranch_server::TailLimits;
/// let limits = TailLimits { tails: 200, ..TailLimits::default() };
/// assert_eq!(limits.ring_events, 8192);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TailLimits {
    /// How many may be open at the same time. Default 2,000, and fewer where the server has fewer connections
    /// ([`Api::connections`](crate::Api::connections)).
    pub tails: usize,
    /// How many of the newest events are kept for all of them together. A tail that starts further back reads the log by
    /// itself; a tail that falls behind because it is slow is dropped. Default 8,192.
    pub ring_events: usize,
    /// How much memory these may take. Default 32 MiB.
    pub ring_bytes: usize,
    /// How many tails may read the log by themselves at the same time; others wait. Default 4.
    pub catch_ups: usize,
    /// After how long a silence a tail says that it is alive, and how far it is; a live stream, too. Default 15 seconds.
    pub heartbeat: Duration,
    /// How many live streams (`/v1/live`) may be open at the same time. Default 1,000, fewer where the server has fewer
    /// connections ([`Api::connections`](crate::Api::connections)).
    pub live: usize,
}

impl Default for TailLimits {
    fn default() -> Self {
        Self {
            tails: 2_000,
            ring_events: 8_192,
            ring_bytes: 32 << 20,
            catch_ups: 4,
            heartbeat: Duration::from_secs(15),
            live: 1_000,
        }
    }
}

/// All tails of a log in this process.
pub(crate) struct Hub {
    log: Log,
    pub(crate) limits: TailLimits,
    run: Mutex<Option<Arc<Run>>>,
    places: Arc<Semaphore>,
    /// Turns at reading the log, for tails that are behind.
    pub(crate) turns: Semaphore,
    tails: Tails,
}

impl Hub {
    pub(crate) fn new(log: &Log, limits: TailLimits, tails: &Tails) -> Self {
        Self {
            log: log.clone(),
            limits,
            run: Mutex::default(),
            places: Arc::new(Semaphore::new(limits.tails)),
            turns: Semaphore::new(limits.catch_ups.max(1)),
            tails: tails.clone(),
        }
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// A place at the subscription, which the first tail begins.
    pub(crate) async fn join(&self) -> Result<Place, Problem> {
        let closed = || {
            Problem::new(
                ErrorCode::LogClosed,
                "the server is stopping; ask another one, or try again",
            )
        };
        let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() else {
            let said = format!(
                "{} tails are open, which is the limit; close one, or raise the limit",
                self.limits.tails
            );
            return Err(
                Problem::new(ErrorCode::TooManyRequests, said).with("limit", self.limits.tails)
            );
        };
        let mut run = self.run.lock().await;
        if self.tails.is_closed() {
            return Err(closed());
        }
        let seat = match run.as_ref().and_then(|run| run.enter()) {
            Some(seat) => seat,
            None => {
                let room = Room { events: self.limits.ring_events, bytes: self.limits.ring_bytes };
                let (begun, seat) = Run::start(&self.log, room, &self.tails).await?;
                *run = Some(begun);
                seat
            }
        };
        Ok(Place { seat, _permit: permit })
    }
}

/// A place at the subscription, out of a limited number.
pub(crate) struct Place {
    pub(crate) seat: Seat,
    _permit: tokio::sync::OwnedSemaphorePermit,
}
