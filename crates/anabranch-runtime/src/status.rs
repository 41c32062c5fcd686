//! How the consumers stand: who owns which slots, how far they are, and why one does not advance.

use crate::backlog::Backlog;
use crate::consumer::follows_log;
use crate::offsets::behind;
use crate::reason::{Reason, reasons};
use crate::report::{LaneReport, Report};
use crate::standing;
use crate::tables::Tables;
use crate::tables::consumers::Registered;
use crate::tables::outages::StoredOutage;
use crate::tables::runners::Runner;
use anabranch_core::cursor::covers;
use anabranch_core::generation::Assignments;
use anabranch_core::{Cursor, Position, SlotSet, StoreError, time};
use anabranch_store::Log;
use anabranch_store::database::Blocked;
use anabranch_store::migration::since;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How a consumer stands.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ConsumerStatus {
    /// Its name.
    pub name: String,
    /// Projection, view, subscriber, or what else it calls itself.
    pub kind: String,
    /// How its keys become slots.
    pub strategy: String,
    /// The version of its tables.
    pub version: u32,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether it has stopped by itself, since its handler fails wherever it runs.
    pub outage: Option<Outage>,
    /// Where it is requested to begin again.
    pub replay_from: Option<Position>,
    /// What could not be done for it, such as a replay that its hook refused.
    pub problem: Option<String>,
    /// All events up to here are done, those of parked and retrying keys apart.
    pub position: Position,
    /// The end of the log.
    pub head: Position,
    /// What is not handled: [`lag_ready`](Self::lag_ready) and the [`parked_events`](Self::parked_events).
    /// 0 means that everything is handled; never for one that stands beyond the log
    /// ([`Reason::BeyondLog`]), or whose log is another one or was wound back ([`Reason::OtherLog`],
    /// [`Reason::WoundBack`]): then the number means nothing.
    pub lag: u64,
    /// What more workers could do: the positions between `position` and `head`, but for those of parked events,
    /// and the [`retrying_events`](Self::retrying_events) up to `position`. Of a pool, the tasks that could be
    /// run. Scale by this one, if [it is known](Self::is_lag_known): no worker helps with what is parked.
    pub lag_ready: u64,
    /// How many keys have failed and wait for somebody to retry or skip them.
    pub parked_keys: usize,
    /// How many events, or tasks, wait behind them.
    pub parked_events: u64,
    /// How many keys have failed and are tried again by themselves.
    pub retrying_keys: usize,
    /// How many events, or tasks, wait behind them.
    pub retrying_events: u64,
    /// How much of its `max_parallelism` is used; `None` if it has none, or nothing of it is in work.
    pub limit: Option<LimitStatus>,
    /// Set while some of its workers know a `max_parallelism` and others none: it does not hold then.
    pub unlimited: Option<Unlimited>,
    /// The living workers that run it, whether they own slots of it or not.
    pub runners: Vec<RunnerStatus>,
    /// Its cursors.
    pub cursors: Vec<CursorStatus>,
}

impl ConsumerStatus {
    /// Whether [`lag`](Self::lag) and [`lag_ready`](Self::lag_ready) mean something: not while the log is another one than
    /// the consumer has read, was wound back, or ends before it. What scales or raises an alarm by them asks first.
    #[must_use]
    pub fn is_lag_known(&self) -> bool {
        let is_known = |reason: &Reason| {
            !matches!(
                reason,
                Reason::BeyondLog { .. } | Reason::WoundBack { .. } | Reason::OtherLog { .. }
            )
        };
        self.cursors.iter().flat_map(|cursor| &cursor.reasons).all(is_known)
    }
}

impl ConsumerStatus {
    /// Whether a living worker owns slots of it.
    #[must_use]
    pub fn is_run(&self) -> bool {
        self.cursors.iter().any(|cursor| matches!(cursor.owner, Owner::Worker(_)))
    }
}

