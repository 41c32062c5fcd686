//! Making generations and assignments: who should own what. One short transaction under the set's lock.

use super::runners::{self, Runner};
use super::{IDLE, Tables};
use crate::report::Report;
use anabranch_core::generation::{self, Assignments, Known, Load, Next, Rollout};
use anabranch_core::plan::Assignment;
use anabranch_core::{Rates, SlotSet, StoreError, Weights};
use anabranch_store::database::{End, Expect, InsertRows, Session, Statement, Topic, Work};
use anabranch_store::value::Value;
use anabranch_store::{Row, params};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How many generations are remembered.
const HISTORY: i64 = 200;
/// What a worker that is about to leave runs.
pub(crate) const LEAVING: &str = "leaving";

/// What a worker should own.
#[derive(Debug)]
pub(crate) struct Assigned {
    pub(crate) generation: i64,
    /// Whether consumers that not all members can run were thought of. A worker of the last version does
    /// not, and the next one makes another generation.
    pub(crate) is_complete: bool,
    /// Of the consumers that all members run.
    pub(crate) of_set: Share,
    /// Of each other one.
    pub(crate) apart: BTreeMap<String, Share>,
    /// All members, in the order of their ids.
    pub(crate) members: Vec<String>,
    /// Workers that are about to leave.
    pub(crate) leaving: Vec<String>,
}

/// What a worker should own of a consumer, or of several alike.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) slots: SlotSet,
    pub(crate) weights: Weights,
}

impl Default for Share {
    fn default() -> Self {
        Self { slots: SlotSet::empty(), weights: Weights::even() }
    }
}

impl Assigned {
    pub(crate) fn none() -> Self {
        let (members, leaving) = (Vec::new(), Vec::new());
        let (of_set, apart) = (Share::default(), BTreeMap::new());
        Self { generation: 0, is_complete: true, of_set, apart, members, leaving }
    }

    /// What it should own of a consumer.
    pub(crate) fn of(&self, consumer: &str) -> &Share {
        self.apart.get(consumer).unwrap_or(&self.of_set)
    }
}

/// What a worker has measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weighed<'a> {
    pub(crate) worker: &'a str,
    pub(crate) generation: i64,
    pub(crate) measured: &'a [Measured],
    /// How long slots stay where they are.
    pub(crate) pause: Duration,
}

/// What was measured of some slots.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Of a consumer that not all members can run, or of all others together.
    pub(crate) consumer: Option<String>,
    pub(crate) rates: Rates,
    pub(crate) slots: SlotSet,
}

/// How heavy slots are.
#[derive(Default)]
struct Heaviness {
    rates: Rates,
    /// For how long they have not moved for that reason.
    moved_ago: Duration,
}

/// A replica set, locked.
struct LockedSet {
    generation: i64,
    /// The last generation in which consumers that not all members can run were thought of.
    planned: i64,
    of_set: Heaviness,
    apart: BTreeMap<String, Heaviness>,
    current: Assignments,
    known: Vec<Known>,
    places: HashMap<String, String>,
    /// In which generation each worker has measured its slots last.
    weighed: HashMap<String, i64>,
}

impl LockedSet {
    fn load(&self) -> Load {
        let apart = self.apart.iter();
        let apart = apart.map(|(consumer, of)| (consumer.clone(), Weights::of(&of.rates)));
        Load { set: Weights::of(&self.of_set.rates), apart: apart.collect() }
    }

    fn next(&self) -> Option<Next> {
        generation::next(&SlotSet::all(), &self.known, &self.current, &self.load())
    }

    fn name(&self, worker: &str) -> String {
        let place = self.places.get(worker);
        place.map_or_else(|| format!("worker {worker}"), |place| format!("worker at {place}"))
    }

