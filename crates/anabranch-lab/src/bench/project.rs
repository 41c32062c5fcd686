//! Catching up: projections and views over a log that is there already.

use super::handlers::{BATCH, Batch, Nothing, Totals, Upsert, Waiting, id_in};
use super::limit::{self, Effect};
use super::own_log::{self, OwnLog};
use super::partitions;
use super::report::{self, Case, Rates};
use super::{Measured, Side};
use crate::throwaway::Throwaway;
use anabranch::partitioning::SLOTS;
use anabranch::{FixedPartition, ReplicaSet, ViewReader};
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const LANES: [usize; 3] = [1, 2, 4];
const WAITING_EVENTS: u64 = 4000;
const WAIT: Duration = Duration::from_millis(2);
const COMMITS: u64 = 2000;

/// Catching up with a log that is there already
///
/// Each case handles the whole log from scratch, on 1, 2 and 4 lanes, and checks what it wrote. The
/// limit is the same effect written by hand with the bare driver: 1000 events and a cursor a
/// transaction, one connection that writes and one that reads meanwhile. Both sides read the log once before
/// they are measured, and take turns. Works in tables of its own
/// and removes them at the end.
#[derive(Args)]
pub(crate) struct BenchProject {
    #[command(flatten)]
    database: Measured,

    /// How many events the log has
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,

    /// How many streams they are spread over
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    streams: u64,

    /// How often each measurement is repeated; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,

    /// Which cases; all if not given
    #[arg(long, value_delimiter = ',')]
    cases: Vec<What>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// A projection that does nothing
    #[value(alias = "a")]
    Nothing,
    /// A projection with one upsert for each event
    #[value(alias = "b")]
    Upsert,
    /// A projection with one statement for each batch
    #[value(alias = "c")]
    Batch,
    /// A view
    #[value(alias = "d")]
    View,
    /// A projection that waits 2 ms for each event
    #[value(alias = "e")]
    Waiting,
    /// Commits of one event, with 1 slot and with 5040
    #[value(alias = "f")]
    Commits,
    /// Four processes, each a fixed partition (PostgreSQL only)
    #[value(alias = "g")]
    Partitions,
}

impl What {
    fn effect(self) -> Option<Effect> {
        match self {
            Self::Nothing => Some(Effect::Nothing),
            Self::Upsert => Some(Effect::Upsert),
            Self::Batch => Some(Effect::Batch),
            _ => None,
        }
    }

    /// Its name and what it does.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Nothing => (
                "nothing",
                "the handler does nothing; limit: bare read, every column, 1000 events a cursor",
            ),
            Self::Upsert => (
                "upsert",
                "1 upsert an event; limit: the same by hand, prepared, 1000 events a transaction, \
                 pipelined on PostgreSQL",
            ),
            Self::Batch => (
                "batch",
                "summed up, then 1 insert of rows a batch; limit: the same by hand, 1000 events a \
                 transaction",
            ),
            Self::View => ("view", "a fold of events and total, no SQL"),
            Self::Waiting => ("waiting", "the handler waits 2 ms an event"),
            Self::Commits => ("commits", ""),
            Self::Partitions => ("partitions", ""),
        }
    }
}

