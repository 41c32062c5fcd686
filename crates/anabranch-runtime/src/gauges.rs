//! What metrics show of the consumers at one time: how far behind, what is parked, who owns what, how many tasks.
//!
//! One statement reads it, whatever there is, and no table is scanned: a [status](crate::ConsumerStatus) counts
//! exactly and says why, this is read every few seconds by many.

use crate::consumers::Consumers;
use crate::offsets::behind;
use crate::report::Doing;
use crate::tables::gauges::{LogEnd, Watched, WatchedConsumer, WatchedCursor, WatchedWorker};
use anabranch_core::{Position, Slot, StoreError, TaskState};
use serde::Serialize;
use std::collections::BTreeMap;

/// Of which slots: of all, or of those that some workers own.
#[derive(Clone, Copy, Debug)]
pub enum GaugesOf<'a> {
    /// Everything, slots of nobody and of dead workers included.
    All,
    /// What these workers own, by their ids.
    Workers(&'a [String]),
}

/// What metrics show, at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Gauges {
    /// The consumers, by name.
    pub consumers: Vec<ConsumerGauges>,
    /// The replica sets, by name.
    pub sets: Vec<SetGauges>,
    /// How many tasks there are, by pool and state. None where the database is older than these counters.
    pub tasks: Vec<TaskGauge>,
}

/// What metrics show of a consumer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConsumerGauges {
    /// Its name.
    pub consumer: String,
    /// The replica set that runs it, or ran it last; `None` if no worker of it is known any more.
    pub set: Option<String>,
    /// At most so many events are not handled; `None` if that is not known.
    pub lag_events: Option<u64>,
    /// The same without what is parked: what workers could do.
    pub lag_ready_events: Option<u64>,
    /// How old the oldest event is that no cursor has passed, in seconds; 0 if there is none.
    pub lag_seconds: Option<f64>,
    /// How many keys wait for somebody.
    pub parked_keys: u64,
    /// How many events wait behind them.
    pub parked_events: u64,
    /// How many slots living workers own.
    pub slots_owned: u64,
    /// How many slots do not advance, by reason: the names of [`Reason`](crate::Reason). A slot counts once.
    pub slots_idle: BTreeMap<&'static str, u64>,
}

/// What metrics show of a replica set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SetGauges {
    /// Its name.
    pub set: String,
    /// How many workers are alive.
    pub workers: u64,
    /// The number of the current assignment.
    pub generation: i64,
}

/// How many tasks of a pool are in a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TaskGauge {
    /// The pool.
    pub pool: String,
    /// The state, by name.
    pub state: String,
    /// How many.
    pub tasks: u64,
}

impl Consumers {
    /// What metrics show, by one statement; a second and third ask for the end of the log and which it is, where that is
    /// on another server.
    ///
    /// Lags are bounds: at most so much is not handled. Of workers they are counted over the cursors that these own; of
    /// a pool they are always the whole pool's. `lag_seconds` is not known where the log is on another server, nor
    /// where the schema is older than 13; a pool's lags and the counts of tasks are not known there either.
    /// Behind parked keys at most 1000 events of each are counted, and of 10000 keys.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_core::StoreError> {
    /// use anabranch_runtime::{Consumers, GaugesOf};
    /// for consumer in Consumers::new(&log).gauges(GaugesOf::All).await?.consumers {
    ///     println!("{}: {:?} events to do", consumer.consumer, consumer.lag_ready_events);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn gauges(&self, of: GaugesOf<'_>) -> Result<Gauges, StoreError> {
        let is_apart = self.log.is_apart();
        let mut watched = self.tables.watched(!is_apart).await?;
        if is_apart {
            // After the cursors: a lag is never negative.
            let (head, identity) = (self.log.store().head().await?, self.log.identity().await?);
            // What was drawn beyond it is not asked for: nothing of it is visible.
            watched.end =
                LogEnd { head: head.visible, drawn: Position::END, identity: Some(identity) };
        }
        Ok(watched.gauges(of, is_apart))
    }
}

