//! A worker: one process that runs a replica set. It keeps its lease, claims what it wants, and
//! starts and stops the feeds and lanes.
//!
//! | module | subject |
//! |---|---|
//! | `membership` | the worker as a member of its set: joining, following generations, leaving |
//! | `beats` | what a heartbeat finds out: what others have changed, and what somebody asks for |
//! | `trouble` | what keeps one consumer from running here, while the others go on |
//! | `succession` | a new version that takes the place of the old one |
//! | `exchange` | consumers that are replaced, added or removed while it runs |
//! | `outage` | a consumer whose handler fails wherever it runs: stopped, and tried now and then |
//! | `ability` | what it runs, and is able to run |
//! | `limits` | whether all workers of a pool know its limit |
//! | `weighing` | how heavy its slots are |
//! | `claims` | what is wanted and free, handed to the lanes |
//! | `beyond` | cursors beyond the end of the log |
//! | `catch_up` | whether the end is reached, and what is left then |
//! | `last_word` | how it stands when its lanes have stopped |
//! | `start` | registering before it joins |
//! | `orders` | how it talks to a lane |
//! | `running` | one consumer as it runs here: its feed and its lanes |
//! | `heartbeat` | the signs of life, on a task of their own |
//! | `peers` | watching another worker, to notice its death |
//! | `sessions` | what a worker must have before it claims anything |

mod ability;
mod beats;
mod beyond;
mod catch_up;
mod claims;
mod exchange;
mod heartbeat;
mod last_word;
mod limits;
mod membership;
mod orders;
mod outage;
mod peers;
mod running;
mod sessions;
mod start;
mod succession;
mod trouble;
mod weighing;

use crate::consumer::Consumer;
use crate::lane::{Order, Said};
use crate::replica_set::{Exchanges, Progress, ProgressObserver};
use crate::report::ShortageReport;
use crate::run_error::RunError;
use crate::tables::Tables;
use crate::tables::workers::Worker;
use crate::tuning::Tuning;
use anabranch_core::generation::Rollout;
use anabranch_core::{Happening, Notice, Position, SlotSet, StoreError, Weights};
use anabranch_store::database::Topic;
use anabranch_store::{Log, Observer};
use futures_util::future::{BoxFuture, join_all};
use heartbeat::{Heartbeat, Rhythm};
use membership::Membership;
use outage::Outage;
use peers::Peers;
use running::Running;
use sessions::Sessions;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

/// How often to look whether the end is reached, and to tell the observer.
const OBSERVE: Duration = Duration::from_millis(100);
/// Whoever has not heard for so long says so.
const DEAF: Duration = Duration::from_secs(1);
/// How long a worker that is told to stop tries to release its cursors, at least.
const LEAVE_AT_LEAST: Duration = Duration::from_secs(2);
/// How often an observer learns how long the log is: that takes a query.
const LOOK_AT_HEAD: Duration = Duration::from_secs(2);

/// What is to be run.
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) consumers: Vec<Arc<Consumer>>,
    pub(crate) lanes: usize,
    /// The slots that this process asks for, of each consumer's; a fair share if there are none.
    pub(crate) fixed: Option<SlotSet>,
    pub(crate) runs: String,
    pub(crate) rollout: Rollout,
    pub(crate) tuning: Tuning,
    pub(crate) grace: Duration,
    pub(crate) observers: Vec<ProgressObserver>,
    /// Who sees what happens.
    pub(crate) events: Vec<Arc<dyn Observer>>,
    /// End when everything is handled that is in the log now, and what its own consumers make of that.
    pub(crate) catch_up: bool,
    /// End with an error as soon as a consumer cannot go on.
    pub(crate) fail_fast: bool,
    /// Other consumers that it is to have.
    pub(crate) exchanges: Option<Arc<Exchanges>>,
}

/// Runs a plan until `stop` resolves, something fails, or the end is reached. Boxed, so that a worker is compiled here
/// and not in each program that runs one.
pub(crate) fn run<'a>(
    log: &'a Log,
    plan: Plan,
    stop: impl Future<Output = ()> + Send + 'a,
) -> BoxFuture<'a, Result<Progress, RunError>> {
    run_boxed(log, plan, Box::pin(stop))
}

fn run_boxed<'a>(
    log: &'a Log,
    plan: Plan,
    stop: BoxFuture<'a, ()>,
) -> BoxFuture<'a, Result<Progress, RunError>> {
    Box::pin(run_here(log, plan, stop))
}

