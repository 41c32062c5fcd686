//! All looks of a server: each resource that somebody watches is looked at once a second for all who may see the same
//! of it, and what nobody watches is not.

use super::look::Sight;
use crate::problem::Problem;
use crate::tail::{TailLimits, Tails};
use anabranch::errors::ErrorCode;
use axum::Router;
use axum::body::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

/// How long to wait after a look before the next one.
const PAUSE: Duration = Duration::from_secs(1);
/// How many looks there are at the same time: of the sessions of the database they take no more than these.
const AT_ONCE: usize = 8;
/// How many different things are watched.
const SIGHTS: usize = 1_000;
/// How much memory their answers take together.
const ROOM: usize = 64 << 20;

/// What a look has found.
pub(super) struct Seen {
    /// The first is 1; another one is another answer.
    pub(super) number: u64,
    pub(super) event: Bytes,
}

/// What those who watch are told: what was seen last.
pub(super) type News = watch::Sender<Option<Arc<Seen>>>;

/// When the last look ended: an old answer is only as true as that is late.
#[derive(Clone)]
pub(super) struct LookedAt(Arc<Mutex<Instant>>);

impl LookedAt {
    fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn set(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn age(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// Something that is watched: what was seen of it, and when it was looked at.
pub(super) struct Watching {
    pub(super) news: watch::Receiver<Option<Arc<Seen>>>,
    pub(super) looked: LookedAt,
}

/// Looks at what is watched.
pub(crate) struct Lookout {
    /// What can be watched, each behind its gate, and nothing else.
    router: Router,
    pub(super) watched: Vec<&'static str>,
    pub(super) limits: TailLimits,
    pub(super) tails: Tails,
    places: Arc<Semaphore>,
    sights: Mutex<HashMap<Sight, (News, LookedAt)>>,
    turns: Semaphore,
    bytes: AtomicUsize,
}

/// A place of a live stream.
pub(super) struct Place {
    tails: Tails,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.tails.counts.live_closed();
    }
}

impl Lookout {
    pub(crate) fn new(
        router: Router,
        watched: Vec<&'static str>,
        limits: TailLimits,
        tails: &Tails,
    ) -> Self {
        Self {
            router,
            watched,
            limits,
            tails: tails.clone(),
            places: Arc::new(Semaphore::new(limits.live)),
            sights: Mutex::default(),
            turns: Semaphore::new(AT_ONCE),
            bytes: AtomicUsize::new(0),
        }
    }

    /// A place for one more stream.
    pub(super) fn join(&self) -> Result<Place, Problem> {
        if self.tails.is_closed() {
            let said = "the server stops; ask another one, or again";
            return Err(Problem::new(ErrorCode::LogClosed, said));
        }
        let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() else {
            let said = format!(
                "{} live streams are open, and there are no more places; close one",
                self.limits.live
            );
            let problem = Problem::new(ErrorCode::TooManyRequests, said);
            return Err(problem.with("limit", self.limits.live));
        };
        self.tails.counts.live_opened();
        Ok(Place { tails: self.tails.clone(), _permit: permit })
    }

    /// What is seen of something from now on. Who asks first begins the looks, and they end with the last who has it.
    pub(super) fn watch(self: &Arc<Self>, sight: Sight) -> Result<Watching, Problem> {
        let mut sights = self.sights();
        if let Some((news, looked)) = sights.get(&sight) {
            return Ok(Watching { news: news.subscribe(), looked: looked.clone() });
        }
        if sights.len() >= SIGHTS {
            let said =
                format!("{SIGHTS} different things are watched on this server; try again later");
            return Err(Problem::new(ErrorCode::TooManyRequests, said).after_seconds(5));
        }
        let (news, receiver) = watch::channel(None);
        let looked = LookedAt::now();
        sights.insert(sight.clone(), (news.clone(), looked.clone()));
        tokio::spawn(Arc::clone(self).keep_looking(sight, news, looked.clone()));
        Ok(Watching { news: receiver, looked })
    }

    /// A task of its own, so that nobody who watches and reads slowly, or goes away, holds up the others.
    async fn keep_looking(self: Arc<Self>, sight: Sight, news: News, looked: LookedAt) {
        let mut size = 0;
        loop {
            let event = self.look(&sight, size).await;
            looked.set();
            self.bytes.fetch_add(event.len(), Ordering::Relaxed);
            self.bytes.fetch_sub(size, Ordering::Relaxed);
            size = event.len();
            news.send_if_modified(|last| {
                let number = last.as_ref().map_or(0, |last| last.number);
                let is_new = last.as_ref().is_none_or(|last| last.event != event);
                if is_new {
                    *last = Some(Arc::new(Seen { number: number + 1, event }));
                }
                is_new
            });
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = news.closed() => {}
            }
            let mut sights = self.sights();
            // Under the lock, so that nobody comes in between.
            if news.receiver_count() == 0 {
                sights.remove(&sight);
                self.bytes.fetch_sub(size, Ordering::Relaxed);
                return;
            }
        }
    }

    /// One look, of something that took so many bytes before.
    async fn look(&self, sight: &Sight, size: usize) -> Bytes {
        // Never closed.
        let _turn = self.turns.acquire().await;
        self.tails.counts.looked();
        let event = sight.look(self.router.clone()).await;
        let others = self.bytes.load(Ordering::Relaxed).saturating_sub(size);
        if others + event.len() <= ROOM {
            return event;
        }
        let said = "what is watched on this server takes too much memory; ask for it by itself";
        sight.refused(Problem::new(ErrorCode::TooManyRequests, said)).await
    }

    fn sights(&self) -> MutexGuard<'_, HashMap<Sight, (News, LookedAt)>> {
        // Whoever panicked left a map in which every entry is whole.
        self.sights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
