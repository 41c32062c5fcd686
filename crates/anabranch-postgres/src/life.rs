//! Signs of life: an advisory lock that a worker holds for as long as its process lives, and the one session
//! of a process that watches those of others.
//!
//! The server sees a connection close the moment its process is gone, and the lock goes with it. Where one
//! peer is watched, the session waits for its lock, so a death is seen within milliseconds and without
//! asking again and again; several are looked at in turn. A lock may also go because a connection was cut
//! while the process lives: it is taken again at once, so a peer is looked at twice before it is believed.

use crate::background::Task;
use crate::connection::{Server, rows};
use crate::error::Failure;
use crate::link::Life;
use crate::session::{Connection, lock};
use anabranch_core::HashRule;
use anabranch_core::engine_event::OutageOf;
use anabranch_store::Backoff;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// How long one wait for a lock lasts: a statement keeps a snapshot, and with it old rows, alive; and
/// somebody else who is to be watched meanwhile is looked at after it. Below the server's
/// `deadlock_timeout`, after which it would look for deadlocks and log the wait.
const WAIT: Duration = Duration::from_millis(400);
/// How often several are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a worker whose connection was cut has to take its lock again.
const SECOND_LOOK: Duration = Duration::from_millis(150);
/// After a cut of our own, others may have been cut too: they have so long to come back. Nobody
/// waits longer between two tries.
const SETTLE: Duration = Duration::from_secs(1);

/// The key of a worker's lock.
pub(crate) fn key(worker: &str) -> i32 {
    HashRule::fnv1a32(worker) as i32
}

/// Watches workers of other processes, all over one session.
pub(crate) struct Watcher {
    inner: Arc<Inner>,
    task: OnceLock<Task>,
}

struct Inner {
    server: Server,
    watched: Mutex<BTreeMap<Life, Watched>>,
    changed: Notify,
    /// Whether the session stays open though there is nobody to watch, and how it stands.
    stays: watch::Sender<bool>,
    now: watch::Sender<Now>,
}

#[derive(Default)]
struct Watched {
    /// How many wait for it.
    by: usize,
    /// Since when its lock is seen to be free.
    free_since: Option<Instant>,
    dead: Arc<watch::Sender<bool>>,
}

#[derive(Clone, Default)]
struct Now {
    is_open: bool,
    failures: u64,
    failure: Option<Failure>,
}

/// Somebody waits for a death, until this is dropped.
struct Waiting {
    inner: Arc<Inner>,
    life: Life,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut all = lock(&self.inner.watched);
        if let Some(watched) = all.get_mut(&self.life) {
            watched.by -= 1;
            if watched.by == 0 {
                all.remove(&self.life);
                drop(all);
                self.inner.changed.notify_one();
            }
        }
    }
}

impl Watcher {
    pub(crate) fn new(server: &Server) -> Self {
        let inner = Inner {
            server: server.clone(),
            watched: Mutex::default(),
            changed: Notify::new(),
            stays: watch::Sender::new(false),
            now: watch::Sender::default(),
        };
        Self { inner: Arc::new(inner), task: OnceLock::new() }
    }

    /// Keeps the session open, or closes it when there is nobody to watch.
    pub(crate) fn stay(&self, stays: bool) {
        self.inner.stays.send_replace(stays);
        self.inner.changed.notify_one();
    }

    /// Whether the session is open.
    pub(crate) fn is_open(&self) -> bool {
        self.inner.now.borrow().is_open
    }

    /// Waits until the session is open, if it is to stay.
    pub(crate) async fn ready(&self) -> Result<(), Failure> {
        self.start();
        let mut now = self.inner.now.subscribe();
        let failures = now.borrow().failures;
        let failure = {
            let reached = now.wait_for(|now| now.is_open || now.failures > failures);
            let reached = self.inner.server.home.wait_for(reached).await;
            let Ok(now) = reached.map_err(Failure::OtherRuntime)? else { return Ok(()) };
            now.failure.clone().filter(|_| !now.is_open)
        };
        failure.map_or(Ok(()), Err)
    }

    fn start(&self) {
        let keep = || keep(Arc::clone(&self.inner));
        self.task.get_or_init(|| Task::spawn(&self.inner.server.home, keep()));
        self.inner.changed.notify_one();
    }