async fn run_here(
    log: &Log,
    mut plan: Plan,
    stop: BoxFuture<'_, ()>,
) -> Result<Progress, RunError> {
    // Connections of its own: another replica set in this process cannot use them up.
    let mut tables = Tables::of(log.database().apart()?);
    tables.events = log.events().with(std::mem::take(&mut plan.events)).in_set(&plan.name);
    let events = tables.events.clone();
    events.emit(Happening::run_began());
    let mut unended = Unended(Some(events.clone()));
    let ended = run_on(log, tables, plan, stop).await;
    unended.0 = None;
    let error = ended.as_ref().err();
    let (said, code) = (error.map(ToString::to_string), error.map(RunError::code));
    events.emit(Happening::run_ended(said, code));
    events.flush().await;
    ended
}

/// Says that a run was dropped before its end: its task was aborted, or has panicked, or somebody waits for something
/// else by now.
struct Unended(Option<anabranch_store::Emitter>);

impl Drop for Unended {
    fn drop(&mut self) {
        if let Some(events) = self.0.take() {
            let said = "it was dropped before its end; its slots are free when its lease is over";
            events.emit(Happening::run_ended(Some(said.to_owned()), None));
        }
    }
}

async fn run_on(
    log: &Log,
    tables: Tables,
    mut plan: Plan,
    stop: impl Future<Output = ()> + Send,
) -> Result<Progress, RunError> {
    tables.database.require_newest_schema()?;
    tokio::pin!(stop);
    let has_sessions = sessions::secure(&tables, stop.as_mut());
    if !has_sessions.await? {
        return sessions::stopped(&plan);
    }
    let (refused, target) = start::prepare(log, &tables, &mut plan).await?;
    let mut keeper = Keeper::start(log, tables, plan, refused).await?;
    keeper.target = target;
    let ended = keeper.keep(stop).await;
    let before = keeper.before_end();
    keeper.stop().await;
    let progress = keeper.last_word(before).await;
    let ended = ended?;
    // Another program may have begun together with this one, and ended before it was looked at.
    keeper.check_keys().await?;
    if ended == Ended::AtTarget
        && let Some(error) = keeper.first_error()
    {
        return Err(error);
    }
    match target {
        None => Ok(progress),
        Some(_) => keeper.complete(ended == Ended::Told, progress).await,
    }
}

/// How a run ended, if nothing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// What it was to catch up with is done, or parked.
    AtTarget,
    /// It was told to stop.
    Told,
}

struct Keeper {
    log: Log,
    tables: Tables,
    plan: Plan,
    worker: Worker,
    membership: Membership,
    peers: Peers,
    running: Vec<Running>,
    reporter: mpsc::UnboundedSender<Said>,
    reports: mpsc::UnboundedReceiver<Said>,
    heartbeat: Option<Heartbeat>,
    signals: watch::Receiver<u64>,
    /// What it is to catch up with, if that is all it is for.
    target: Option<Position>,
    /// Whether its consumers may have appended since that was taken.
    has_appended: bool,
    head: Position,
    head_seen: Option<Instant>,
    /// When it last made sure that the log has not fallen behind what is handled.
    log_checked: Instant,
    deaf_since: Option<Instant>,
    /// Told when a lane has come further.
    moved: Arc<Notify>,
    sessions: Sessions,
}

impl Keeper {
    async fn start(
        log: &Log,
        mut tables: Tables,
        plan: Plan,
        refused: Vec<Option<RunError>>,
    ) -> Result<Self, RunError> {
        // Unbounded: the keeper waits for lanes to end, so they must not wait for it. A lane has one thing to say at a
        // time: that it is lost, halted, or done with a try; and nothing more before it is told what to do.
        let (reporter, reports) = mpsc::unbounded_channel();
        let worker = new_worker(&plan);
        tables.events = tables.events.by_worker(&worker.id);
        let mut keeper = Self {
            log: log.clone(),
            membership: Membership::new(plan.rollout),
            peers: Peers::new(&tables),
            // Heard from before it joins: what others let go for it must not be missed.
            signals: tables.database.signals(Topic::Workers),
            tables,
            plan,
            worker,
            running: Vec::new(),
            reporter,
            reports,
            heartbeat: None,
            target: None,
            has_appended: false,
            head: Position::START,
            head_seen: None,
            log_checked: Instant::now(),
            deaf_since: None,
            moved: Arc::default(),
            sessions: Sessions::default(),
        };
        for (number, consumer) in keeper.plan.consumers.iter().enumerate() {
            keeper.running.push(Running::of(number, consumer, &keeper.plan));
        }
        for (number, refused) in refused.into_iter().enumerate() {
            match refused {
                None => keeper.start_lanes(number),
                Some(error) => keeper.is_broken(number, error)?,
            }
        }
        keeper.join_patiently(Some(Instant::now() + start::PATIENCE)).await?;
        if let Err(error) = keeper.begin().await {
            // Nobody is to wait for its lease.
            keeper.stop().await;
            return Err(error);
        }
        Ok(keeper)
    }