/// A consumer has stopped by itself, since its handler fails wherever it runs. It is tried with one event
/// now and then, and goes on when that works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Outage {
    /// What its handler said the last time.
    pub error: String,
    /// Since when, by the database's clock.
    pub since: Timestamp,
    /// For how long, in milliseconds.
    pub for_ms: u64,
    /// How often it was tried since.
    pub probes: u64,
    /// In how long it is tried again, in milliseconds; 0 if that is due. Not while the consumer is paused.
    pub next_ms: Option<u64>,
}

impl Outage {
    /// The outage of a consumer that has one.
    pub(crate) fn of(consumer: &Registered) -> Option<Self> {
        consumer.outage.as_ref().map(|stored| Self::new(stored, consumer.paused))
    }

    fn new(stored: &StoredOutage, is_paused: bool) -> Self {
        let ms = |time: Duration| time.as_millis() as u64;
        Self {
            error: stored.reason.clone(),
            since: time::from_micros(stored.since_us),
            for_ms: ms(stored.lasts),
            probes: stored.probes.unsigned_abs(),
            next_ms: (!is_paused).then(|| stored.next.map_or(0, ms)),
        }
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: u64| ms.div_ceil(1000);
        let (since, times) =
            (seconds(self.for_ms), if self.probes == 1 { "time" } else { "times" });
        write!(f, "stopped by itself {since} s ago: {}; ", self.error)?;
        write!(f, "tried {} {times}, ", self.probes)?;
        match self.next_ms {
            None => f.write_str("not tried while it is paused"),
            Some(0) => f.write_str("next is due"),
            Some(next) => write!(f, "next in {} s", seconds(next)),
        }
    }
}

/// How much of a pool's limit over all processes is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitStatus {
    /// How many tasks may be in work at the same time: the lowest limit of its living workers.
    pub most: usize,
    /// How many of these its workers hold. Above `most` if that was lowered while more were in work.
    pub held: usize,
    /// How many more they could use at once: that many tasks wait for their turn.
    pub waiting: usize,
}

impl fmt::Display for LimitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { most, held, waiting } = self;
        match waiting {
            0 => write!(f, "{held} of at most {most} in work"),
            waiting => write!(f, "at its limit of {most}, {waiting} more could run"),
        }
    }
}

/// Some workers of a pool know its limit over all processes, and others none: they take no permits, so the limit
/// does not hold before they are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Unlimited {
    /// How many living workers know no limit.
    pub without: usize,
    /// How many run it.
    pub of: usize,
}

impl Unlimited {
    pub(crate) fn of(consumer: &str, workers: &[WorkerStatus]) -> Option<Self> {
        let run =
            workers.iter().filter(|worker| worker.is_alive && worker.runs(consumer).is_some());
        let (of, with) = run.fold((0, 0), |(of, with), worker| {
            (of + 1, with + usize::from(worker.report.limits.contains_key(consumer)))
        });
        (with > 0 && with < of).then_some(Self { without: of - with, of })
    }
}

impl fmt::Display for Unlimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { without, of } = self;
        let know = if *without == 1 { "knows" } else { "know" };
        write!(f, "{without} of {of} workers {know} no limit")
    }
}

/// A living worker that runs a consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunnerStatus {
    /// The worker.
    pub worker: String,
    /// Its replica set.
    pub replica_set: String,
    /// Where it runs: host and process.
    pub place: String,
    /// Which version of the consumer's tables; not known of a worker of the last version.
    pub version: Option<u32>,
    /// Why it cannot run it for the time being; it can if there is none.
    pub unable: Option<String>,
    /// How much of the consumer may be in work at the same time over all processes, as it knows.
    pub limit: Option<usize>,
    /// How many slots it owns.
    pub slots: usize,
}

/// How a cursor stands.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CursorStatus {
    /// Which slots, in words.
    pub slots: String,
    /// How many they are.
    pub slot_count: usize,
    /// All their events up to here are done.
    pub position: Position,
    /// What is not handled of its slots, counted as for the consumer.
    pub lag: u64,
    /// What workers could do of it.
    pub lag_ready: u64,
    /// How often it has changed hands.
    pub epoch: i64,
    /// Who moves it on.
    pub owner: Owner,
    /// The number of the owner's lane that holds it, if that lane has something to say of itself: a worker does not
    /// report lanes that are as they should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<usize>,
    /// Why it does not advance, or not as it should; empty if all is well.
    pub reasons: Vec<Reason>,
    #[serde(skip)]
    pub(crate) set: SlotSet,
}

