//! Generations and assignments: who should own what. One short transaction under the set's lock.

use super::Tables;
use crate::report::Report;
use anabranch_core::generation::{self, Known, Next, Rollout};
use anabranch_core::plan::{self, Assignment};
use anabranch_core::{Rates, SlotSet, StoreError, Weights};
use anabranch_store::database::{End, InsertRows, Session, Statement, Topic, Work};
use anabranch_store::{Row, params};
use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

/// How many generations are remembered.
const HISTORY: i64 = 200;
/// What a worker that is about to leave runs.
pub(crate) const LEAVING: &str = "leaving";

/// What a worker should own.
#[derive(Debug)]
pub(crate) struct Assigned {
    pub(crate) generation: i64,
    pub(crate) slots: SlotSet,
    /// All members, in the order of their ids.
    pub(crate) members: Vec<String>,
    /// Workers that are about to leave.
    pub(crate) leaving: Vec<String>,
    pub(crate) weights: Weights,
}

/// One assignment, past or present.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Generation {
    /// Its replica set.
    pub replica_set: String,
    /// Its number.
    pub generation: i64,
    /// When it was made, in microseconds since 1970, by the database's clock.
    pub at_us: i64,
    /// Why it was made.
    pub reason: String,
    /// Who should own what.
    pub members: Vec<GenerationMember>,
}

/// What a worker should own in a generation.
#[derive(Clone, Debug, serde::Serialize)]
pub struct GenerationMember {
    /// The worker.
    pub worker: String,
    /// Where it runs: host and process.
    pub place: String,
    /// How many slots.
    pub slots: usize,
    #[serde(skip)]
    pub(crate) set: SlotSet,
}

/// What a worker has measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weighed<'a> {
    pub(crate) worker: &'a str,
    pub(crate) generation: i64,
    pub(crate) rates: &'a Rates,
    /// Of which slots.
    pub(crate) of: &'a SlotSet,
    /// How long slots stay where they are.
    pub(crate) pause: Duration,
}

/// A replica set, locked.
struct LockedSet {
    generation: i64,
    rates: Rates,
    /// For how long it has been as it is.
    moved_ago: Duration,
    current: Assignment,
    known: Vec<Known>,
    places: HashMap<String, String>,
    /// In which generation each worker has measured its slots last.
    weighed: HashMap<String, i64>,
}

impl LockedSet {
    fn weights(&self) -> Weights {
        Weights::of(&self.rates)
    }

    fn name(&self, worker: &str) -> String {
        let place = self.places.get(worker);
        place.map_or_else(|| format!("worker {worker}"), |place| format!("worker at {place}"))
    }

    /// Why there is a new generation.
    fn reason(&self, next: &Next) -> String {
        let of = |who: &[String], what: &str| {
            let names: Vec<String> = who.iter().map(|id| self.name(id)).collect();
            (!names.is_empty()).then(|| format!("{} {what}", names.join(", ")))
        };
        let parts = [of(&next.joined, "joined"), of(&next.left, "left"), of(&next.died, "died")];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
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
        let weights = locked.weights();
        let next = generation::next(&SlotSet::all(), &locked.known, &locked.current, &weights);
        // From here on nothing that they hold is theirs; whoever waits for it is told.
        let mut statements: Vec<_> = gone.iter().map(|worker| self.end_lease(worker)).collect();
        match &next {
            Some(next) => {
                let reason = locked.reason(next);
                statements.extend(self.new_generation(set, &locked, &next.assignment, &reason));
            }
            None if !gone.is_empty() => statements.push(Statement::signal(Topic::Workers)),
            None => {}
        }
        session.run(statements, End::Commit).await.map_err(|failed| self.error(failed))?;
        Ok(next)
    }

