//! Generations as they are looked at: when, why, who should own what.

use super::Tables;
use anabranch_core::generation::Assignments;
use anabranch_core::{SlotSet, StoreError, time};
use anabranch_store::database::Statement;
use anabranch_store::{Row, params};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// One assignment, past or present.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Generation {
    /// Its replica set.
    pub replica_set: String,
    /// Its number.
    pub generation: i64,
    /// When it was made, by the database's clock.
    pub at: Timestamp,
    /// Why it was made.
    pub reason: String,
    /// Who should own what of the consumers that every member runs.
    pub members: Vec<GenerationMember>,
    /// Who should own what of each consumer that not all members could run.
    pub apart: BTreeMap<String, Vec<GenerationMember>>,
}

/// What a worker should own in a generation.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct GenerationMember {
    /// The worker.
    pub worker: String,
    /// Where it runs: host and process.
    pub place: String,
    /// How many slots.
    pub slots: usize,
}

impl Tables {
    /// The last generations, the newest first, of one set or of all.
    pub(crate) async fn generations(
        &self,
        set: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Generation>, StoreError> {
        let select = format!(
            "SELECT replica_set, generation, at_us, reason FROM {} \
             WHERE replica_set = $1 OR $1 = '' ORDER BY at_us DESC, generation DESC LIMIT $2",
            self.generations
        );
        let values = params![set.unwrap_or_default(), limit as u64];
        let mut found = Vec::new();
        for row in self.query(Statement::query(select, values)).await? {
            let (replica_set, generation): (String, i64) =
                (self.column(&row, "replica_set")?, self.column(&row, "generation")?);
            let members = self.members(&replica_set, generation).await?;
            let apart = self.members_apart(&replica_set, generation, &members).await?;
            let at = time::from_micros(self.column(&row, "at_us")?);
            let reason = self.column(&row, "reason")?;
            found.push(Generation { replica_set, generation, at, reason, members, apart });
        }
        Ok(found)
    }

    async fn members(
        &self,
        set: &str,
        generation: i64,
    ) -> Result<Vec<GenerationMember>, StoreError> {
        let select = format!(
            "SELECT worker, place, slots FROM {} \
             WHERE replica_set = $1 AND generation = $2 ORDER BY worker",
            self.assignments
        );
        let rows = self.query(Statement::query(select, params![set, generation])).await?;
        let member = |row| {
            let (worker, place) = (self.column(row, "worker")?, self.column(row, "place")?);
            Ok(GenerationMember { worker, place, slots: self.slots(row)?.len() })
        };
        rows.iter().map(member).collect()
    }

    async fn members_apart(
        &self,
        set: &str,
        generation: i64,
        members: &[GenerationMember],
    ) -> Result<BTreeMap<String, Vec<GenerationMember>>, StoreError> {
        let mut apart = BTreeMap::<_, Vec<_>>::new();
        if !self.has_runners() {
            return Ok(apart);
        }
        let select = format!(
            "SELECT consumer, worker, slots FROM {} \
             WHERE replica_set = $1 AND generation = $2 ORDER BY consumer, worker",
            self.consumer_assignments
        );
        for row in &self.query(Statement::query(select, params![set, generation])).await? {
            let worker: String = self.column(row, "worker")?;
            let place = members.iter().find(|member| member.worker == worker);
            let place = place.map(|member| member.place.clone()).unwrap_or_default();
            let member = GenerationMember { worker, place, slots: self.slots(row)?.len() };
            apart.entry(self.column(row, "consumer")?).or_default().push(member);
        }
        Ok(apart)
    }

    /// Who should own what in the current generation of every set, by its name.
    pub(crate) async fn current(&self) -> Result<BTreeMap<String, Assignments>, StoreError> {
        let (sets, assignments) = (&self.replica_sets, &self.assignments);
        let current = "a.replica_set = s.name AND a.generation = s.generation";
        let mut select = format!(
            "SELECT a.replica_set, '' AS consumer, a.worker, a.slots \
             FROM {assignments} AS a, {sets} AS s WHERE {current}"
        );
        if self.has_runners() {
            select += &format!(
                " UNION ALL SELECT a.replica_set, a.consumer, a.worker, a.slots \
                 FROM {} AS a, {sets} AS s WHERE {current}",
                self.consumer_assignments
            );
        }
        let mut found = BTreeMap::<String, Assignments>::new();
        for row in &self.query(Statement::query(select, vec![])).await? {
            let of_set = found.entry(self.column(row, "replica_set")?).or_default();
            let consumer: String = self.column(row, "consumer")?;
            let (worker, slots) = self.assigned_slots(row)?;
            match consumer.as_str() {
                "" => of_set.set.insert(worker, slots),
                _ => of_set.apart.entry(consumer).or_default().insert(worker, slots),
            };
        }
        Ok(found)
    }

    /// What a worker should own, from a row of an assignment.
    pub(crate) fn assigned_slots(&self, row: &Row) -> Result<(String, SlotSet), StoreError> {
        Ok((self.column(row, "worker")?, self.slots(row)?))
    }
}
