//! A worker: one process that runs a replica set. It keeps its lease, claims what it wants, and
//! starts and stops the feeds and lanes.
//!
//! | module | subject |
//! |---|---|
//! | `membership` | the worker as a member of its set: joining, following generations, leaving |
//! | `ability` | what it runs, and is able to run |
//! | `weighing` | how heavy its slots are |
//! | `claims` | what is wanted and free, handed to the lanes |
//! | `beyond` | cursors beyond the end of the log |
//! | `catch_up` | whether the end is reached, and what is left then |
//! | `last_word` | how it stands when its lanes have stopped |
//! | `running` | one consumer as it runs here: its feed and its lanes |
//! | `heartbeat` | the signs of life, on a task of their own |
//! | `peers` | watching another worker, to notice its death |
//! | `sessions` | what a worker must have before it claims anything |

mod ability;
mod beyond;
mod catch_up;
mod claims;
mod heartbeat;
mod last_word;
mod membership;
mod peers;
mod running;
mod sessions;
mod weighing;

use crate::consumer::Consumer;
use crate::lane::{Order, Report};
use crate::replica_set::{Observer, Progress};
use crate::report::ShortageReport;
use crate::run_error::RunError;
use crate::tables::Tables;
use crate::tables::workers::{Beat, Worker};
use crate::tuning::Tuning;
use anabranch_core::generation::Rollout;
use anabranch_core::{Position, SlotSet, StoreError, Weights};
use anabranch_store::Log;
use anabranch_store::database::Topic;
use heartbeat::{Heartbeat, Rhythm};
use membership::Membership;
use peers::Peers;
use running::{Running, Start};
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
    pub(crate) observers: Vec<Observer>,
    /// End when everything that is in the log now is handled.
    pub(crate) catch_up: bool,
}

