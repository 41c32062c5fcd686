//! How heavy slots are, as workers have measured, and moving them for it.

use super::Tables;
use super::locked_sets::{Heaviness, LockedSet};
use anabranch_core::generation::{self, Next};
use anabranch_core::{Happening, Rates, SlotSet, StoreError};
use anabranch_store::database::{End, Statement};
use anabranch_store::params;
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
        let mut made = None;
        if let Some((assignments, moved)) = levelled {
            let of = |consumer: &Option<String>| match consumer {
                Some(consumer) => format!("uneven load of `{consumer}`"),
                None => "uneven load".to_owned(),
            };
            let reason = moved.iter().map(of).collect::<Vec<_>>().join("; ");
            statements.extend(self.new_generation(set, &locked, &assignments, &reason));
            let (joined, left, died) = (Vec::new(), Vec::new(), Vec::new());
            made = Some(locked.made(&Next { assignments, joined, left, died }, reason));
            statements.extend(moved.iter().map(|consumer| self.moved(set, consumer.as_deref())));
        }
        session.run(statements, End::Commit).await.map_err(|failed| self.error(failed))?;
        Ok(made)
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
