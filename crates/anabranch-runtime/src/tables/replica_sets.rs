//! Making generations and assignments: who should own what. One short transaction under the set's lock.

use super::Tables;
use super::locked_sets::LockedSet;
use super::runners::Runner;
use anabranch_core::Happening;
use anabranch_core::generation::{Assignments, Next, Rollout};
use anabranch_core::plan::Assignment;
use anabranch_core::{Rates, SlotSet, StoreError, Weights};
use anabranch_store::database::{End, InsertRows, Statement, Topic};
use anabranch_store::value::Value;
use anabranch_store::{Row, params};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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
    /// When the generation was made.
    pub(crate) made: Instant,
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
        Self {
            generation: 0,
            is_complete: true,
            of_set,
            apart,
            members,
            leaving,
            made: Instant::now(),
        }
    }

    /// What it should own of a consumer.
    pub(crate) fn of(&self, consumer: &str) -> &Share {
        self.apart.get(consumer).unwrap_or(&self.of_set)
    }
}

impl Tables {
    /// Makes the next assignment if the members are no longer those of the current one. `gone` are
    /// workers whose process is gone, though their lease is not over.
    pub(crate) async fn tick(
        &self,
        set: &str,
        gone: &[String],
    ) -> Result<Option<(Next, Happening)>, StoreError> {
        let mut session = self.database.control();
        let mut locked = self.lock_set(session.as_mut(), set).await?;
        for worker in locked.known.iter_mut().filter(|worker| gone.contains(&worker.id)) {
            worker.is_alive = false;
        }
        // From here on nothing that they hold is theirs; workers that wait for it get a signal.
        let mut statements: Vec<_> = gone.iter().map(|worker| self.end_lease(worker)).collect();
        let next = locked.next().map(|next| {
            let reason = locked.reason(&next, None);
            statements.extend(self.new_generation(set, &locked, &next.assignments, &reason));
            let made = locked.made(&next, reason);
            (next, made)
        });
        match &next {
            Some(_) => {}
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
    ) -> Result<Option<Happening>, StoreError> {
        let mut session = self.database.control();
        let mut locked = self.lock_set(session.as_mut(), set).await?;
        for known in locked.known.iter_mut().filter(|known| known.id == worker) {
            known.runs.insert(consumer.to_owned(), unable.is_none());
        }
        let mut statements = vec![self.change_runner(worker, consumer, unable)];
        let mut made = None;
        if let Some(next) = locked.next() {
            let name = locked.name(worker);
            let change = match unable {
                // Not why: what handlers say may quote events. It stands with the worker.
                Some(_) => format!("{name} cannot run `{consumer}` for now"),
                None => format!("{name} can run `{consumer}` again"),
            };
            let reason = locked.reason(&next, Some(change));
            statements.extend(self.new_generation(set, &locked, &next.assignments, &reason));
            made = Some(locked.made(&next, reason));
        }
        session.run(statements, End::Commit).await.map_err(|failed| self.error(failed))?;
        Ok(made)
    }

    /// A worker runs one consumer in the place of another, as the new version of it does after a switch:
    /// those who run it are to own its slots from then on.
    pub(crate) async fn set_runner(
        &self,
        set: &str,
        worker: &str,
        old: &str,
        new: &Runner,
    ) -> Result<Option<Happening>, StoreError> {
        let mut session = self.database.control();
        let mut locked = self.lock_set(session.as_mut(), set).await?;
        for known in locked.known.iter_mut().filter(|known| known.id == worker) {
            known.runs.remove(old);
            known.runs.insert(new.consumer.clone(), new.unable.is_none());
        }
        let mut statements = self.replace_runner(worker, old, new);
        let mut made = None;
        if let Some(next) = locked.next() {
            let name = locked.name(worker);
            let change = match new.consumer == old {
                true => format!("{name} runs `{old}` as well"),
                false => format!("{name} runs `{}`, not `{old}`", new.consumer),
            };
            let reason = locked.reason(&next, Some(change));
            statements.extend(self.new_generation(set, &locked, &next.assignments, &reason));
            made = Some(locked.made(&next, reason));
        }
        session.run(statements, End::Commit).await.map_err(|failed| self.error(failed))?;
        Ok(made)
    }

    /// A worker does not run a consumer any more: those who do are to own its slots from then on.
    pub(crate) async fn remove_runner(
        &self,
        set: &str,
        worker: &str,
        consumer: &str,
    ) -> Result<Option<Happening>, StoreError> {
        let mut session = self.database.control();
        let mut locked = self.lock_set(session.as_mut(), set).await?;
        for known in locked.known.iter_mut().filter(|known| known.id == worker) {
            known.runs.remove(consumer);
        }
        let mut statements = vec![self.delete_runner(worker, consumer)];
        let mut made = None;
        if let Some(next) = locked.next() {
            let change = format!("{} does not run `{consumer}` any more", locked.name(worker));
            let reason = locked.reason(&next, Some(change));
            statements.extend(self.new_generation(set, &locked, &next.assignments, &reason));
            made = Some(locked.made(&next, reason));
        }
        session.run(statements, End::Commit).await.map_err(|failed| self.error(failed))?;
        Ok(made)
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
        let age = format!(
            "SELECT {} - g.at_us AS age FROM {} AS g JOIN {} AS s \
             ON g.replica_set = s.name AND g.generation = s.generation WHERE s.name = $1",
            self.now, self.generations, self.replica_sets
        );
        let statements = vec![
            Statement::query(select, params![set, worker]),
            Statement::query(leaving, params![set]),
            Statement::query(age, params![set]),
        ];
        let answers = self.commit(statements).await?;
        let now = Instant::now();
        let [rows, leaving, age] = [0, 1, 2].map(|number| &answers[number].rows);
        let age = age.first().map(|row| self.column::<i64>(row, "age")).transpose()?;
        let age = Duration::from_micros(age.unwrap_or_default().max(0) as u64);
        let made = now.checked_sub(age).unwrap_or(now);
        let leaving = leaving.iter().map(|row| self.column(row, "id")).collect::<Result<_, _>>()?;
        let mut assigned = Assigned { leaving, made, ..Assigned::none() };
        for row in rows {
            assigned.generation = self.column(row, "generation")?;
            assigned.is_complete = self.column(row, "is_complete")?;
            let consumer: String = self.column(row, "consumer")?;
            let share = match consumer.as_str() {
                "" => &mut assigned.of_set,
                _ => assigned.apart.entry(consumer.clone()).or_default(),
            };
            share.weights = Weights::from_rates(&self.rates(row)?);
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

    pub(super) fn new_generation(
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
        statements.extend(self.remove_dead());
        statements.push(Statement::signal(Topic::Workers));
        for table in [&self.generations, &self.assignments, &self.consumer_assignments] {
            let delete = format!("DELETE FROM {table} WHERE replica_set = $1 AND generation <= $2");
            statements.push(Statement::new(delete, params![set, generation - HISTORY]));
        }
        statements
    }

    pub(super) fn rates(&self, row: &Row) -> Result<Rates, StoreError> {
        let bytes: Option<Vec<u8>> = self.column(row, "rates")?;
        Ok(bytes.and_then(|bytes| Rates::from_bytes(&bytes)).unwrap_or_default())
    }
}

fn rows(table: &str, columns: &'static [&'static str], rows: Vec<Vec<Value>>) -> Statement {
    let (table, columns) = (table.to_owned().into(), Cow::Borrowed(columns));
    let insert = InsertRows { table, columns, conflict: "".into(), rows };
    Statement::rows(insert)
}