/// Runs a plan until `stop` resolves, something fails, or the end is reached.
pub(crate) async fn run(
    log: &Log,
    plan: Plan,
    stop: impl Future<Output = ()> + Send,
) -> Result<Progress, RunError> {
    // Connections of its own: another replica set in this process cannot use them up.
    let tables = Tables::of(log.store().database().apart()?);
    tables.database.require_newest_schema()?;
    tokio::pin!(stop);
    if !sessions::secure(&tables, &plan.name, stop.as_mut()).await? {
        return sessions::stopped(&plan);
    }
    for consumer in &plan.consumers {
        sessions::register(log, &tables, consumer).await?;
    }
    let target = match plan.catch_up {
        true => Some(log.head().await?),
        false => None,
    };
    let mut keeper = Keeper::start(log, tables, plan).await?;
    let ended = keeper.keep(stop, target).await;
    let before = keeper.before_end();
    keeper.stop().await;
    let progress = keeper.last_word(before).await;
    let ended = ended?;
    // Another program may have begun together with this one, and ended before it was looked at.
    keeper.check_keys().await?;
    match (ended, target) {
        (_, None) => Ok(progress),
        (ended, Some(target)) => keeper.complete(target, ended == Ended::Told, progress).await,
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
    lanes: JoinSet<()>,
    feeds: JoinSet<Result<(), StoreError>>,
    reports: mpsc::UnboundedReceiver<(usize, Report)>,
    heartbeat: Option<Heartbeat>,
    signals: watch::Receiver<u64>,
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
    async fn start(log: &Log, tables: Tables, plan: Plan) -> Result<Self, RunError> {
        let (reporter, reports) = mpsc::unbounded_channel();
        let worker = new_worker(&plan);
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
            lanes: JoinSet::new(),
            feeds: JoinSet::new(),
            reports,
            heartbeat: None,
            head: Position::START,
            head_seen: None,
            log_checked: Instant::now(),
            deaf_since: None,
            moved: Arc::default(),
            sessions: Sessions::default(),
        };
        for (number, consumer) in keeper.plan.consumers.iter().enumerate() {
            let (log, tables, plan) = (&keeper.log, &keeper.tables, &keeper.plan);
            let worker = &keeper.worker.id;
            let start = Start { number, log, tables, plan, worker, moved: &keeper.moved };
            let tasks = (&mut keeper.lanes, &mut keeper.feeds);
            keeper.running.push(start.consumer(consumer, tasks, &reporter));
        }
        keeper.join().await?;
        keeper.begin().await?;
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
        match self.tables.beat(&self.worker, lease, &names, &report).await? {
            Some(beat) => self.look_after(&beat).await?,
            None => self.declared_dead().await?,
        }
        match self.running.iter().find(|running| running.paused) {
            Some(running) if self.plan.catch_up => Err(paused(&running.consumer.name)),
            _ => Ok(()),
        }
    }

    /// Keeps things as they should be until the end.
    async fn keep(
        &mut self,
        stop: impl Future<Output = ()> + Send,
        target: Option<Position>,
    ) -> Result<Ended, RunError> {
        tokio::pin!(stop);
        let mut observe = tokio::time::interval(OBSERVE);
        let moved = Arc::clone(&self.moved);
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
                report = self.reports.recv() => match report {
                    Some((_, Report::Failed(error))) => return Err(error),
                    Some((number, Report::Lost)) => self.running[number].claim = true,
                    None => return Ok(Ended::Told),
                },
                Some(ended) = self.feeds.join_next() => match ended {
                    Ok(Err(error)) => return Err(error.into()),
                    Err(error) => return Err(self.panicked(&error)),
                    // It ends with its lanes.
                    Ok(Ok(())) => {}
                },
                Some(ended) = self.lanes.join_next() => {
                    if let Err(error) = ended {
                        return Err(self.panicked(&error));
                    }
                    // It has said why; the report comes next.
                }
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
                    tracing::debug!(worker = gone, "the process of a worker is gone");
                    self.membership.is_gone(gone);
                    self.peers.alarm();
                    tokio::select! {
                        () = &mut stop => return Ok(Ended::Told),
                        done = self.tick() => match done {
                            // The next heartbeat tries again.
                            Err(RunError::Store(error)) if error.is_transient() => {
                                tracing::warn!(%error, "cannot take over yet");
                            }
                            done => done?,
                        },
                    }
                }
                () = moved.notified(), if target.is_some() => {
                    // Cheap as long as it is not the end.
                    if let Some(target) = target
                        && self.seems_at_end(target)
                        && self.is_at_end(target).await?
                    {
                        return Ok(Ended::AtTarget);
                    }
                }
                _ = observe.tick() => {
                    self.observe().await;
                    if let Some(target) = target
                        && self.is_at_end(target).await?
                    {
                        return Ok(Ended::AtTarget);
                    }
                }
            }
        }
    }

    fn panicked(&self, error: &tokio::task::JoinError) -> RunError {
        let name = self.plan.name.clone();
        let problem = format!("a part of it panicked ({error}); correct its code and start again");
        RunError::Set { name, problem }
    }

    /// What a heartbeat has found out.
    async fn look_after(&mut self, beat: &Beat) -> Result<(), RunError> {
        for running in &self.running {
            let beat = beat.consumers.iter().find(|beat| beat.consumer == running.consumer.name);
            let now = beat.map(|beat| &beat.identity);
            running.consumer.still_is(self.log.hash_rule(), now)?;
        }
        self.check_log().await?;
        self.look_after_set(beat).await?;
        self.look_after_sessions().await?;
        let report = self.report().text();
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.say(report);
        }
        for beat in &beat.consumers {
            let found = self.running.iter().position(|run| run.consumer.name == beat.consumer);
            let Some(number) = found else { continue };
            let running = &mut self.running[number];
            if running.paused != beat.paused {
                running.paused = beat.paused;
                tracing::info!(consumer = beat.consumer, paused = beat.paused, "pause");
                if self.plan.catch_up && beat.paused {
                    return Err(paused(&beat.consumer));
                }
                running.tell_all(|_| Order::Pause(beat.paused));
            }
            if running.generation.is_some_and(|generation| generation != beat.generation) {
                running.claim = true;
            }
            // What others have freed, or left behind; and whatever else is not held, whyever.
            running.claim |= running.lacks_slots() || !running.holds(beat.owned);
            if beat.wants_reset {
                self.reset(number).await?;
            }
            if beat.asked {
                self.pass_on_asked(number).await?;
            }
        }
        Ok(())
    }

    async fn reset(&mut self, number: usize) -> Result<(), RunError> {
        let running = &mut self.running[number];
        let consumer = Arc::clone(&running.consumer);
        match consumer.reset(&self.tables).await {
            Ok(done) => {
                if done {
                    tracing::info!(
                        consumer = consumer.name,
                        "replays from where it was put back to"
                    );
                }
                running.claim = true;
            }
            Err(RunError::Store(error)) if error.is_transient() => {
                tracing::warn!(consumer = consumer.name, %error, "cannot replay yet");
            }
            Err(error) => {
                // Asked again it would fail again: it is withdrawn, and `status` says why.
                tracing::error!(consumer = consumer.name, %error, "cannot replay");
                running.claim = true;
                let withdraw = self.tables.withdraw_reset(&consumer.name, &error.to_string());
                if let Err(away) = self.tables.commit(withdraw).await {
                    tracing::warn!(consumer = consumer.name, error = %away, "cannot withdraw a replay");
                }
                if self.plan.catch_up {
                    // What somebody asked for is not done.
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn pass_on_asked(&mut self, number: usize) -> Result<(), RunError> {
        let running = &self.running[number];
        let parked = match self.tables.parked(&running.consumer.name).await {
            Ok(parked) => parked,
            Err(error) if error.is_transient() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for key in parked {
            let Some(asked) = key.asked else { continue };
            if let Some(lane) = running.lane_of(key.slot) {
                let _ = running.lanes[lane].send(Order::Asked { key: key.key, asked });
            }
        }
        Ok(())
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
        crate::report::Report {
            consumers: self.names(),
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
        let mut lanes = std::mem::take(&mut self.lanes);
        let all = async { while lanes.join_next().await.is_some() {} };
        let finish = tokio::time::timeout(grace, all);
        let announce = tokio::time::timeout(limit, self.announce_leave());
        let (finished, announced) = tokio::join!(finish, announce);
        if let Ok(Err(error)) = announced {
            tracing::warn!(%error, "cannot say that it leaves");
        }
        if finished.is_err() {
            tracing::warn!(?grace, "handlers did not finish in time; what they did is rolled back");
            lanes.shutdown().await;
        }
        self.feeds.shutdown().await;
        if tokio::time::timeout(limit, self.leave()).await.is_err() {
            tracing::warn!(?limit, "cannot release its cursors in time; the lease will");
        }
        self.heartbeat = None;
        self.membership.life = None;
    }
}

/// A catch-up would wait for ever.
fn paused(consumer: &str) -> RunError {
    let problem = "it is paused, so it would never catch up; resume it first".to_owned();
    RunError::refused(consumer, problem)
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