    /// Resolves when a worker's lock is free, and still is a moment later.
    pub(crate) async fn death_of(self: Arc<Self>, life: Life) {
        let (_waiting, mut dead) = {
            let mut all = lock(&self.inner.watched);
            let watched = all.entry(life).or_default();
            watched.by += 1;
            let waiting = Waiting { inner: Arc::clone(&self.inner), life };
            (waiting, watched.dead.subscribe())
        };
        self.start();
        if dead.wait_for(|dead| *dead).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Inner {
    /// Whether there is a reason for a session.
    fn is_needed(&self) -> bool {
        *self.stays.borrow() || !lock(&self.watched).is_empty()
    }

    /// Those whose death is not known yet.
    fn living(&self) -> Vec<(Life, Option<Instant>)> {
        let all = lock(&self.watched);
        let living = all.iter().filter(|(_, watched)| !*watched.dead.borrow());
        living.map(|(life, watched)| (*life, watched.free_since)).collect()
    }

    /// A lock was free or held at this moment.
    fn saw(&self, life: Life, is_free: bool, at: Instant) {
        let mut all = lock(&self.watched);
        let Some(watched) = all.get_mut(&life) else { return };
        match (is_free, watched.free_since) {
            (false, _) => watched.free_since = None,
            (true, None) => watched.free_since = Some(at),
            (true, Some(since)) if at - since >= SECOND_LOOK => {
                watched.dead.send_replace(true);
            }
            (true, Some(_)) => {}
        }
    }

    fn forget(&self) {
        lock(&self.watched).values_mut().for_each(|watched| watched.free_since = None);
    }
}

async fn keep(inner: Arc<Inner>) {
    let mut backoff = Backoff::default();
    let mut was_cut = false;
    loop {
        while !inner.is_needed() {
            inner.changed.notified().await;
        }
        match inner.server.open().await {
            Ok(connection) => {
                inner.server.events.outage_over(&mut backoff, OutageOf::Peers);
                inner.now.send_modify(|now| now.is_open = true);
                if was_cut {
                    tokio::time::sleep(SETTLE).await;
                }
                was_cut = watch_over(&inner, &connection).await.is_err();
                inner.now.send_modify(|now| now.is_open = false);
                inner.forget();
            }
            Err(failure) => {
                let error = failure.at(&inner.server.at);
                inner.server.events.outage(&mut backoff, OutageOf::Peers, &error);
                inner.now.send_modify(|now| {
                    now.failures += 1;
                    now.failure = Some(failure);
                });
                tokio::time::sleep(backoff.wait()).await;
            }
        }
    }
}

/// Watches until nobody is to be watched, or the session is lost.
async fn watch_over(inner: &Inner, connection: &Connection) -> Result<(), Failure> {
    let patience = "SET statement_timeout = 0; SELECT set_config(name, '0', false) FROM pg_settings \
                    WHERE name = 'idle_session_timeout'";
    inner.server.in_time(connection.batch_execute(patience)).await?;
    while inner.is_needed() {
        let living = inner.living();
        match &living[..] {
            [] => tokio::select! {
                () = inner.changed.notified() => {}
                () = connection.until_closed() => return Err(Failure::NotThere(Duration::ZERO)),
            },
            [(life, None)] => {
                let is_free = wait(inner, connection, *life).await?;
                inner.saw(*life, is_free, Instant::now());
            }
            _ => {
                let began = Instant::now();
                let free = look(inner, connection, &living).await?;
                for (life, _) in &living {
                    inner.saw(*life, free.contains(life), began);
                }
                // Whoever was seen to be gone is looked at again when it is time.
                let due = inner.living().iter().filter_map(|(_, free)| *free).min();
                let due = due.map(|free| (free + SECOND_LOOK).saturating_duration_since(began));
                let others = if living.len() > 1 { LOOK } else { SECOND_LOOK };
                tokio::time::sleep(due.unwrap_or(others).min(others)).await;
            }
        }
    }
    Ok(())
}

/// Waits for a lock; whether it has become free.
async fn wait(inner: &Inner, connection: &Connection, (class, key): Life) -> Result<bool, Failure> {
    let wait = WAIT.as_millis();
    // One transaction, so that the lock is free again at once. That the wait ends in vain is caught
    // there: as an error it would stand in the server's log each time.
    let take = format!(
        "SET LOCAL lock_timeout = {wait}; \
         DO $$ BEGIN PERFORM pg_advisory_xact_lock_shared({class}, {key}); \
         PERFORM set_config('anabranch.is_gone', 'yes', true); \
         EXCEPTION WHEN lock_not_available THEN \
         PERFORM set_config('anabranch.is_gone', 'no', true); END $$; \
         SELECT current_setting('anabranch.is_gone')"
    );
    let answers = inner.server.in_time(connection.simple_query(&take)).await?;
    Ok(rows(&answers).any(|row| row.get(0) == Some("yes")))
}

/// The locks that are free. Each is taken and given back, which costs less than a look at all locks of the
/// server, as `pg_locks` would be.
async fn look(
    inner: &Inner,
    connection: &Connection,
    lives: &[(Life, Option<Instant>)],
) -> Result<Vec<Life>, Failure> {
    let list: Vec<String> =
        lives.iter().map(|((class, key), _)| format!("({class}, {key})")).collect();
    let look = format!(
        "SELECT class, key FROM (VALUES {}) AS lives (class, key) \
         WHERE pg_try_advisory_xact_lock_shared(class, key)",
        list.join(", ")
    );
    let answers = inner.server.in_time(connection.simple_query(&look)).await?;
    let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
    let free = rows(&answers).filter_map(|row| Some((number(row.get(0))?, number(row.get(1))?)));
    Ok(free.collect())
}
