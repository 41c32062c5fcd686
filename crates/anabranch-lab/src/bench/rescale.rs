//! Worker processes come and go under a constant backlog: what each is worth, and how long what they
//! hand over stands still.

use super::Measured;
use super::own_log::OwnLog;
use super::report::{self, Case, Rates, rounded};
use super::rolling;
use crate::chaos::crew::Crew;
use crate::chaos::ledger::{Entry, Ledger};
use crate::chaos::load;
use crate::chaos::worker::{RUNNING, Work};
use crate::percentiles::Percentiles;
use anabranch::partitioning::SLOTS;
use anabranch::{Append, Expected, HashRule, NewEvent};
use anabranch_terminal::say;
use clap::Args;
use std::collections::{BTreeMap, HashSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How many processes, one phase after the other.
const PHASES: [(usize, &str); 5] = [
    (1, "1-worker"),
    (2, "2-workers"),
    (4, "4-workers"),
    (2, "2-workers-again"),
    (1, "1-worker-again"),
];
/// Spread evenly over the slots: workers with as many slots then have as much to do, and are as far
/// in the log, so that a lane need not wait for what it takes over to meet what it has.
const KEYS: u16 = 630;
/// What an event waits for, and how many of them are a transaction: one takes 50 to 100 ms.
const WAIT_MS: u64 = 2;
const BATCH: usize = 25;
/// More than a worker can handle in a second, and than a phase takes to begin.
const EVENTS_PER_SECOND: f64 = 500.0;
const BEGIN_SECONDS: f64 = 5.0;
/// How long a worker may take to start, to leave, to handle its first event.
const START: Duration = Duration::from_secs(30);
const FIRST_EVENT: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);

/// Worker processes that come and go: 1, 2, 4, 2, 1, with one lane each
///
/// Each event waits 2 ms, as for a service elsewhere, then writes one row. There is more to do at any
/// time than is done. The rate of a phase is beside that of half as many workers, and on the way back
/// of as many before; it counts once every worker has handled something. The pause is that of
/// everything that went from one worker to another at once: from the last event of the old one to the
/// first of the new one, which includes the new one's first transaction, since its rows are written at
/// the end of it. What nobody handles any more counts until the phase ends.
///
/// At last a rolling deploy: four workers at a third of what they can do, each replaced in turn: the
/// new one runs before the old one is told to leave. The pause is that of each key that went from one
/// to another: how long the first event of its new owner waited since it came, or since the old
/// owner's last.
#[derive(Args)]
pub(crate) struct BenchRescale {
    #[command(flatten)]
    database: Measured,

    /// How long each phase is measured
    #[arg(long, default_value_t = 6.0)]
    seconds_per_phase: f64,
}

/// One number of workers, by the database's clock.
struct Phase {
    case: &'static str,
    rescaled_us: i64,
    from_us: i64,
    to_us: i64,
}

impl BenchRescale {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        anyhow::ensure!(
            self.seconds_per_phase > 0.0 && self.seconds_per_phase.is_finite(),
            "--seconds-per-phase must be more than 0"
        );
        let measure = async |made: &_| {
            self.measure(&OwnLog::create(made, "rescale").await?).await?;
            rolling::measure(made).await?.print(self.database.json)
        };
        self.database.run(measure).await
    }

    async fn measure(&self, own: &OwnLog) -> anyhow::Result<()> {
        let workers: usize = PHASES.iter().map(|(workers, _)| workers).sum();
        let seconds = (self.seconds_per_phase + BEGIN_SECONDS) * workers as f64;
        let events = fill(own, (seconds * EVENTS_PER_SECOND) as u64).await?;
        if !self.database.json {
            say!("{}: {events} events, {WAIT_MS} ms each", own.log.at());
            report::print_header("rescale")?;
        }
        let ledger = Ledger::of(&own.log);
        let mut crew = Crew::new(&own.url, &own.namespace, work())?;
        let mut phases = Vec::new();
        for (workers, case) in PHASES {
            phases.push(self.phase(&mut crew, &ledger, workers, case).await?);
        }
        scale(&mut crew, 0).await?;
        let entries = ledger.entries().await?;
        anyhow::ensure!((entries.len() as u64) < events, "the backlog of {events} events ran out");
        for case in cases(&phases, &entries) {
            case.print(self.database.json)?;
        }
        Ok(())
    }

    async fn phase(
        &self,
        crew: &mut Crew,
        ledger: &Ledger,
        workers: usize,
        case: &'static str,
    ) -> anyhow::Result<Phase> {
        let rescaled_us = ledger.now_us().await?;
        scale(crew, workers).await?;
        let (started, before) = (Instant::now(), ledger.last_number().await?);
        while ledger.workers_since(before).await? < workers && started.elapsed() < FIRST_EVENT {
            tokio::time::sleep(LOOK).await;
        }
        let from_us = ledger.now_us().await?;
        tokio::time::sleep(Duration::from_secs_f64(self.seconds_per_phase)).await;
        let to_us = ledger.now_us().await?;
        Ok(Phase { case, rescaled_us, from_us, to_us })
    }
}

/// Appends events, each to the next key; returns how many.
async fn fill(own: &OwnLog, events: u64) -> anyhow::Result<u64> {
    let keys = keys(own.log.hash_rule());
    let rounds = events.div_ceil(keys.len() as u64);
    for _ in 0..rounds {
        let mut append = Append::new();
        for key in &keys {
            let event = NewEvent::new("Counted", ());
            append = append.to(&load::stream(*key)?, Expected::Any, [event]);
        }
        own.log.append_all(append).await?;
    }
    Ok(rounds * keys.len() as u64)
}