    /// Adds what a worker has measured of its slots. Moves slots if the load has become lopsided, all
    /// members have measured in this generation, and nothing was moved for that reason for a while.
    /// Says whether it did.
    pub(crate) async fn weigh(&self, set: &str, by: Weighed<'_>) -> Result<bool, StoreError> {
        let mut session = self.database.control();
        let mut locked = self.lock_set(session.as_mut(), set).await?;
        locked.rates.merge(by.rates, by.of);
        let (all, weights) = (SlotSet::all(), locked.weights());
        let members = generation::members(&locked.known);
        // What others have not measured yet would look weightless.
        let has_weighed = |worker: &str| {
            worker == by.worker || locked.weighed.get(worker) == Some(&locked.generation)
        };
        let is_lopsided = by.generation == locked.generation
            && locked.moved_ago >= by.pause
            && members.iter().all(|member| has_weighed(&member.id))
            && generation::next(&all, &locked.known, &locked.current, &weights).is_none()
            && plan::is_lopsided(&all, &members, &locked.current, &weights);
        let update = format!("UPDATE {} SET rates = $2 WHERE name = $1", self.replica_sets);
        let mut statements = vec![Statement::new(update, params![set, locked.rates.to_bytes()])];
        if is_lopsided {
            let assignment = plan::plan(&all, &members, &locked.current, &weights);
            statements.extend(self.new_generation(set, &locked, &assignment, "uneven load"));
            let update =
                format!("UPDATE {} SET rates_us = {} WHERE name = $1", self.replica_sets, self.now);
            statements.push(Statement::new(update, params![set]));
        }
        session.run(statements, End::Commit).await.map_err(|failed| self.error(failed))?;
        Ok(is_lopsided)
    }

    /// What a worker should own now.
    pub(crate) async fn assigned(&self, set: &str, worker: &str) -> Result<Assigned, StoreError> {
        let (sets, assignments) = (&self.replica_sets, &self.assignments);
        let select = format!(
            "SELECT s.generation, s.rates, a.worker, a.slots FROM {sets} AS s \
             LEFT JOIN {assignments} AS a \
             ON a.replica_set = s.name AND a.generation = s.generation \
             WHERE s.name = $1 ORDER BY a.worker"
        );
        let leaving = format!(
            "SELECT id FROM {} WHERE replica_set = $1 AND runs = '{LEAVING}' AND lease_us > {}",
            self.workers, self.now
        );
        let statements =
            [select, leaving].map(|select| Statement::query(select, params![set])).to_vec();
        let answers = self.commit(statements).await?;
        let [rows, leaving] = [0, 1].map(|number| &answers[number].rows);
        let leaving = leaving.iter().map(|row| self.column(row, "id")).collect::<Result<_, _>>()?;
        let (slots, weights, members) = (SlotSet::empty(), Weights::even(), Vec::new());
        let mut assigned = Assigned { generation: 0, slots, members, leaving, weights };
        for row in rows {
            assigned.generation = self.column(row, "generation")?;
            assigned.weights = Weights::of(&self.rates(row)?);
            let Some(member) = self.column::<Option<String>>(row, "worker")? else { continue };
            if member == worker {
                assigned.slots = self.slots(row)?;
            }
            assigned.members.push(member);
        }
        Ok(assigned)
    }

