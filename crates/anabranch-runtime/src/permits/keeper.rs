//! Asks the database for what the lanes of a process want, and gives back what they do not need or others wait
//! for.

use super::shares::Dealt;
use super::{Leased, Tenure};
use crate::tables::Tables;
use crate::tables::permits::Ask;
use anabranch_core::StoreError;
use anabranch_store::Backoff;
use anabranch_store::database::Topic;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};

/// How long permits that nobody uses are kept, if nobody else waits: the next row may come soon.
const LINGER: Duration = Duration::from_millis(50);

/// Runs beside the lanes of a consumer, for as long as they do.
pub(crate) async fn keep(leased: Arc<Leased>, tables: Tables, consumer: String, poll: Duration) {
    let database = &tables.database;
    let tenure = Arc::clone(&leased.tenure.borrow());
    let mut keeper = Keeper {
        worker: leased.worker.subscribe(),
        permits: database.signals(Topic::Permits),
        workers: database.signals(Topic::Workers),
        tenure,
        leased,
        tables: tables.clone(),
        consumer,
        poll,
        waits: 0,
        asked: Instant::now(),
        idle: None,
        backoff: Backoff::default(),
    };
    loop {
        if keeper.worker.has_changed().unwrap_or(false) {
            keeper.lose().await;
        }
        match keeper.due() {
            Due::Now { had_turn } => keeper.deal(had_turn).await,
            Due::At(time) => keeper.wait(time).await,
        }
    }
}

struct Keeper {
    leased: Arc<Leased>,
    tables: Tables,
    consumer: String,
    poll: Duration,
    worker: watch::Receiver<String>,
    permits: watch::Receiver<u64>,
    workers: watch::Receiver<u64>,
    tenure: Arc<Tenure>,
    /// How many the database knows it to wait for.
    waits: usize,
    /// When it asked last.
    asked: Instant,
    /// Since when it has what no lane wants.
    idle: Option<Instant>,
    backoff: Backoff,
}

/// When to ask the database.
enum Due {
    Now {
        /// Whether the use of a permit is over that others wait for.
        had_turn: bool,
    },
    /// Then, or when others have changed something.
    At(Option<Instant>),
}

impl Keeper {
    fn due(&mut self) -> Due {
        let wanted = self.leased.wanted.load(Ordering::SeqCst);
        let free = self.tenure.free.available_permits();
        let (returned, is_crowded) = {
            let book = self.tenure.book();
            (book.returned, book.is_crowded)
        };
        if returned > 0 {
            return Due::Now { had_turn: true };
        }
        if wanted > free && self.waits == 0 {
            return Due::Now { had_turn: false };
        }
        if wanted == 0 && free > 0 && is_crowded {
            return Due::Now { had_turn: false };
        }
        if wanted > 0 || (free == 0 && self.waits == 0) {
            self.idle = None;
            let looks_again = self.waits > 0 || is_crowded;
            return Due::At(looks_again.then(|| self.asked + self.poll));
        }
        let idle = *self.idle.get_or_insert_with(Instant::now);
        Due::At(Some(idle + LINGER))
    }

    /// Waits for something to change, and looks at the database if that is due.
    async fn wait(&mut self, until: Option<Instant>) {
        let (has_some, waits) = (self.tenure.book().held > 0, self.waits > 0);
        tokio::select! {
            () = self.leased.changed.notified() => {}
            _ = self.worker.changed() => self.worker.mark_changed(),
            Ok(()) = self.permits.changed(), if has_some || waits => self.look().await,
            // A worker that is gone has left its permits.
            Ok(()) = self.workers.changed(), if waits => self.look().await,
            () = sleep_until(until) => match self.idle {
                Some(_) => self.deal(false).await,
                None => self.look().await,
            }
        }
    }

    /// Takes what others have handed over, and finds out whether they wait. Asks if something else would come
    /// of it.
    async fn look(&mut self) {
        self.asked = Instant::now();
        let worker = self.worker.borrow().clone();
        let wanted = self.leased.wanted.load(Ordering::SeqCst);
        let seen = match self.tables.look_at_permits(self.ask(&worker, 0, wanted, false)).await {
            Ok(seen) => seen,
            Err(error) => return self.failed(&error).await,
        };
        let (held, waits) = seen.mine();
        self.waits = waits;
        let (held, in_use) = {
            let mut book = self.tenure.book();
            if let Some(more) = held.checked_sub(book.held) {
                book.held = held;
                self.tenure.free.add_permits(more);
            }
            (book.held, book.held - book.returned - self.tenure.free.available_permits())
        };
        match seen.would_deal(self.ask(&worker, in_use, wanted, false)) {
            Some(dealt) if dealt.held == held => self.tenure.book().is_crowded = dealt.is_crowded,
            _ => self.deal(false).await,
        }
    }

    fn ask<'a>(&'a self, worker: &'a str, in_use: usize, wanted: usize, had_turn: bool) -> Ask<'a> {
        let (consumer, most) = (self.consumer.as_str(), self.leased.limit);
        Ask { consumer, worker, most, in_use, wanted, had_turn }
    }

    /// Tells the database what is in use and wanted, and takes what it gives.
    async fn deal(&mut self, had_turn: bool) {
        self.permits.mark_unchanged();
        self.workers.mark_unchanged();
        (self.asked, self.idle) = (Instant::now(), None);
        let in_use = {
            // What is free is kept from the lanes meanwhile: so what is in use can only become less.
            let mut book = self.tenure.book();
            let free = self.tenure.free.forget_permits(Semaphore::MAX_PERMITS);
            book.held -= free + std::mem::take(&mut book.returned);
            book.held
        };
        let worker = self.worker.borrow().clone();
        let wanted = self.leased.wanted.load(Ordering::SeqCst);
        match self.tables.deal(self.ask(&worker, in_use, wanted, had_turn)).await {
            Ok(Some(dealt)) => self.take(in_use, dealt),
            Ok(None) => {
                self.lose().await;
                self.wait_out().await;
            }
            // Nobody knows what is stored; what is in use is leased in any case.
            Err(error) => self.failed(&error).await,
        }
    }

    async fn failed(&mut self, error: &StoreError) {
        if self.backoff.complains() {
            tracing::warn!(consumer = self.consumer, %error, "cannot ask for permits");
        }
        self.waits = 0;
        self.wait_out().await;
    }

    fn take(&mut self, in_use: usize, dealt: Dealt) {
        if let Some(away) = self.backoff.end() {
            tracing::info!(consumer = self.consumer, "goes on with permits after {away:.1?}");
        }
        self.waits = dealt.short;
        let mut book = self.tenure.book();
        let more = dealt.held - in_use;
        book.held += more;
        book.is_crowded = dealt.is_crowded;
        self.tenure.free.add_permits(more);
    }

    async fn wait_out(&mut self) {
        let wait = self.backoff.wait();
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = self.worker.changed() => self.worker.mark_changed(),
        }
    }

    /// The worker's lease is over, and with it the permits. The next ones come under another lease, when the
    /// use of these is over.
    async fn lose(&mut self) {
        self.tenure.book().is_lost = true;
        self.tenure.free.close();
        self.waits = 0;
        while self.leased.in_use.load(Ordering::SeqCst) > 0 {
            self.leased.changed.notified().await;
        }
        self.worker.mark_unchanged();
        self.tenure = Tenure::new();
        self.leased.tenure.send_replace(Arc::clone(&self.tenure));
    }
}

async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}
