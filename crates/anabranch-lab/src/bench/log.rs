//! Appending and reading.

use super::appenders::{self, STREAMS};
use super::bare::BareRow;
use super::events::{customer, data, event, stream};
use super::own_log::OwnLog;
use super::report::{self, Case, Rates};
use super::{Measured, Side, check_times};
use crate::throwaway::Throwaway;
use anabranch::{Expected, Position, Query, StreamId};
use anabranch_terminal::say;
use clap::Args;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const BATCH: u64 = 100;
const TASKS: usize = 64;
const FILL_BATCH: u64 = 1000;
const PROCESSES: usize = 8;
/// More than all processes append in one measurement: no two of them have the same numbers.
const PROCESS_NUMBERS: u64 = 1 << 32;

/// Appending and reading the log
///
/// single: one task, one event an append. concurrent: 64 tasks, one event an append; its limit is a
/// bare commit of 64 rows. batch: one task, 100 events an append; its limit is a bare multi-row
/// insert. processes: 8 processes, one event an append; its limit is as many processes that insert by
/// themselves. read: the whole log; its limit is the bare row stream with every column fetched. Both read it once before they are
/// measured, and take turns. Works
/// in tables of its own and removes them at the end.
#[derive(Args)]
pub(crate) struct BenchLog {
    #[command(flatten)]
    database: Measured,

    /// How many events the log that is read has
    #[arg(long, default_value_t = 500_000)]
    events: u64,

    /// How long each measurement of an append takes
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,

    /// How often each measurement is repeated; the median counts
    #[arg(long, default_value_t = 5)]
    repeats: usize,
}

impl BenchLog {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        check_times(self.seconds, self.repeats)?;
        let measure = async |made: &_| {
            let (mut ours, mut bare) =
                (Place::new(made, "ours").await?, Place::new(made, "bare").await?);
            self.measure(&mut ours, &mut bare).await
        };
        self.database.run(measure).await
    }

    async fn measure(&self, ours: &mut Place, bare: &mut Place) -> anyhow::Result<()> {
        if !self.database.json {
            say!("{}: {} repeats, the median counts", ours.own.log.at(), self.repeats);
            report::print_header("log")?;
        }
        let what = "1 event an append; limit: bare insert, 1 row a commit";
        let single = Case::new("log", "single", 1, what, self.appends(ours, bare, 1, 1, 1).await?);
        single.print(self.database.json)?;

        let what = "1 event an append; limit: bare insert, 64 rows a commit";
        let rates = self.appends(ours, bare, TASKS, 1, TASKS as u64).await?;
        let mut concurrent = Case::new("log", "concurrent", TASKS, what, rates);
        concurrent.times_single = concurrent.times(&single);
        concurrent.print(self.database.json)?;

        let what = "100 events an append; limit: bare insert, 100 rows a commit";
        let rates = self.appends(ours, bare, 1, BATCH, BATCH).await?;
        Case::new("log", "batch", 1, what, rates).print(self.database.json)?;

        let what =
            "8 processes, 1 event an append; limit: 8 processes, bare insert, 1 row a commit";
        let rates = self.in_processes(ours, bare).await?;
        Case::new("log", "processes", PROCESSES, what, rates).print(self.database.json)?;

        ours.fill(self.events).await?;
        // The first to read rows pays for it: they are not in memory, or not known to be committed.
        ours.read().await?;
        ours.read_bare().await?;
        let what = "the whole log; limit: bare row stream, every column";
        let mut rates = Rates::default();
        let mut peak = None::<f64>;
        for repeat in 1..=self.repeats {
            for side in self.database.turns(repeat as u64) {
                if side == Side::Limit {
                    rates.bare.push(ours.read_bare().await?);
                    continue;
                }
                report::reset_peak_rss();
                rates.ours.push(ours.read().await?);
                peak = peak.into_iter().chain(report::peak_rss_mb()).reduce(f64::max);
            }
        }
        let mut read = Case::new("log", "read", 1, what, rates);
        read.peak_rss_mb = peak;
        read.print(self.database.json)
    }

    /// The rates of processes with a handle each.
    async fn in_processes(&self, ours: &Place, bare: &Place) -> anyhow::Result<Rates> {
        let time = Duration::from_secs_f64(self.seconds);
        let mut rates = Rates::default();
        for repeat in 1..=self.repeats {
            for side in self.database.turns(repeat as u64) {
                let (place, rates) = match side {
                    Side::Ours => (ours, &mut rates.ours),
                    Side::Limit => (bare, &mut rates.bare),
                };
                let number = place.next.fetch_add(PROCESS_NUMBERS, Ordering::Relaxed);
                rates.push(appenders::rate(&place.own, side, number, PROCESSES, time).await?);
            }
        }
        Ok(rates)
    }

    /// The rates of `tasks` tasks that append `each` events at once, and of bare commits of `rows`.
    async fn appends(
        &self,
        ours: &Place,
        bare: &mut Place,
        tasks: usize,
        each: u64,
        rows: u64,
    ) -> anyhow::Result<Rates> {
        let time = Duration::from_secs_f64(self.seconds);
        let mut rates = Rates::default();
        for repeat in 1..=self.repeats {
            for side in self.database.turns(repeat as u64) {
                let started = Instant::now();
                let (written, rates) = match side {
                    Side::Ours => (ours.append(tasks, each, time).await?, &mut rates.ours),
                    Side::Limit => (bare.write_bare(rows, each, time).await?, &mut rates.bare),
                };
                rates.push(written as f64 / started.elapsed().as_secs_f64());
            }
        }
        Ok(rates)
    }
}