    /// The last generations, the newest first, of one set or of all.
    pub(crate) async fn generations(
        &self,
        set: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Generation>, StoreError> {
        let (generations, assignments) = (&self.generations, &self.assignments);
        let select = format!(
            "SELECT replica_set, generation, at_us, reason FROM {generations} \
             WHERE replica_set = $1 OR $1 = '' ORDER BY at_us DESC, generation DESC LIMIT $2"
        );
        let values = params![set.unwrap_or_default(), limit as u64];
        let mut found = Vec::new();
        for row in self.query(Statement::query(select, values)).await? {
            let (replica_set, generation): (String, i64) =
                (self.column(&row, "replica_set")?, self.column(&row, "generation")?);
            let select = format!(
                "SELECT worker, place, slots FROM {assignments} \
                 WHERE replica_set = $1 AND generation = $2 ORDER BY worker"
            );
            let select = Statement::query(select, params![&replica_set, generation]);
            let members = self.query(select).await?;
            let members = members.iter().map(|row| self.member(row));
            let members = members.collect::<Result<_, StoreError>>()?;
            let (at_us, reason) = (self.column(&row, "at_us")?, self.column(&row, "reason")?);
            found.push(Generation { replica_set, generation, at_us, reason, members });
        }
        Ok(found)
    }

    /// The members of the current generation of every set.
    pub(crate) async fn members(&self) -> Result<Vec<(String, GenerationMember)>, StoreError> {
        let select = format!(
            "SELECT a.replica_set, a.worker, a.place, a.slots FROM {} AS a, {} AS s \
             WHERE a.replica_set = s.name AND a.generation = s.generation ORDER BY a.worker",
            self.assignments, self.replica_sets
        );
        let rows = self.query(Statement::query(select, vec![])).await?;
        let member = |row| Ok((self.column(row, "replica_set")?, self.member(row)?));
        rows.iter().map(member).collect()
    }

    fn member(&self, row: &Row) -> Result<GenerationMember, StoreError> {
        let set = self.slots(row)?;
        let (worker, place) = (self.column(row, "worker")?, self.column(row, "place")?);
        Ok(GenerationMember { worker, place, slots: set.len(), set })
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
            "SELECT generation, rates, {now} - rates_us AS moved_ago FROM {sets} \
             WHERE name = $1{}",
            self.for_update
        );
        let rows = self.query_in(session, Statement::query(select, params![set])).await?;
        let Some(row) = rows.first() else {
            return Err(self.corrupt(format!("no replica set `{set}`")));
        };
        let generation: i64 = self.column(row, "generation")?;
        let rates = self.rates(row)?;
        let moved_ago = Duration::from_micros(self.column::<i64>(row, "moved_ago")?.max(0) as u64);
        let select = format!(
            "SELECT id, fixed, host, pid, report, runs = '{LEAVING}' AS is_leaving, \
             lease_us > {now} AS is_alive FROM {workers} \
             WHERE replica_set = $1 ORDER BY started_us, id"
        );
        let rows = self.query_in(session, Statement::query(select, params![set])).await?;
        let (mut known, mut places, mut weighed) = (Vec::new(), HashMap::new(), HashMap::new());
        for row in &rows {
            let id: String = self.column(row, "id")?;
            let (host, pid): (String, i64) = (self.column(row, "host")?, self.column(row, "pid")?);
            places.insert(id.clone(), format!("{host}:{pid}"));
            let report = Report::parse(&self.column::<String>(row, "report")?);
            weighed.extend(report.weighed.map(|generation| (id.clone(), generation)));
            let fixed = match self.column::<Option<Vec<u8>>>(row, "fixed")? {
                Some(_) => Some(self.slots_in(row, "fixed")?),
                None => None,
            };
            known.push(Known {
                id,
                fixed,
                is_alive: self.column(row, "is_alive")?,
                is_leaving: self.column(row, "is_leaving")?,
            });
        }
        let select = format!(
            "SELECT worker, slots FROM {} WHERE replica_set = $1 AND generation = $2",
            self.assignments
        );
        let select = Statement::query(select, params![set, generation]);
        let mut current = Assignment::new();
        for row in &self.query_in(session, select).await? {
            current.insert(self.column(row, "worker")?, self.slots(row)?);
        }
        Ok(LockedSet { generation, rates, moved_ago, current, known, places, weighed })
    }

    fn new_generation(
        &self,
        set: &str,
        locked: &LockedSet,
        assignment: &Assignment,
        reason: &str,
    ) -> Vec<Statement> {
        let generation = locked.generation + 1;
        let (generations, assignments) = (&self.generations, &self.assignments);
        let insert = format!(
            "INSERT INTO {generations} (replica_set, generation, at_us, reason) \
             VALUES ($1, $2, {}, $3)",
            self.now
        );
        let update = format!("UPDATE {} SET generation = $2 WHERE name = $1", self.replica_sets);
        let rows = assignment.iter().map(|(worker, slots)| {
            let place = locked.places.get(worker).cloned().unwrap_or_default();
            params![set, generation, worker, place, slots.to_bytes()]
        });
        let rows = InsertRows {
            table: assignments.clone().into(),
            columns: Cow::Borrowed(&["replica_set", "generation", "worker", "place", "slots"]),
            conflict: "".into(),
            rows: rows.collect(),
        };
        let mut statements = vec![
            Statement::new(insert, params![set, generation, reason]),
            Statement { work: Work::Rows(rows), ..Statement::signal(Topic::Workers) },
            Statement::new(update, params![set, generation]),
            self.bury(),
            Statement::signal(Topic::Workers),
        ];
        for table in [generations, assignments] {
            let delete = format!("DELETE FROM {table} WHERE replica_set = $1 AND generation <= $2");
            statements.push(Statement::new(delete, params![set, generation - HISTORY]));
        }
        statements
    }

    fn rates(&self, row: &Row) -> Result<Rates, StoreError> {
        let bytes: Option<Vec<u8>> = self.column(row, "rates")?;
        Ok(bytes.and_then(|bytes| Rates::from_bytes(&bytes)).unwrap_or_default())
    }
}
