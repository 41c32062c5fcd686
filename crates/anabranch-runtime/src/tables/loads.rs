//! How heavy slots are, as workers have measured, and moving them for it.

use super::Tables;
use super::locked_sets::{Heaviness, LockedSet};
use anabranch_core::engine_event::SlotMove;
use anabranch_core::generation::{Assignments, Next};
use anabranch_core::{Happening, Rates, SlotSet, StoreError};
use anabranch_store::database::{End, Statement};
use anabranch_store::params;
use std::collections::BTreeSet;
use std::time::Duration;

/// What a worker has measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weighed<'a> {
    pub(crate) worker: &'a str,
    pub(crate) generation: i64,
    pub(crate) measured: &'a [Measured],
    /// How long slots stay where they are.
    pub(crate) pause: Duration,
}

/// What moves for the load of slots, or would.
#[derive(Debug)]
pub(crate) struct Levelled {
    pub(crate) generation: i64,
    pub(crate) moves: Vec<SlotMove>,
    /// Who has not measured the slots of this generation.
    pub(crate) unmeasured: Vec<String>,
}

/// What was measured of some slots.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Of a consumer that not all members can run, or of all others together.
    pub(crate) consumer: Option<String>,
    pub(crate) rates: Rates,
    pub(crate) slots: SlotSet,
}

impl Tables {
    /// Adds what a worker has measured of its slots. Moves slots if the load has become lopsided, all who
    /// run them have measured in this generation, and nothing was moved for that reason for a while.
    /// The new generation, if it did.
    pub(crate) async fn weigh(
        &self,
        set: &str,
        by: Weighed<'_>,
    ) -> Result<Option<Happening>, StoreError> {
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
        let levelled = match by.generation == locked.generation && locked.next().is_none() {
            true => locked.levelled(by.pause, has_weighed),
            false => None,
        };
        let made = levelled.map(|levelled| {
            let (of_generation, made) = self.make_levelled(set, &locked, levelled, "");
            statements.extend(of_generation);
            made
        });
        session.run(statements, End::Commit).await.map_err(|failed| self.error(failed))?;
        Ok(made)
    }

    /// What moves for the load that is measured, whenever slots were moved last. With statements of the caller's it is
    /// done, in one transaction with them. None while workers have joined or left, and slots are to be planned for that.
    pub(crate) async fn level(
        &self,
        set: &str,
        expected: Option<i64>,
        apply: Option<Vec<Statement>>,
    ) -> Result<Option<Levelled>, StoreError> {
        let mut session = self.database.control();
        let locked = self.lock_set(session.as_mut(), set).await?;
        if expected.is_some_and(|expected| expected != locked.generation) {
            return Ok(None);
        }
        let has_weighed = |(worker, slots): (&String, &SlotSet)| {
            slots.is_empty() || locked.weighed.get(worker) == Some(&locked.generation)
        };
        let assigned = locked.current.apart.values().chain([&locked.current.set]).flatten();
        let unmeasured = assigned.filter(|assigned| !has_weighed(*assigned));
        let unmeasured: BTreeSet<String> = unmeasured.map(|(worker, _)| worker.clone()).collect();
        let changes = locked.next().is_some();
        let levelled = match changes {
            false => locked.levelled(Duration::ZERO, has_weighed),
            true => None,
        };
        let mut found = Levelled {
            generation: locked.generation,
            moves: Vec::new(),
            unmeasured: unmeasured.into_iter().collect(),
        };
        let (mut statements, mut made) = (Vec::new(), None);
        if let Some((assignments, moved)) = levelled {
            found.moves = SlotMove::between(&locked.current, &assignments);
            if apply.is_some() {
                let (of_generation, happening) =
                    self.make_levelled(set, &locked, (assignments, moved), ", asked for");
                statements.extend(of_generation);
                made = Some(happening);
                found.generation += 1;
            }
        }
        if !changes {
            statements.extend(apply.into_iter().flatten());
        }
        session.run(statements, End::Commit).await.map_err(|failed| self.error(failed))?;
        made.into_iter().for_each(|made| self.events.emit(made));
        Ok((!changes).then_some(found))
    }

    /// The names of all replica sets.
    pub(crate) async fn replica_set_names(&self) -> Result<Vec<String>, StoreError> {
        let select = format!("SELECT name FROM {} ORDER BY name", self.replica_sets);
        let rows = self.query(Statement::query(select, vec![])).await?;
        rows.iter().map(|row| self.column(row, "name")).collect()
    }

    /// The statements that make a generation of assignments that are levelled, and what is said of it.
    fn make_levelled(
        &self,
        set: &str,
        locked: &LockedSet,
        (assignments, moved): (Assignments, Vec<Option<String>>),
        why: &str,
    ) -> (Vec<Statement>, Happening) {
        let of = |consumer: &Option<String>| match consumer {
            Some(consumer) => format!("uneven load of `{consumer}`{why}"),
            None => format!("uneven load{why}"),
        };
        let reason = moved.iter().map(of).collect::<Vec<_>>().join("; ");
        let mut statements = self.new_generation(set, locked, &assignments, &reason);
        let (joined, left, died) = (Vec::new(), Vec::new(), Vec::new());
        let made = locked.made(&Next { assignments, joined, left, died }, reason);
        statements.extend(moved.iter().map(|consumer| self.moved(set, consumer.as_deref())));
        (statements, made)
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
}