/// A log, and the number of its next event.
struct Place {
    own: OwnLog,
    next: Arc<AtomicU64>,
}

impl Place {
    async fn new(made: &Throwaway, name: &str) -> anyhow::Result<Self> {
        Ok(Self { own: OwnLog::create(made, name).await?, next: Arc::default() })
    }

    async fn append(&self, tasks: usize, each: u64, time: Duration) -> anyhow::Result<u64> {
        let started = Instant::now();
        let mut running = JoinSet::new();
        for _ in 0..tasks {
            let (log, next) = (self.own.log.clone(), Arc::clone(&self.next));
            running.spawn(async move {
                let mut appended = 0;
                while started.elapsed() < time {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let stream = StreamId::new("Order", stream(number, STREAMS))?;
                    let events = (0..each).map(|step| event(number + step));
                    log.append(&stream, Expected::Any, events).await?;
                    appended += each;
                }
                anyhow::Ok(appended)
            });
        }
        let mut appended = 0;
        while let Some(ended) = running.join_next().await {
            appended += ended??;
        }
        Ok(appended)
    }

    async fn write_bare(&mut self, rows: u64, each: u64, time: Duration) -> anyhow::Result<u64> {
        let next = Arc::clone(&self.next);
        let batch = || {
            let first = next.fetch_add(rows, Ordering::Relaxed);
            // A batch goes to one stream, single events to many, as in ours.
            let of = |number| if each > 1 { first } else { number };
            (first..first + rows).map(|number| bare_row(of(number), number)).collect()
        };
        self.own.bare.write(batch, time).await
    }

    /// Appends until the log has so many events.
    async fn fill(&self, events: u64) -> anyhow::Result<()> {
        let mut have = self.own.log.read(Query::all()).backwards().limit(1).collect().await?;
        let mut have = have.pop().map_or(0, |event| event.position().get());
        while have < events {
            let count = FILL_BATCH.min(events - have);
            let number = self.next.fetch_add(count, Ordering::Relaxed);
            let stream = StreamId::new("Order", stream(number, STREAMS))?;
            let events = (0..count).map(|step| event(number + step));
            self.own.log.append(&stream, Expected::Any, events).await?;
            have += count;
        }
        Ok(())
    }

    async fn read(&self) -> anyhow::Result<f64> {
        let started = Instant::now();
        let mut events = self.own.log.read(Query::all()).events();
        let (mut read, mut last) = (0u64, Position::START);
        while let Some(event) = events.next().await {
            let position = event?.position();
            anyhow::ensure!(position > last, "position {position} follows {last}");
            last = position;
            read += 1;
        }
        Ok(read as f64 / started.elapsed().as_secs_f64())
    }

    async fn read_bare(&mut self) -> anyhow::Result<f64> {
        let started = Instant::now();
        let read = self.own.bare.read().await?;
        Ok(read as f64 / started.elapsed().as_secs_f64())
    }
}

pub(super) fn bare_row(of: u64, number: u64) -> BareRow {
    BareRow {
        stream: stream(of, STREAMS),
        version: number as i64,
        data: data(number),
        customer: customer(number),
        tag: None,
    }
}