    fn start_heartbeat(&mut self) {
        let consumers = self.names();
        let (lease, interval) = (self.plan.tuning.lease, self.plan.tuning.heartbeat_interval());
        let rhythm = Rhythm { worker: self.worker.clone(), consumers, lease, interval };
        let report = self.report().text();
        self.heartbeat = Some(Heartbeat::start(self.tables.clone(), rhythm, report));
    }

    fn names(&self) -> Vec<String> {
        self.plan.consumers.iter().map(|consumer| consumer.name.clone()).collect()
    }

    /// Finds out what was asked for while nobody ran, before anything is claimed.
    async fn begin(&mut self) -> Result<(), RunError> {
        let (names, lease) = (self.names(), self.plan.tuning.lease);
        let report = self.report().text();
        let mut patience = start::Patience::new();
        loop {
            match self.tables.beat(&self.worker, lease, &names, &report).await {
                Ok(Some(beat)) => return self.look_after(&beat).await,
                // Then it looks again, as the one that it is now.
                Ok(None) => self.declared_dead().await?,
                Err(error) => patience.wait_out(&self.tables.events, error.into()).await?,
            }
        }
    }

    /// Keeps things as they should be until the end.
    async fn keep(&mut self, stop: impl Future<Output = ()> + Send) -> Result<Ended, RunError> {
        tokio::pin!(stop);
        let mut observe = tokio::time::interval(OBSERVE);
        let moved = Arc::clone(&self.moved);
        let exchanges = self.plan.exchanges.clone();
        loop {
            if self.running.iter().any(|running| running.claim) {
                tokio::select! {
                    () = &mut stop => return Ok(Ended::Told),
                    claimed = self.claim_all() => claimed?,
                }
            }
            let beats = self.heartbeat.as_mut().expect("a worker has a heartbeat");
            tokio::select! {
                () = &mut stop => return Ok(Ended::Told),
                Some(said) = self.reports.recv() => tokio::select! {
                    () = &mut stop => return Ok(Ended::Told),
                    done = self.hear(said) => done?,
                },
                beat = beats.next() => match beat? {
                    Some(beat) => tokio::select! {
                        () = &mut stop => return Ok(Ended::Told),
                        done = self.look_after(&beat) => done?,
                    },
                    None => tokio::select! {
                        () = &mut stop => return Ok(Ended::Told),
                        done = self.declared_dead() => done?,
                    },
                },
                changed = self.signals.changed() => {
                    if changed.is_err() {
                        return Err(StoreError::Closed.into());
                    }
                    beats.now();
                    // Perhaps what it waits for has been let go.
                    self.running.iter_mut().for_each(|run| run.claim |= run.lacks_slots());
                }
                Some(gone) = self.peers.gone.recv() => {
                    let what = Happening::noticed(Notice::ProcessGone, gone.clone());
                    self.tables.events.emit(what);
                    self.membership.is_gone(gone);
                    self.peers.alarm();
                    tokio::select! {
                        () = &mut stop => return Ok(Ended::Told),
                        done = self.tick() => match done {
                            // The next heartbeat tries again.
                            Err(RunError::Store(error)) if error.is_worth_waiting() => {
                                self.notice(Notice::CannotTakeOver, &error);
                            }
                            done => done?,
                        },
                    }
                }
                exchange = Self::next_exchange(exchanges.clone()) => self.exchange(exchange).await?,
                () = moved.notified(), if self.target.is_some() => {
                    // Cheap as long as it is not the end.
                    if self.seems_at_end() && self.is_at_end().await? {
                        return Ok(Ended::AtTarget);
                    }
                }
                _ = observe.tick() => {
                    tokio::select! {
                        () = &mut stop => return Ok(Ended::Told),
                        done = self.see_to_troubles() => done?,
                    }
                    self.observe().await;
                    if self.is_at_end().await? {
                        return Ok(Ended::AtTarget);
                    }
                }
            }
        }
    }