    /// Why there is a new generation.
    fn reason(&self, next: &Next, change: Option<String>) -> String {
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
    /// Makes the next assignment if the members are no longer those of the current one. `gone` are
    /// workers whose process is gone, though their lease is not over.
    pub(crate) async fn tick(
        &self,
        set: &str,
        gone: &[String],
    ) -> Result<Option<Next>, StoreError> {
        let mut session = self.database.control();
        let mut locked = self.lock_set(session.as_mut(), set).await?;
        for worker in locked.known.iter_mut().filter(|worker| gone.contains(&worker.id)) {
            worker.is_alive = false;
        }
        // From here on nothing that they hold is theirs; whoever waits for it is told.
        let mut statements: Vec<_> = gone.iter().map(|worker| self.end_lease(worker)).collect();
        let next = locked.next();
        match &next {
            Some(next) => {
                let reason = locked.reason(next, None);
                statements.extend(self.new_generation(set, &locked, &next.assignments, &reason));
            }
            None if !gone.is_empty() => statements.push(Statement::signal(Topic::Workers)),
            None => {}
        }
        if next.is_none() && locked.planned < locked.generation {
            let update = format!("UPDATE {} SET planned = $2 WHERE name = $1", self.replica_sets);
            statements.push(Statement::new(update, params![set, locked.generation]));
        }
        session.run(statements, End::Commit).await.map_err(|failed| self.error(failed))?;
        Ok(next)
    }

    /// A worker cannot run a consumer for the time being, or can again. Those who can are to own its slots
    /// from then on: both are one transaction, so nobody has to compare.
    pub(crate) async fn set_able(
        &self,
        set: &str,
        worker: &str,
        consumer: &str,
        unable: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut session = self.database.control();
        let mut locked = self.lock_set(session.as_mut(), set).await?;
        for known in locked.known.iter_mut().filter(|known| known.id == worker) {
            known.runs.insert(consumer.to_owned(), unable.is_none());
        }
        let mut statements = vec![self.change_runner(worker, consumer, unable)];
        if let Some(next) = locked.next() {
            let name = locked.name(worker);
            let change = match unable {
                Some(why) => format!("{name} cannot run `{consumer}` for now: {why}"),
                None => format!("{name} can run `{consumer}` again"),
            };
            let reason = locked.reason(&next, Some(change));
            statements.extend(self.new_generation(set, &locked, &next.assignments, &reason));
        }
        session.run(statements, End::Commit).await.map(drop).map_err(|failed| self.error(failed))
    }

    /// Adds what a worker has measured of its slots. Moves slots if the load has become lopsided, all who
    /// run them have measured in this generation, and nothing was moved for that reason for a while.
    /// Says whether it did.
    pub(crate) async fn weigh(&self, set: &str, by: Weighed<'_>) -> Result<bool, StoreError> {
        let mut session = self.database.control();
        let mut locked = self.lock_set(session.as_mut(), set).await?;
        let mut statements = Vec::new();
        for measured in by.measured {
            statements.extend(self.merge(set, &mut locked, measured));
        }
        // What others have not measured yet would look weightless. Who has nothing measures nothing.
        let has_weighed = |(worker, slots): (&String, &SlotSet)| {
            slots.is_empty()
                || worker == by.worker
                || locked.weighed.get(worker) == Some(&locked.generation)
        };
        let may_move = |consumer: Option<&str>| {
            let (heaviness, assignment) = match consumer {
                Some(consumer) => (locked.apart.get(consumer), locked.current.of(consumer)),
                None => (Some(&locked.of_set), &locked.current.set),
            };
            heaviness.is_some_and(|of| of.moved_ago >= by.pause)
                && assignment.iter().all(has_weighed)
        };
        let levelled = match by.generation == locked.generation && locked.next().is_none() {
            true => {
                let (all, load) = (SlotSet::all(), locked.load());
                generation::level(&all, &locked.known, &locked.current, &load, may_move)
            }
            false => None,
        };
        if let Some((assignments, moved)) = &levelled {
            let of = |consumer: &Option<String>| match consumer {
                Some(consumer) => format!("uneven load of `{consumer}`"),
                None => "uneven load".to_owned(),
            };
            let reason = moved.iter().map(of).collect::<Vec<_>>().join("; ");
            statements.extend(self.new_generation(set, &locked, assignments, &reason));
            statements.extend(moved.iter().map(|consumer| self.moved(set, consumer.as_deref())));
        }
        session.run(statements, End::Commit).await.map_err(|failed| self.error(failed))?;
        Ok(levelled.is_some())
    }

    /// Takes in what was measured.
    fn merge(&self, set: &str, locked: &mut LockedSet, measured: &Measured) -> Option<Statement> {
        let Some(consumer) = &measured.consumer else {
            let rates = &mut locked.of_set.rates;
            rates.merge(&measured.rates, &measured.slots);
            let update = format!("UPDATE {} SET rates = $2 WHERE name = $1", self.replica_sets);
            return Some(Statement::new(update, params![set, rates.to_bytes()]));
        };
        // It may be one that all run by now.
        locked.current.apart.get(consumer)?;
        let rates = &mut locked
            .apart
            .entry(consumer.clone())
            .or_insert_with(|| Heaviness { moved_ago: Duration::MAX, ..Heaviness::default() });
        rates.rates.merge(&measured.rates, &measured.slots);
        let upsert = format!(
            "INSERT INTO {} (replica_set, consumer, rates) VALUES ($1, $2, $3) \
             ON CONFLICT (replica_set, consumer) DO UPDATE SET rates = excluded.rates",
            self.consumer_rates
        );
        Some(Statement::new(upsert, params![set, consumer, rates.rates.to_bytes()]))
    }

    /// The statement after which slots of a consumer, or of the set, have moved for their load just now.
    fn moved(&self, set: &str, consumer: Option<&str>) -> Statement {
        let now = self.now;
        match consumer {
            None => {
                let sets = &self.replica_sets;
                let update = format!("UPDATE {sets} SET rates_us = {now} WHERE name = $1");
                Statement::new(update, params![set])
            }
            Some(consumer) => {
                let update = format!(
                    "UPDATE {} SET rates_us = {now} WHERE replica_set = $1 AND consumer = $2",
                    self.consumer_rates
                );
                Statement::new(update, params![set, consumer])
            }
        }
    }

    /// What a worker should own now.
    pub(crate) async fn assigned(&self, set: &str, worker: &str) -> Result<Assigned, StoreError> {
        // One statement, so of one generation. Of other workers it matters that they are there.
        let select = format!(
            "SELECT s.generation, s.generation = s.planned AS is_complete, s.rates, \
             '' AS consumer, a.worker, CASE WHEN a.worker = $2 THEN a.slots END AS slots \
             FROM {sets} AS s LEFT JOIN {assignments} AS a \
             ON a.replica_set = s.name AND a.generation = s.generation WHERE s.name = $1 \
             UNION ALL SELECT s.generation, s.generation = s.planned, coalesce(r.rates, s.rates), \
             a.consumer, a.worker, CASE WHEN a.worker = $2 THEN a.slots END \
             FROM {sets} AS s JOIN {apart} AS a \
             ON a.replica_set = s.name AND a.generation = s.generation LEFT JOIN {rates} AS r \
             ON r.replica_set = s.name AND r.consumer = a.consumer WHERE s.name = $1 \
             ORDER BY 4, 5",
            sets = self.replica_sets,
            assignments = self.assignments,
            apart = self.consumer_assignments,
            rates = self.consumer_rates,
        );
        let leaving = format!(
            "SELECT id FROM {} WHERE replica_set = $1 AND runs = '{LEAVING}' AND lease_us > {}",
            self.workers, self.now
        );
        let statements = vec![
            Statement::query(select, params![set, worker]),
            Statement::query(leaving, params![set]),
        ];
        let answers = self.commit(statements).await?;
        let [rows, leaving] = [0, 1].map(|number| &answers[number].rows);
        let leaving = leaving.iter().map(|row| self.column(row, "id")).collect::<Result<_, _>>()?;
        let mut assigned = Assigned { leaving, ..Assigned::none() };
        for row in rows {
            assigned.generation = self.column(row, "generation")?;
            assigned.is_complete = self.column(row, "is_complete")?;
            let consumer: String = self.column(row, "consumer")?;
            let share = match consumer.as_str() {
                "" => &mut assigned.of_set,
                _ => assigned.apart.entry(consumer.clone()).or_default(),
            };
            share.weights = Weights::of(&self.rates(row)?);
            let Some(member) = self.column::<Option<String>>(row, "worker")? else { continue };
            if member == worker {
                share.slots = self.slots(row)?;
            }
            if consumer.is_empty() {
                assigned.members.push(member);
            }
        }
        Ok(assigned)
    }

    /// The statement after which a replica set exists, and goes from one assignment to the next like
    /// this.
    pub(crate) fn create_set(&self, set: &str, rollout: Rollout) -> Statement {
        let insert = format!(
            "INSERT INTO {sets} (name, rollout) VALUES ($1, $2) \
             ON CONFLICT (name) DO UPDATE SET rollout = excluded.rollout",
            sets = self.replica_sets
        );
        Statement::new(insert, params![set, rollout.name()])
    }

    /// The statement after which a worker is taken for dead.
    fn end_lease(&self, worker: &str) -> Statement {
        let update = format!("UPDATE {} SET lease_us = 0 WHERE id = $1", self.workers);
        Statement::new(update, params![worker])
    }

    async fn lock_set(
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
        let planned = self.column(row, "planned")?;
        let of_set = self.heaviness(row)?;
        let select = format!(
            "SELECT id, fixed, host, pid, report, schema_version, runs = '{LEAVING}' AS is_leaving, \
             lease_us > {now} AS is_alive FROM {workers} \
             WHERE replica_set = $1 ORDER BY started_us, id"
        );
        let assigned = |table: &str, consumer: &str| {
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
            assigned(&self.assignments, "''"),
            assigned(&self.consumer_assignments, "consumer"),
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
        let fixed = match self.column::<Option<Vec<u8>>>(row, "fixed")? {
            Some(_) => Some(self.slots_in(row, "fixed")?),
            None => None,
        };
        let follows_set = !runners::says_so(self.column(row, "schema_version")?);
        let runs = match follows_set {
            true => runners::reported(&report),
            false => runners.remove(&id).unwrap_or_default(),
        };
        let is_able = |runner: Runner| (runner.consumer, runner.unable.is_none());
        locked.known.push(Known {
            id,
            fixed,
            is_alive: self.column(row, "is_alive")?,
            is_leaving: self.column(row, "is_leaving")?,
            runs: runs.into_iter().map(is_able).collect(),
            follows_set,
        });
        Ok(())
    }

    fn new_generation(
        &self,
        set: &str,
        locked: &LockedSet,
        assignments: &Assignments,
        reason: &str,
    ) -> Vec<Statement> {
        let generation = locked.generation + 1;
        let insert = format!(
            "INSERT INTO {} (replica_set, generation, at_us, reason) VALUES ($1, $2, {}, $3)",
            self.generations, self.now
        );
        let update = format!(
            "UPDATE {} SET generation = $2, planned = $2 WHERE name = $1",
            self.replica_sets
        );
        let of_set = assignments.set.iter().map(|(worker, slots)| {
            let place = locked.places.get(worker).cloned().unwrap_or_default();
            params![set, generation, worker, place, slots.to_bytes()]
        });
        let of_one = |(consumer, assignment): (&String, &Assignment)| {
            let row = |(worker, slots): (&String, &SlotSet)| {
                params![set, generation, consumer, worker, slots.to_bytes()]
            };
            assignment.iter().map(row).collect::<Vec<_>>()
        };
        let apart = assignments.apart.iter().flat_map(of_one);
        // Of consumers that all run nothing is known apart from the others.
        let forget = format!(
            "DELETE FROM {rates} WHERE replica_set = $1 AND NOT EXISTS (SELECT 1 FROM {apart} AS a \
             WHERE a.replica_set = $1 AND a.generation = $2 AND a.consumer = {rates}.consumer)",
            rates = self.consumer_rates,
            apart = self.consumer_assignments,
        );
        let mut statements = vec![
            Statement::new(insert, params![set, generation, reason]),
            rows(
                &self.assignments,
                &["replica_set", "generation", "worker", "place", "slots"],
                of_set.collect(),
            ),
            rows(
                &self.consumer_assignments,
                &["replica_set", "generation", "consumer", "worker", "slots"],
                apart.collect(),
            ),
            Statement::new(update, params![set, generation]),
            Statement::new(forget, params![set, generation]),
        ];
        statements.extend(self.bury());
        statements.push(Statement::signal(Topic::Workers));
        for table in [&self.generations, &self.assignments, &self.consumer_assignments] {
            let delete = format!("DELETE FROM {table} WHERE replica_set = $1 AND generation <= $2");
            statements.push(Statement::new(delete, params![set, generation - HISTORY]));
        }
        statements
    }

    fn heaviness(&self, row: &Row) -> Result<Heaviness, StoreError> {
        let moved_ago = Duration::from_micros(self.column::<i64>(row, "moved_ago")?.max(0) as u64);
        Ok(Heaviness { rates: self.rates(row)?, moved_ago })
    }

    fn rates(&self, row: &Row) -> Result<Rates, StoreError> {
        let bytes: Option<Vec<u8>> = self.column(row, "rates")?;
        Ok(bytes.and_then(|bytes| Rates::from_bytes(&bytes)).unwrap_or_default())
    }
}

fn rows(table: &str, columns: &'static [&'static str], rows: Vec<Vec<Value>>) -> Statement {
    let (table, columns) = (table.to_owned().into(), Cow::Borrowed(columns));
    let insert = InsertRows { table, columns, conflict: "".into(), rows };
    Statement { work: Work::Rows(insert), expect: Expect::Nothing }
}
