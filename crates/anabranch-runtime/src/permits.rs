//! Permits: how many rows of a consumer are in work at the same time, over all processes.
//!
//! A process leases permits from the database, as many as its lanes want and others leave, and keeps them while
//! its lanes use them: so an uncontended limit costs a transaction now and then. Where others wait for what it
//! holds, each permit goes back when its use is over. They are leased under the worker's lease, so they need no
//! renewal, and end with it.
//!
//! | module | subject |
//! |---|---|
//! | `shares` | who may hold how many: pure |
//! | `asking` | when a process asks the database: pure |
//! | `desk` | what it says of its permits, and what an answer changes: no I/O |
//! | `keeper` | asks, waits and listens |

mod asking;
mod desk;
mod keeper;
pub(crate) mod shares;
#[cfg(test)]
mod simulation;

pub(crate) use keeper::keep;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

/// The permits of a lane: see [`Holding::permits`](crate::Holding::permits). For a consumer without a limit
/// there are always some.
///
/// ```
/// # use anabranch_runtime::Holding;
/// # async fn f(holding: &mut Holding) {
/// let mut permits = holding.permits();
/// permits.wants(1); // a row is ready
/// let permit = permits.next().await;
/// permits.wants(0);
/// // … the row is worked on …
/// drop(permit); // another one may be, here or elsewhere
/// // … that it is done is stored …
/// # }
/// ```
///
/// A permit stands for the work, and not for the storing of its end. Where both are one transaction, as in a pool whose
/// effects are in the database, it is dropped after the commit.
#[derive(Debug)]
pub struct Permits {
    of: Option<(Arc<Leased>, Lane)>,
}

/// One row may be in work, until this is dropped.
#[derive(Debug)]
pub struct Permit {
    of: Option<(Arc<Leased>, Arc<Tenure>)>,
    permit: Option<OwnedSemaphorePermit>,
}

/// What a process has leased for a consumer, shared by its lanes.
#[derive(Debug)]
pub(crate) struct Leased {
    limit: usize,
    lanes: Mutex<Lanes>,
    tenure: watch::Sender<Arc<Tenure>>,
    /// Under which worker's lease.
    worker: watch::Sender<String>,
    /// Told whenever lanes want or return some.
    changed: Notify,
}

/// The number of one that wants permits, and uses them.
type Lane = u64;

/// What the lanes of a process want and use.
#[derive(Debug, Default)]
struct Lanes {
    /// How many more each of them wants.
    wanted: BTreeMap<Lane, usize>,
    /// How many are in use, those of former tenures too.
    in_use: usize,
    next: Lane,
}

/// The permits of one worker's lease: they are lost with it.
#[derive(Debug)]
struct Tenure {
    free: Arc<Semaphore>,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// How many are leased: those in use, those free, and those returned.
    held: usize,
    /// Others wait for them: what is returned is not used here again before they were asked.
    is_crowded: bool,
    returned: usize,
    is_lost: bool,
}

impl Leased {
    pub(crate) fn new(limit: usize, worker: &str) -> Arc<Self> {
        Arc::new(Self {
            limit,
            lanes: Mutex::default(),
            tenure: watch::Sender::new(Tenure::new()),
            worker: watch::Sender::new(worker.to_owned()),
            changed: Notify::new(),
        })
    }

    /// Locked after a tenure's book, if both are.
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process goes on as another worker.
    pub(crate) fn serve(&self, worker: &str) {
        self.worker.send_if_modified(|served| {
            let is_other = served != worker;
            if is_other {
                worker.clone_into(served);
            }
            is_other
        });
    }
}

impl Tenure {
    fn new() -> Arc<Self> {
        Arc::new(Self { free: Arc::new(Semaphore::new(0)), book: Mutex::default() })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    fn wanted(&self) -> usize {
        self.wanted.values().sum()
    }

    /// One that a lane wanted is in use.
    fn begin(&mut self, lane: Lane) {
        if let Some(wanted) = self.wanted.get_mut(&lane) {
            *wanted = wanted.saturating_sub(1);
        }
    }
}

impl Permits {
    pub(crate) fn new(leased: Option<Arc<Leased>>) -> Self {
        let number = |leased: Arc<Leased>| {
            let mut lanes = leased.lanes();
            lanes.next += 1;
            let lane = lanes.next;
            drop(lanes);
            (leased, lane)
        };
        Self { of: leased.map(number) }
    }

    /// Says for how many rows, beyond those in work, it would take a permit now. Each permit that it gets makes
    /// that one less.
    pub fn wants(&mut self, rows: usize) {
        let Some((leased, lane)) = &self.of else { return };
        if leased.lanes().wanted.insert(*lane, rows).unwrap_or(0) != rows {
            leased.changed.notify_one();
        }
    }

    /// Waits for a permit; those who wait in this process get them one after the other. The future can be kept
    /// while the lane does other things; dropped, it loses its place.
    pub fn next(&self) -> impl Future<Output = Permit> + Send + use<> {
        let of = self.of.clone();
        async move {
            let Some((leased, lane)) = of else { return Permit { of: None, permit: None } };
            let mut tenures = leased.tenure.subscribe();
            loop {
                let tenure = Arc::clone(&tenures.borrow_and_update());
                if let Ok(permit) = Arc::clone(&tenure.free).acquire_owned().await {
                    // One that was lost while it was on its way here is none.
                    let is_lost = {
                        let book = tenure.book();
                        let mut lanes = leased.lanes();
                        lanes.in_use += 1;
                        if !book.is_lost {
                            lanes.begin(lane);
                        }
                        book.is_lost
                    };
                    let of = Some((Arc::clone(&leased), tenure));
                    let permit = Permit { of, permit: Some(permit) };
                    if !is_lost {
                        return permit;
                    }
                }
                if tenures.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        }
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        if let Some((leased, lane)) = &self.of {
            leased.lanes().wanted.remove(lane);
            leased.changed.notify_one();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (Some((leased, tenure)), Some(permit)) = (self.of.take(), self.permit.take()) else {
            return;
        };
        let mut book = tenure.book();
        if book.is_lost {
            permit.forget();
        } else if book.is_crowded {
            permit.forget();
            book.returned += 1;
        } else {
            drop(permit);
        }
        leased.lanes().in_use -= 1;
        drop(book);
        leased.changed.notify_one();
    }
}
