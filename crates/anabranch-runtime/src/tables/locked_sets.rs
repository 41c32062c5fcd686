//! A replica set, locked and read: what its next generation is made from.

use super::replica_sets::LEAVING;
use super::runners::{self, Runner};
use super::{IDLE, Tables};
use crate::report::Report;
use anabranch_core::engine_event::SlotMove;
use anabranch_core::generation::{self, Assignments, Known, Load, Next};
use anabranch_core::{Happening, Rates, SlotSet, StoreError, Weights};
use anabranch_store::database::{End, Session, Statement};
use anabranch_store::{Row, params};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How heavy slots are.
#[derive(Default)]
pub(super) struct Heaviness {
    pub(super) rates: Rates,
    /// For how long they have not moved for that reason.
    pub(super) moved_ago: Duration,
}

/// A replica set, locked.
pub(super) struct LockedSet {
    pub(super) generation: i64,
    /// The last generation in which consumers that not all members can run were thought of.
    pub(super) planned: i64,
    pub(super) of_set: Heaviness,
    pub(super) apart: BTreeMap<String, Heaviness>,
    pub(super) current: Assignments,
    pub(super) known: Vec<Known>,
    pub(super) places: HashMap<String, String>,
    /// In which generation each worker has measured its slots last.
    pub(super) weighed: HashMap<String, i64>,
}

impl LockedSet {
    pub(super) fn load(&self) -> Load {
        let apart = self.apart.iter();
        let apart = apart.map(|(consumer, of)| (consumer.clone(), Weights::from_rates(&of.rates)));
        Load { set: Weights::from_rates(&self.of_set.rates), apart: apart.collect() }
    }

    /// The next assignments, if there have to be others. A generation that was made without thought of
    /// consumers that not all members can run is followed by one that has them.
    pub(super) fn next(&self) -> Option<Next> {
        let next = generation::next(&SlotSet::all(), &self.known, &self.current, &self.load());
        let lacks = self.planned < self.generation && !self.current.apart.is_empty();
        next.or_else(|| {
            let (joined, left, died) = (Vec::new(), Vec::new(), Vec::new());
            let assignments = self.current.clone();
            lacks.then_some(Next { assignments, joined, left, died })
        })
    }

    /// The assignments after slots have moved for their load, and of which consumers they did: of those that have not for
    /// so long, and whose slots all have been measured.
    pub(super) fn levelled(
        &self,
        pause: Duration,
        has_weighed: impl Fn((&String, &SlotSet)) -> bool,
    ) -> Option<(Assignments, Vec<Option<String>>)> {
        let may_move = |consumer: Option<&str>| {
            let (heaviness, assignment) = match consumer {
                Some(consumer) => (self.apart.get(consumer), self.current.of(consumer)),
                None => (Some(&self.of_set), &self.current.set),
            };
            heaviness.is_some_and(|of| of.moved_ago >= pause) && assignment.iter().all(&has_weighed)
        };
        generation::level(&SlotSet::all(), &self.known, &self.current, &self.load(), may_move)
    }

    pub(super) fn name(&self, worker: &str) -> String {
        let place = self.places.get(worker);
        place.map_or_else(|| format!("worker {worker}"), |place| format!("worker at {place}"))
    }

    /// The next generation, for those who watch.
    pub(super) fn made(&self, next: &Next, reason: String) -> Happening {
        let Next { assignments, joined, left, died } = next.clone();
        let moves = SlotMove::between(&self.current, &assignments);
        Happening::generation_made(self.generation + 1, reason, joined, left, died, moves)
    }

    /// Why there is a new generation.
    pub(super) fn reason(&self, next: &Next, change: Option<String>) -> String {
        let of = |who: &[String], what: &str| {
            let names: Vec<String> = who.iter().map(|id| self.name(id)).collect();
            (!names.is_empty()).then(|| format!("{} {what}", names.join(", ")))
        };
        let parts =
            [of(&next.joined, "joined"), of(&next.left, "left"), of(&next.died, "died"), change];
        match parts.into_iter().flatten().collect::<Vec<_>>() {
            none if none.is_empty() => {
                "a worker of the last version planned without those who run other consumers".into()
            }
            parts => parts.join("; "),
        }
    }
}

