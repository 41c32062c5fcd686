//! What the rows of a ledger say: every event once and in order, and who waited how long.

use super::Outcome;
use super::ledger::Ledger;
use super::text::{grouped, millis};
use anabranch::backend::database::{End, Statement};
use anabranch::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// The rows of a run, in the order in which they were written.
pub struct Rows {
    ledger: &'static str,
    events: BTreeSet<u64>,
    rows: Vec<Handled>,
}

/// An event that was handled.
struct Handled {
    position: u64,
    version: u64,
    nth: u64,
    slot: u64,
    process: u32,
    recorded_us: i64,
    handled_us: i64,
}

impl Rows {
    /// Reads the log and the ledger after a position.
    pub async fn read(log: &Log, ledger: &Ledger, after: Position) -> Outcome<Self> {
        let events = log.read(Query::all()).after(after).collect().await?;
        let select = format!(
            "SELECT position, version, nth, slot, process, recorded_us, handled_us \
             FROM {}_rows WHERE position > $1 ORDER BY handled_us, position",
            ledger.0
        );
        let select = Statement::query(select, params![after]);
        let answers = log.store().database().begin().run(vec![select], End::Commit).await?;
        let mut rows = Vec::new();
        for row in answers.into_iter().flat_map(|answer| answer.rows) {
            rows.push(Handled {
                position: row.get("position")?,
                version: row.get("version")?,
                nth: row.get("nth")?,
                slot: row.get("slot")?,
                process: row.get("process")?,
                recorded_us: row.get("recorded_us")?,
                handled_us: row.get("handled_us")?,
            });
        }
        let events = events.iter().map(|event| event.position().get()).collect();
        Ok(Self { ledger: ledger.0, events, rows })
    }

    /// How many events each process handled since a time.
    pub fn by_process(&self, since_us: i64) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.handled_us >= since_us) {
            *counts.entry(row.process).or_default() += 1;
        }
        counts
    }

    /// Whether every event of the log stands in the ledger once, in the order of its key.
    pub fn prove(&self) -> Outcome<String> {
        let seen: BTreeSet<u64> = self.rows.iter().map(|row| row.position).collect();
        let lost = self.events.difference(&seen).count();
        let doubled = self.rows.len() - seen.len();
        let disordered = self.rows.iter().filter(|row| row.nth != row.version).count();
        let (name, events) = (self.ledger, grouped(self.events.len()));
        if lost + doubled + disordered > 0 || self.rows.is_empty() {
            let problem = format!(
                "NOT GOOD: of {events} events {name} lost {lost}, doubled {doubled}, and has \
                 {disordered} out of order"
            );
            return Err(problem.into());
        }
        let processes = self.by_process(0).len();
        Ok(format!(
            "verified from the tables: {name} has {events} of {events} events, each once and in \
             order per key, handled by {processes} processes"
        ))
    }

    /// From event to handler, for the events recorded in a span of time.
    pub fn delays(&self, from_us: i64, to_us: i64) -> Times {
        let rows = self.rows.iter().filter(|row| (from_us..to_us).contains(&row.recorded_us));
        Times::of(rows.map(Handled::delay).collect())
    }

    /// What a change of workers cost that happened in a span of time.
    ///
    /// A pause of a slot that changed hands lasts from the last event of the old process, or from the
    /// next event if that came later, to the first event of the new one.
    pub fn hand_over(&self, from_us: i64, to_us: i64) -> HandOver {
        let (mut last, mut moved): (HashMap<u64, &Handled>, _) = (HashMap::new(), BTreeSet::new());
        let (mut pauses, mut stayed) = (Vec::new(), Vec::new());
        for row in &self.rows {
            if (from_us..to_us).contains(&row.handled_us)
                && let Some(before) = last.get(&row.slot)
            {
                if before.process != row.process {
                    pauses.push(row.handled_us - before.handled_us.max(row.recorded_us));
                    moved.insert(row.slot);
                } else if row.recorded_us >= from_us {
                    stayed.push((row.slot, row.delay()));
                }
            }
            last.insert(row.slot, row);
        }
        stayed.retain(|(slot, _)| !moved.contains(slot));
        let slots: BTreeSet<u64> = stayed.iter().map(|(slot, _)| *slot).collect();
        HandOver {
            pauses: Times::of(pauses),
            stayed_slots: slots.len(),
            stayed: Times::of(stayed.into_iter().map(|(_, delay)| delay).collect()),
        }
    }
}

impl Handled {
    fn delay(&self) -> i64 {
        self.handled_us - self.recorded_us
    }
}

/// What a change of workers cost.
pub struct HandOver {
    pub pauses: Times,
    /// Slots with events that kept their owner.
    pub stayed_slots: usize,
    /// The delays of their events.
    pub stayed: Times,
}

/// Times, sorted, in microseconds.
pub struct Times(Vec<i64>);

impl Times {
    fn of(mut micros: Vec<i64>) -> Self {
        micros.iter_mut().for_each(|time| *time = (*time).max(0));
        micros.sort_unstable();
        Self(micros)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn at(&self, share: f64) -> String {
        let last = self.0.len().saturating_sub(1) as f64;
        self.0.get((last * share).round() as usize).map_or_else(|| "-".to_owned(), |it| millis(*it))
    }
}

impl fmt::Display for Times {
    /// p50, p99 and the longest, in columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9}{:>9}{:>9}", self.at(0.5), self.at(0.99), self.at(1.0))
    }
}