impl CursorStatus {
    /// Which slots.
    #[must_use]
    pub fn slot_set(&self) -> &SlotSet {
        &self.set
    }
}

/// Who owns a cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// Nobody; the reasons of the cursor say why.
    Unassigned,
    /// A worker.
    Worker(Box<WorkerStatus>),
    /// A worker whose lease is over: the next one that wants these slots takes them.
    Dead(String),
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// Its id.
    pub id: String,
    /// Its replica set.
    pub replica_set: String,
    /// Where it runs.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// What it wants: everything, or a partition.
    pub runs: String,
    /// How many lanes it has.
    pub lanes: usize,
    /// Since when, by the database's clock.
    pub started_at: Timestamp,
    /// Whether its lease is good.
    pub is_alive: bool,
    /// The consumers that it runs, and what it cannot run for the time being.
    pub consumers: Vec<Runner>,
    /// What it says of itself.
    pub report: Report,
    /// Until when its lease is good, by the database's clock. It moves on with each heartbeat, and is not written with the
    /// rest: what is compared would differ each time.
    #[serde(skip)]
    pub lease_until: Timestamp,
    /// The newest schema that its program knows; not known of a very old one.
    #[serde(skip)]
    pub schema: Option<u32>,
    /// The slots that it asks for; a fair share if there are none.
    #[serde(skip)]
    pub(crate) fixed: Option<SlotSet>,
}

/// What runs, in one look: who is alive, who should own what, who waits for a lock.
pub(crate) struct Situation {
    pub(crate) workers: Vec<WorkerStatus>,
    /// The current generation of each set.
    pub(crate) current: BTreeMap<String, Assignments>,
    pub(crate) blocked: Vec<Blocked>,
}

impl WorkerStatus {
    /// How it runs a consumer, if it does.
    #[must_use]
    pub fn runs(&self, consumer: &str) -> Option<&Runner> {
        self.consumers.iter().find(|runner| runner.consumer == consumer)
    }

    /// Where it runs: host and process.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.pid)
    }
}

impl Situation {
    pub(crate) async fn of(tables: &Tables) -> Result<Self, StoreError> {
        Ok(Self {
            current: tables.current().await?,
            workers: tables.workers().await?,
            blocked: tables.database.blocked().await?,
        })
    }