impl Tables {
    /// Locks a replica set and reads it.
    pub(super) async fn lock_set(
        &self,
        session: &mut dyn Session,
        set: &str,
    ) -> Result<LockedSet, StoreError> {
        let (sets, workers, now) = (&self.replica_sets, &self.workers, self.now);
        let select = format!(
            "SELECT generation, planned, rates, {now} - rates_us AS moved_ago FROM {sets} \
             WHERE name = $1{}",
            self.for_update
        );
        let rows = self.query_in(session, Statement::query(select, params![set])).await?;
        let Some(row) = rows.first() else {
            return Err(self.corrupt(format!("no replica set `{set}`")));
        };
        let generation: i64 = self.column(row, "generation")?;
        let planned: i64 = self.column(row, "planned")?;
        let of_set = self.heaviness(row)?;
        let select = format!(
            "SELECT id, fixed, host, pid, report, schema_version, runs = '{LEAVING}' AS is_leaving, \
             lease_us > {now} AS is_alive FROM {workers} \
             WHERE replica_set = $1 ORDER BY started_us, id"
        );
        // Of single consumers the last that was planned counts: what has not changed does not move.
        let assigned = |table: &str, consumer: &str, generation: i64| {
            let select = format!(
                "SELECT {consumer} AS consumer, worker, slots FROM {table} \
                 WHERE replica_set = $1 AND generation = $2"
            );
            Statement::query(select, params![set, generation])
        };
        let rates = format!(
            "SELECT consumer, rates, {now} - rates_us AS moved_ago FROM {} WHERE replica_set = $1",
            self.consumer_rates
        );
        let statements = vec![
            Statement::query(select, params![set]),
            self.select_runners(Some(set)),
            assigned(&self.assignments, "''", generation),
            assigned(&self.consumer_assignments, "consumer", planned),
            Statement::query(rates, params![set]),
        ];
        let answers = session.run(statements, End::Open { idle: IDLE }).await;
        let answers = answers.map_err(|failed| self.error(failed))?;
        let [workers, runners, of_members, of_consumers, rates] = &answers[..] else {
            return Err(self.corrupt("a replica set without answers".to_owned()));
        };
        let (current, known) = (Assignments::default(), Vec::new());
        let (places, weighed, apart) = (HashMap::new(), HashMap::new(), BTreeMap::new());
        let mut locked =
            LockedSet { generation, planned, of_set, apart, current, known, places, weighed };
        let mut runners = self.runners_in(&runners.rows)?;
        for row in &workers.rows {
            self.add_known(row, &mut runners, &mut locked)?;
        }
        for row in of_members.rows.iter().chain(&of_consumers.rows) {
            let consumer: String = self.column(row, "consumer")?;
            let assignment = match consumer.as_str() {
                "" => &mut locked.current.set,
                _ => locked.current.apart.entry(consumer).or_default(),
            };
            let (worker, slots) = self.assigned_slots(row)?;
            assignment.insert(worker, slots);
        }
        for row in &rates.rows {
            locked.apart.insert(self.column(row, "consumer")?, self.heaviness(row)?);
        }
        Ok(locked)
    }

    fn add_known(
        &self,
        row: &Row,
        runners: &mut runners::Runners,
        locked: &mut LockedSet,
    ) -> Result<(), StoreError> {
        let id: String = self.column(row, "id")?;
        let (host, pid): (String, i64) = (self.column(row, "host")?, self.column(row, "pid")?);
        locked.places.insert(id.clone(), format!("{host}:{pid}"));
        let report = Report::parse(&self.column::<String>(row, "report")?);
        locked.weighed.extend(report.weighed.map(|generation| (id.clone(), generation)));
        let follows_set = !runners::says_so(self.column(row, "schema_version")?);
        let runs = match follows_set {
            true => runners::reported(&report),
            false => runners.remove(&id).unwrap_or_default(),
        };
        let is_able = |runner: Runner| (runner.consumer, runner.unable.is_none());
        locked.known.push(Known {
            id,
            fixed: self.fixed_in(row)?,
            is_alive: self.column(row, "is_alive")?,
            is_leaving: self.column(row, "is_leaving")?,
            runs: runs.into_iter().map(is_able).collect(),
            follows_set,
        });
        Ok(())
    }

    fn heaviness(&self, row: &Row) -> Result<Heaviness, StoreError> {
        let moved_ago = Duration::from_micros(self.column::<i64>(row, "moved_ago")?.max(0) as u64);
        Ok(Heaviness { rates: self.rates(row)?, moved_ago })
    }
}