impl BenchProject {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        self.database.run(async |made| Box::pin(self.measure(made)).await).await
    }

    fn wants(&self, what: What) -> bool {
        self.cases.is_empty() || self.cases.contains(&what)
    }

    async fn measure(&self, made: &Throwaway) -> anyhow::Result<()> {
        let own = &mut OwnLog::create(made, "project").await?;
        let whole = [What::Nothing, What::Upsert, What::Batch, What::View];
        let whole: Vec<What> = whole.into_iter().filter(|what| self.wants(*what)).collect();
        let partitions = self.wants(What::Partitions) && own.is_postgres();
        let at = own.log.at().to_owned();
        self.database.say(|| format!("{at}: {} repeats, the median counts", self.repeats));
        if !whole.is_empty() || partitions {
            self.database
                .say(|| format!("filling: {} events in {} streams", self.events, self.streams));
            own.fill(self.events, self.streams).await?;
            self.warm_up(own).await?;
        }
        if !self.database.json {
            report::print_header("project")?;
        }
        for what in whole {
            self.whole_log(own, what).await?;
        }
        if self.wants(What::Waiting) {
            // Not with this log, which would be in the way.
            self.waiting(&OwnLog::create(made, "waiting").await?).await?;
        }
        if self.wants(What::Commits) {
            self.commits(&OwnLog::create(made, "commits").await?).await?;
        }
        if partitions {
            let say = |text| self.database.say(|| text);
            let turns = |repeat| self.database.turns(repeat);
            let mut case = partitions::measure(own, self.events, self.repeats, turns, say).await?;
            case.bench = "project";
            case.print(self.database.json)?;
        }
        Ok(())
    }

    /// Lets each side read the log once: the first to read rows pays for it, since they are not in memory,
    /// or not known to be committed.
    async fn warm_up(&self, own: &mut OwnLog) -> anyhow::Result<()> {
        limit::rate(own, Effect::Nothing, own.table("warm_up_limit")).await?;
        self.catch_up(own, What::Nothing, "warm_up", 1).await?;
        self.database.say(|| "both sides have read the log once".to_owned());
        Ok(())
    }

    /// One case over the whole log, on each number of lanes, beside its limit if it has one.
    async fn whole_log(&self, own: &mut OwnLog, what: What) -> anyhow::Result<()> {
        let (name, words) = what.words();
        let mut limits = Vec::new();
        let mut rates = LANES.map(|_| Vec::new());
        for repeat in 1..=self.repeats {
            for side in self.database.turns(repeat) {
                if side == Side::Limit {
                    limits.extend(self.limit(own, what, repeat).await?);
                    continue;
                }
                for (lanes, rates) in LANES.into_iter().zip(&mut rates) {
                    let consumer = format!("{name}_{repeat}_{lanes}");
                    let rate = self.catch_up(own, what, &consumer, lanes).await?;
                    let say =
                        || format!("{name}: repeat {repeat}, {lanes} lanes {rate:.0} events/s");
                    self.database.say(say);
                    rates.push(rate);
                }
            }
        }
        for (lanes, ours) in LANES.into_iter().zip(rates) {
            let rates = Rates { ours, bare: limits.clone() };
            Case::new("project", name, lanes, words, rates).print(self.database.json)?;
        }
        Ok(())
    }

    /// Does the same by hand, if it has a limit, and checks the outcome; returns how many events a second.
    async fn limit(
        &self,
        own: &mut OwnLog,
        what: What,
        repeat: u64,
    ) -> anyhow::Result<Option<f64>> {
        let ((name, _), Some(effect)) = (what.words(), what.effect()) else { return Ok(None) };
        let table = own.table(format_args!("limit_{name}_{repeat}"));
        let rate = limit::rate(own, effect, table).await?;
        self.database.say(|| format!("{name}: repeat {repeat}, limit {rate:.0} events/s"));
        if effect != Effect::Nothing {
            own.verify(table, self.events).await?;
        }
        Ok(Some(rate))
    }

    /// Handles the log from scratch and checks the outcome; returns how many events a second.
    async fn catch_up(
        &self,
        own: &mut OwnLog,
        what: What,
        name: &str,
        lanes: usize,
    ) -> anyhow::Result<f64> {
        let (set, table) = (ReplicaSet::new("bench").lanes(lanes), own.table(name));
        let view = Totals { name: name.to_owned() };
        let set = match what {
            What::Upsert => set.projection(Upsert::new(name, table)),
            What::Batch => set.projection(Batch::new(name, table)),
            What::View => set.view(view.clone()),
            _ => set.projection(Nothing { name: name.to_owned(), batch_size: BATCH }),
        };
        let rate = timed(own, set, self.events).await?;
        match what {
            What::Upsert | What::Batch => own.verify(table, self.events).await?,
            What::View => {
                let reader = ViewReader::<Totals>::new(&own.log, &view);
                let states = reader.find("true", vec![]).await;
                let states = states.map_err(|error| anyhow::anyhow!("{error}"))?;
                let add = |sum: (u64, f64), (_, state): &(_, super::handlers::Total)| {
                    (sum.0 + state.events, sum.1 + state.total)
                };
                own_log::verify(name, self.events, states.iter().fold((0, 0.0), add))?;
            }
            _ => {}
        }
        Ok(rate)
    }

    async fn waiting(&self, own: &OwnLog) -> anyhow::Result<()> {
        let events = WAITING_EVENTS.min(self.events);
        own.fill(events, self.streams).await?;
        let (name, words) = What::Waiting.words();
        let mut rates = [(1, Rates::default()), (4, Rates::default())];
        for repeat in 1..=self.repeats {
            for (lanes, rates) in &mut rates {
                let waiting = Waiting { name: format!("waiting_{repeat}_{lanes}"), wait: WAIT };
                let set = ReplicaSet::new("bench").lanes(*lanes).projection(waiting);
                let rate = timed(own, set, events).await?;
                self.database
                    .say(|| format!("{name}: repeat {repeat}, {lanes} lanes {rate:.0} events/s"));
                rates.ours.push(rate);
            }
        }
        let [single, four] =
            rates.map(|(lanes, rates)| Case::new("project", name, lanes, words, rates));
        single.print(self.database.json)?;
        Case { times_single: four.times(&single), ..four }.print(self.database.json)
    }

    async fn commits(&self, own: &OwnLog) -> anyhow::Result<()> {
        let events = COMMITS.min(self.events);
        let one_slot = FixedPartition::new(0, SLOTS)?;
        own.fill_stream(&id_in(own.log.hash_rule(), one_slot), events).await?;
        let mut rates = Rates::default();
        for repeat in 1..=self.repeats {
            for side in self.database.turns(repeat) {
                let (total, rates) = match side {
                    Side::Ours => (1, &mut rates.ours),
                    Side::Limit => (SLOTS, &mut rates.bare),
                };
                let name = format!("commits_{repeat}_{total}");
                let set = ReplicaSet::new("bench").partition(FixedPartition::new(0, total)?);
                let set = set.projection(Nothing { name, batch_size: 1 });
                let rate = timed(own, set, events).await?;
                let slots = SLOTS / total;
                self.database
                    .say(|| format!("commits: repeat {repeat}, {slots} slots {rate:.0} events/s"));
                rates.push(rate);
            }
        }
        let one_slot = Rates { ours: rates.bare.clone(), bare: Vec::new() };
        let words = "1 event a transaction, 1 slot of 5040";
        Case::new("project", "commit-1-slot", 1, words, one_slot).print(self.database.json)?;
        let words = "1 event a transaction, all slots; limit: with 1 slot";
        Case::new("project", "commit-5040-slots", 1, words, rates).print(self.database.json)
    }
}

/// Runs a set to the end of the log; returns how many events a second.
pub(super) async fn timed(own: &OwnLog, set: ReplicaSet, events: u64) -> anyhow::Result<f64> {
    let started = Instant::now();
    let progress = set.catch_up(&own.log).await?;
    let elapsed = started.elapsed();
    let handled: u64 = progress.consumers.iter().map(|consumer| consumer.handled).sum();
    anyhow::ensure!(handled == events, "{handled} of {events} events were handled");
    Ok(events as f64 / elapsed.as_secs_f64())
}