    /// Boxed, so that it is compiled here.
    pub(crate) fn status<'a>(
        &'a self,
        log: &'a Log,
        tables: &'a Tables,
        registered: Registered,
    ) -> BoxFuture<'a, Result<ConsumerStatus, StoreError>> {
        Box::pin(self.status_here(log, tables, registered))
    }

    async fn status_here(
        &self,
        log: &Log,
        tables: &Tables,
        registered: Registered,
    ) -> Result<ConsumerStatus, StoreError> {
        // Before the end of the log: they may move on meanwhile, and a lag is never negative.
        let cursors = tables.cursors(&registered.name).await?;
        let head = log.head().await?;
        // After the cursors, too: none that is as it should be lies beyond it.
        let drawn = log.store().drawn().await?;
        let of_log = standing::reason(log, tables, &registered).await?;
        // A consumer that finds its work elsewhere is never behind the log.
        let is_behind = follows_log(&registered.kind);
        let at = |cursor: &Cursor| if is_behind { cursor.position } else { head };
        let position = cursors.iter().map(at).min().unwrap_or_default();
        // Slots without a cursor are handled by nobody: nothing of theirs is known to be done.
        let lost = covers(&cursors, &registered.slots).err();
        let lowest = if lost.is_some() { Position::START } else { position };
        let backlog = Backlog::of(tables, &registered.name, &registered.kind, lowest).await?;
        // Beyond the log it is as far from its end, the other way: never 0.
        let behind = |position: Position| match position > drawn {
            _ if of_log.is_some() => position.get().abs_diff(head.get()).max(1),
            true => position.get() - head.get(),
            false => behind(position, head),
        };
        let cursor = |cursor: &Cursor| {
            let behind = behind(at(cursor));
            let lag = backlog.lag(&cursor.slots, at(cursor), behind);
            CursorStatus {
                slots: cursor.slots.to_string(),
                slot_count: cursor.slots.len(),
                position: at(cursor),
                lag: lag.all,
                lag_ready: lag.ready,
                epoch: cursor.epoch,
                lane: self.lane(&registered.name, cursor),
                owner: owner(cursor, &self.workers),
                reasons: reasons(
                    self,
                    &registered,
                    cursor,
                    &backlog,
                    (behind, drawn),
                    of_log.as_ref(),
                ),
                set: cursor.slots.clone(),
            }
        };
        let all = SlotSet::all();
        let farthest = match &lost {
            Some(_) => head.get(),
            None => cursors.iter().map(|cursor| behind(at(cursor))).max().unwrap_or_default(),
        };
        let name = &registered.name;
        let lost = lost.map(|error| {
            format!(
                "{error}, so events of some slots are handled by nobody; `anabranch replay {name} \
                 --from-start` makes its cursors anew"
            )
        });
        let (lag, aside) = (backlog.lag(&all, lowest, farthest), backlog.aside(&all));
        let limit = match tables.database.schema() >= since::PERMITS {
            true => tables.limit_status(&registered.name).await?,
            false => None,
        };
        Ok(ConsumerStatus {
            outage: Outage::of(&registered),
            lag: lag.all,
            lag_ready: lag.ready,
            position,
            head,
            parked_keys: aside.parked_keys,
            parked_events: aside.parked_events,
            retrying_keys: aside.retrying_keys,
            retrying_events: aside.retrying_events,
            limit,
            unlimited: Unlimited::of(&registered.name, &self.workers),
            runners: self.runners(&registered.name, &cursors),
            cursors: cursors.iter().map(cursor).collect(),
            kind: registered.kind,
            strategy: registered.strategy,
            version: registered.version,
            paused: registered.paused,
            replay_from: registered.reset_to,
            problem: lost.or(registered.problem),
            name: registered.name,
        })
    }

    /// The living workers that run a consumer.
    fn runners(&self, consumer: &str, cursors: &[Cursor]) -> Vec<RunnerStatus> {
        let alive = self.workers.iter().filter(|worker| worker.is_alive);
        let runner = |worker: &WorkerStatus| {
            let runner = worker.runs(consumer)?;
            let own = cursors.iter().filter(|cursor| cursor.owner.as_ref() == Some(&worker.id));
            Some(RunnerStatus {
                worker: worker.id.clone(),
                replica_set: worker.replica_set.clone(),
                place: worker.place(),
                version: runner.version,
                unable: runner.unable.clone(),
                limit: worker.report.limits.get(consumer).copied(),
                slots: own.map(|cursor| cursor.slots.len()).sum(),
            })
        };
        alive.filter_map(runner).collect()
    }

    /// The lane that holds a cursor, as far as its owner has said.
    fn lane(&self, consumer: &str, cursor: &Cursor) -> Option<usize> {
        let lanes =
            &self.worker(cursor.owner.as_deref()?).filter(|worker| worker.is_alive)?.report.lanes;
        let holds =
            |lane: &&LaneReport| lane.consumer == consumer && lane.cursors.contains(&cursor.id);
        lanes.iter().find(holds).map(|lane| lane.lane)
    }

    pub(crate) fn worker(&self, id: &str) -> Option<&WorkerStatus> {
        self.workers.iter().find(|worker| worker.id == id)
    }
}

/// Who owns a cursor.
pub(crate) fn owner(cursor: &Cursor, workers: &[WorkerStatus]) -> Owner {
    match &cursor.owner {
        None => Owner::Unassigned,
        Some(id) => match workers.iter().find(|worker| worker.id == *id) {
            Some(worker) if worker.is_alive => Owner::Worker(Box::new(worker.clone())),
            _ => Owner::Dead(id.clone()),
        },
    }
}