    /// What this worker says of itself.
    fn report(&mut self) -> crate::report::Report {
        let hears = self.tables.database.hears();
        self.deaf_since = (!hears).then(|| self.deaf_since.unwrap_or_else(Instant::now));
        // A listener that has just been started, or was cut, is back in a moment.
        let deaf = self.deaf_since.map(|since| since.elapsed()).filter(|deaf| *deaf >= DEAF);
        let shortage = self.tables.database.shortage();
        let lanes = self.plan.lanes * self.running.len();
        let unannounced = |run: &Running| run.feed.unannounced.load(Ordering::Relaxed);
        let limit =
            |run: &Running| Some((run.consumer.name.clone(), run.consumer.max_parallelism()?));
        crate::report::Report {
            consumers: self.names(),
            limits: self.running.iter().filter_map(limit).collect(),
            deaf_ms: deaf.map(|deaf| deaf.as_millis() as u64),
            unannounced: self.running.iter().map(unannounced).sum(),
            weighed: self.membership.weighed,
            shortage: shortage.map(|short| ShortageReport::of(&short, lanes)),
            lanes: self.running.iter().flat_map(Running::report).collect(),
        }
    }

    async fn observe(&mut self) {
        if self.plan.observers.is_empty() {
            return;
        }
        // Who has caught up knows the head by having reached it.
        let is_behind = self.running.iter().any(|running| !running.is_done(self.head));
        let pace = if is_behind { LOOK_AT_HEAD } else { LOOK_AT_HEAD * 5 };
        if self.head_seen.is_none_or(|seen| seen.elapsed() >= pace)
            && let Ok(head) = self.log.head().await
        {
            (self.head, self.head_seen) = (head, Some(Instant::now()));
        }
        let progress = self.progress();
        self.plan.observers.iter().for_each(|observer| observer(&progress));
    }

    fn progress(&self) -> Progress {
        let consumers = self.running.iter().map(|running| running.progress(self.head));
        Progress { consumers: consumers.collect(), has_ended: false }
    }

    /// Lets the lanes finish and let go of what they hold, and leaves.
    async fn stop(&mut self) {
        let grace = self.plan.grace;
        let limit = grace.max(LEAVE_AT_LEAST);
        self.peers.stop();
        for running in &mut self.running {
            running.want(&SlotSet::empty(), &Weights::even(), false);
            running.tell_all(|_| Order::Stop);
        }
        let lanes = self.running.iter_mut().map(|running| std::mem::take(&mut running.lane_tasks));
        let mut lanes: Vec<JoinSet<()>> = lanes.collect();
        let all = lanes.iter_mut().map(async |lanes| while lanes.join_next().await.is_some() {});
        let finish = tokio::time::timeout(grace, join_all(all));
        let announce = tokio::time::timeout(limit, self.announce_leave());
        let (finished, announced) = tokio::join!(finish, announce);
        if let Ok(Err(error)) = announced {
            self.notice(Notice::CannotAnnounceLeave, &error);
        }
        if finished.is_err() {
            let detail = format!("grace={grace:?}");
            self.tables.events.emit(Happening::noticed(Notice::HandlersUnfinished, detail));
            for lanes in &mut lanes {
                lanes.shutdown().await;
            }
        }
        for running in &mut self.running {
            running.feed_task.shutdown().await;
        }
        if tokio::time::timeout(limit, self.leave()).await.is_err() {
            let detail = format!("limit={limit:?}");
            self.tables.events.emit(Happening::noticed(Notice::CursorsNotReleased, detail));
        }
        self.heartbeat = None;
        self.membership.life = None;
    }

    /// Says that something has failed.
    fn notice(&self, kind: Notice, error: &impl std::fmt::Display) {
        self.tables.events.emit(Happening::failed(kind, error));
    }

    /// The same of a consumer.
    fn notice_of(&self, consumer: &str, kind: Notice, error: &impl std::fmt::Display) {
        self.tables.events.of(consumer).emit(Happening::failed(kind, error));
    }

    /// Another worker than before: what happens from now on is of it.
    fn renew_worker(&mut self) -> Worker {
        let new = new_worker(&self.plan);
        self.tables.events = self.tables.events.clone().by_worker(&new.id);
        // It follows none yet.
        self.tables.events.follows(0);
        std::mem::replace(&mut self.worker, new)
    }
}

fn new_worker(plan: &Plan) -> Worker {
    Worker {
        id: uuid::Uuid::now_v7().to_string(),
        replica_set: plan.name.clone(),
        host: host(),
        runs: plan.runs.clone(),
        lanes: plan.lanes,
        fixed: plan.fixed.clone(),
        rollout: plan.rollout,
    }
}

/// The name of this machine.
#[must_use]
pub fn host() -> String {
    let file = std::fs::read_to_string("/etc/hostname").ok();
    let name = std::env::var("HOSTNAME").ok().or(file).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}