impl Watched {
    fn gauges(&self, of: GaugesOf<'_>, is_apart: bool) -> Gauges {
        let is_in = |owner: Option<&str>| match of {
            GaugesOf::All => true,
            GaugesOf::Workers(ids) => owner.is_some_and(|owner| ids.iter().any(|id| id == owner)),
        };
        let is_all = matches!(of, GaugesOf::All);
        let mut consumers = Vec::new();
        for consumer in &self.consumers {
            let of_consumer = self.cursors.iter().filter(|cursor| cursor.consumer == consumer.name);
            let cursors: Vec<&WatchedCursor> =
                of_consumer.filter(|cursor| is_in(cursor.owner.as_deref())).collect();
            if is_all || !cursors.is_empty() {
                consumers.push(self.consumer(consumer, &cursors, is_all, is_apart));
            }
        }
        let has_pool = |pool: &str| is_all || consumers.iter().any(|one| one.consumer == pool);
        let state = |code: i64| TaskState::ALL.into_iter().find(|state| state.code() == code);
        let tasks = self.tasks.iter().filter(|(pool, ..)| has_pool(pool));
        let tasks = tasks.filter_map(|(pool, code, tasks)| {
            let state = state(*code)?.name().to_owned();
            Some(TaskGauge { pool: pool.clone(), state, tasks: *tasks })
        });
        let tasks = tasks.collect();
        let is_member = |worker: &WatchedWorker, set: &str| worker.set == set;
        let is_seen = |set: &str| {
            let mut members = self.workers.iter().filter(|(_, worker)| is_member(worker, set));
            is_all || members.any(|(id, _)| is_in(Some(id)))
        };
        let alive = |set: &str| {
            let members = self.workers.values().filter(|worker| is_member(worker, set));
            members.filter(|worker| worker.is_alive).count() as u64
        };
        let sets = self.sets.iter().filter(|(set, _)| is_seen(set));
        let sets = sets.map(|(set, generation)| SetGauges {
            set: set.clone(),
            workers: alive(set),
            generation: *generation,
        });
        Gauges { sets: sets.collect(), consumers, tasks }
    }

    fn consumer(
        &self,
        consumer: &WatchedConsumer,
        cursors: &[&WatchedCursor],
        is_all: bool,
        is_apart: bool,
    ) -> ConsumerGauges {
        let (name, set) = (consumer.name.clone(), self.set_of(consumer, cursors));
        let mut gauges = ConsumerGauges { consumer: name, set, ..Default::default() };
        let has = |slot| is_all || cursors.iter().any(|cursor| cursor.slots.contains(slot));
        let keys =
            || self.aside.iter().filter(|key| key.consumer == consumer.name && has(key.slot));
        for key in keys().filter(|key| key.is_parked) {
            gauges.parked_keys += 1;
            gauges.parked_events += key.events;
        }
        let of_log = self.of_log(consumer, cursors);
        let [all, ready, age_us] = consumer.lag;
        let plain = |number: Option<i64>| number.map(|number| number.max(0).unsigned_abs());
        if !consumer.follows_log || (is_all && all.is_some()) {
            gauges.lag_events = plain(all);
            gauges.lag_ready_events = plain(ready);
            gauges.lag_seconds = seconds(age_us);
        } else if of_log.is_none() {
            // Nothing of a consumer without cursors is known to be done.
            let lowest = cursors.iter().map(|cursor| cursor.position).min().unwrap_or_default();
            let events = behind(lowest, self.end.head) + keys().map(|key| key.events).sum::<u64>();
            gauges.lag_events = Some(events);
            gauges.lag_ready_events = Some(events.saturating_sub(gauges.parked_events));
            let oldest = cursors.iter().filter_map(|cursor| cursor.age_us).max();
            gauges.lag_seconds = if is_apart { None } else { seconds(oldest) };
        }
        let mut parked: Vec<Slot> =
            keys().filter(|key| key.is_parked).map(|key| key.slot).collect();
        parked.sort_unstable();
        parked.dedup();
        for cursor in cursors {
            let slots = cursor.slots.len() as u64;
            if self.owner(cursor).is_some_and(|worker| worker.is_alive) {
                gauges.slots_owned += slots;
            }
            let (reason, slots) = match self.idle(consumer, cursor, of_log) {
                Some(reason) => (reason, slots),
                None => {
                    let has = parked.iter().filter(|slot| cursor.slots.contains(**slot));
                    ("parked_keys", has.count() as u64)
                }
            };
            if slots > 0 {
                *gauges.slots_idle.entry(reason).or_default() += slots;
            }
        }
        gauges
    }