/// A key in one of every eight slots, in each of the eight as often.
fn keys(rule: HashRule) -> Vec<u64> {
    let step = SLOTS / KEYS;
    let mut wanted: HashSet<u16> = (0..KEYS).map(|number| number * step + number % step).collect();
    let mut keys: Vec<u64> = (0..)
        .filter(|key: &u64| wanted.remove(&rule.slot(&key.to_string()).get()))
        .take(KEYS.into())
        .collect();
    // Not in the order of slots, nor in that in which they were found.
    keys.sort_by_key(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    keys
}

/// What each worker does.
pub(super) fn work() -> Work {
    Work {
        lanes: 1,
        lease: None,
        wait_ms: WAIT_MS,
        batch_size: Some(BATCH),
        entries_only: true,
        sabotage: None,
    }
}

/// Goes over to so many workers, the oldest leave first; returns when those who join run and those
/// who leave have left.
pub(super) async fn scale(crew: &mut Crew, workers: usize) -> anyhow::Result<()> {
    let mut started = Vec::new();
    while crew.len() < workers {
        started.push(crew.start()?);
    }
    let too_many = crew.len().saturating_sub(workers);
    for number in crew.numbers().into_iter().take(too_many) {
        crew.tell_to_leave(number, false)?;
    }
    for number in started {
        let runs = crew.wait_until_said(number, RUNNING, START).await?;
        anyhow::ensure!(runs, "a worker does not start: {:?}", crew.take_problems());
    }
    crew.wait_for_leavers(START).await?;
    crew.check()?;
    let problems = crew.take_problems();
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// What the phases were like, and all hand-overs together.
fn cases(phases: &[Phase], entries: &[Entry]) -> Vec<Case> {
    let rate = |phase: &Phase| {
        let window = phase.from_us..phase.to_us;
        let handled = entries.iter().filter(|entry| window.contains(&entry.handled_us)).count();
        handled as f64 / ((phase.to_us - phase.from_us) as f64 / 1e6)
    };
    let rates: Vec<f64> = phases.iter().map(rate).collect();
    let batch_ms = rates.first().map(|rate| rounded(BATCH as f64 * 1000.0 / rate, 1));
    let (mut cases, mut all) = (Vec::new(), Vec::new());
    for (number, phase) in phases.iter().enumerate() {
        let (beside, what) = match number {
            0 => (None, "one lane each, 2 ms and 1 row an event, a constant backlog"),
            1 | 2 => (Some(number - 1), "twice as many; limit: half as many"),
            _ => (Some(phases.len() - 1 - number), "half as many again; limit: as many before"),
        };
        let bare = beside.map(|beside| rates[beside]).into_iter().collect();
        let mut case =
            Case::new("rescale", phase.case, 1, what, Rates { ours: vec![rates[number]], bare });
        if number > 0 {
            let until_us = phases.get(number + 1).map_or(phase.to_us, |next| next.rescaled_us);
            // A key that has no event for so long is not handled at all.
            let patience_us = (2e6 * f64::from(KEYS) / rates[number].max(1.0)) as i64;
            let pauses = pauses(entries, (phase.rescaled_us, until_us), patience_us);
            all.extend(&pauses);
            case.handover_pause_ms = Some(Percentiles::of(pauses));
        }
        cases.push(case);
    }
    let what = "the pauses of all phases; batch: what one transaction takes";
    let mut together = Case::new("rescale", "hand-overs", 1, what, Rates::default());
    together.handover_pause_ms = Some(Percentiles::of(all));
    together.batch_ms = batch_ms;
    cases.push(together);
    cases
}

/// For all keys together that went from one worker to the same other one: from the last event of the
/// old one to the first of the new one. A single key has no event for longer than that, but one that
/// has none for much longer went to somebody who does not handle it: then the pause is not over.
fn pauses(entries: &[Entry], (from_us, to_us): (i64, i64), patience_us: i64) -> Vec<f64> {
    let mut last: BTreeMap<i64, Entry> = BTreeMap::new();
    let mut moves: BTreeMap<(i64, Option<i64>), (i64, i64)> = BTreeMap::new();
    let mut add = |old: &Entry, new: Option<i64>, at_us: i64| {
        let ends = moves.entry((old.worker, new)).or_insert((i64::MIN, i64::MAX));
        *ends = (ends.0.max(old.handled_us), ends.1.min(at_us));
    };
    for new in entries.iter().filter(|entry| entry.handled_us < to_us) {
        if let Some(old) = last.insert(new.key, *new)
            && old.worker != new.worker
            && new.handled_us >= from_us
        {
            add(&old, Some(new.worker), new.handled_us);
        }
    }
    for old in last.values().filter(|old| to_us - old.handled_us.max(from_us) > patience_us) {
        add(old, None, to_us);
    }
    moves.values().map(|(last, first)| (first - last).max(0) as f64 / 1000.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: i64, worker: i64, handled_us: i64) -> Entry {
        Entry { position: 0, key, version: 0, worker, recorded_us: 0, handled_us }
    }

    #[test]
    fn what_moves_together_has_one_pause() {
        let entries = [
            entry(1, 1, 1_000),
            entry(2, 1, 9_000),
            entry(3, 1, 9_500),
            entry(2, 2, 30_000),
            entry(1, 2, 60_000),
            entry(3, 1, 61_000),
        ];
        assert_eq!(pauses(&entries, (5_000, 100_000), 80_000), [21.0]);
        assert_eq!(pauses(&entries, (70_000, 100_000), 50_000), [0.0; 0]);
    }

    #[test]
    fn a_pause_that_is_not_over_counts() {
        let entries = [entry(1, 1, 9_000), entry(2, 2, 90_000)];
        assert_eq!(pauses(&entries, (5_000, 100_000), 50_000), [91.0]);
    }
}