    /// The set of its owners; else of the worker that began last of those that say that they run it.
    fn set_of(&self, consumer: &WatchedConsumer, cursors: &[&WatchedCursor]) -> Option<String> {
        let owners = cursors.iter().filter_map(|cursor| cursor.owner.as_ref());
        let runs = |worker: &WatchedWorker| worker.report.consumers.contains(&consumer.name);
        let others = self.workers.iter().filter(|(_, worker)| runs(worker)).map(|(id, _)| id);
        // The newest id is the greatest.
        let newest = |ids: &mut dyn Iterator<Item = &String>| {
            let known = ids.filter_map(|id| Some((id, self.workers.get(id)?)));
            known.max_by_key(|(id, worker)| (worker.is_alive, *id)).map(|(_, w)| w.set.clone())
        };
        newest(&mut owners.into_iter()).or_else(|| newest(&mut others.into_iter()))
    }

    fn owner(&self, cursor: &WatchedCursor) -> Option<&WatchedWorker> {
        self.workers.get(cursor.owner.as_deref()?)
    }

    /// Why the log does not fit to a consumer, if it does not: then nobody knows how far behind it is.
    fn of_log(
        &self,
        consumer: &WatchedConsumer,
        cursors: &[&WatchedCursor],
    ) -> Option<&'static str> {
        let replay_on = consumer.reset_log.filter(|_| consumer.is_replayed);
        let mut belongs = [consumer.log, replay_on].into_iter().flatten();
        let is_other = self.end.identity.is_some_and(|is| belongs.any(|log| log != is));
        if !consumer.follows_log {
            None
        } else if is_other {
            Some("other_log")
        } else if consumer.is_wound_back {
            Some("wound_back")
        } else if cursors.iter().any(|cursor| cursor.position > self.end.drawn) {
            Some("beyond_log")
        } else {
            None
        }
    }

    /// The first reason why a cursor does not advance, by the names of [`Reason`](crate::Reason).
    fn idle(
        &self,
        consumer: &WatchedConsumer,
        cursor: &WatchedCursor,
        of_log: Option<&'static str>,
    ) -> Option<&'static str> {
        if of_log.is_some() {
            return of_log;
        }
        if consumer.is_paused {
            return Some("paused");
        }
        if consumer.is_out {
            return Some("outage");
        }
        if consumer.is_replayed {
            return Some("replay_asked");
        }
        if cursor.owner.is_none() {
            return Some("unassigned");
        }
        let Some(worker) = self.owner(cursor).filter(|worker| worker.is_alive) else {
            return Some("owner_dead");
        };
        if cursor.is_unable {
            return Some("unable");
        }
        let mut lanes = worker.report.lanes.iter();
        let lane = lanes.find(|l| l.consumer == consumer.name && l.cursors.contains(&cursor.id))?;
        match lane.doing {
            Doing::Idle => None,
            Doing::Handling => Some("busy"),
            // What failed may be parked by now: then there is nothing that does not advance.
            Doing::Failing { .. } if behind(cursor.position, self.end.head) == 0 => None,
            Doing::Failing { .. } => Some("failing"),
            Doing::Waiting { .. } => Some("waiting"),
        }
    }
}

fn seconds(micros: Option<i64>) -> Option<f64> {
    micros.map(|micros| micros.max(0) as f64 / 1e6)
}
