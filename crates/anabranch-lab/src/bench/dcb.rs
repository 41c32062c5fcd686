//! Tags, conditions and decisions: what a dynamic consistency boundary costs.

use super::bare::BareRow;
use super::own_log::OwnLog;
use super::report::{self, Case, Rates};
use super::{Measured, Side, check_times};
use crate::throwaway::Throwaway;
use anabranch::{Append, Expected, NewEvent, Position, Query, StreamId};
use clap::Args;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const TASKS: u64 = 64;
const BATCH: u64 = 100;

/// Appends under a condition, decisions, and batches with tags
///
/// Each event has one tag, which is its scope. single: one task, one event an append, under the
/// condition that its scope has no event beyond the last one known. conditional: the same by 64 tasks.
/// decision: 64 tasks that read a scope and append an event unless it has changed since. batch: one
/// task, 100 events an append, without a condition. The limit is the bare driver on one connection,
/// which writes the rows and their tags, as many in a commit as there are tasks, and checks nothing; for
/// decisions it reads their scopes before that. Works in tables of its own and removes them at the end.
#[derive(Args)]
pub(crate) struct BenchDcb {
    #[command(flatten)]
    database: Measured,

    /// How many scopes there are: at least one for each task
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(64..=1_000_000))]
    scopes: u64,

    /// How long each measurement takes
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,

    /// How often each measurement is repeated; the median counts
    #[arg(long, default_value_t = 5)]
    repeats: usize,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Conditional,
    Decision,
    Batch,
}

impl BenchDcb {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        check_times(self.seconds, self.repeats)?;
        self.database.run(async |made| self.measure(made).await).await
    }

    async fn measure(&self, made: &Throwaway) -> anyhow::Result<()> {
        let cases = [
            (
                "single",
                1,
                What::Conditional,
                "1 event an append, conditional; limit: 1 row a commit",
            ),
            (
                "conditional",
                TASKS,
                What::Conditional,
                "1 event an append, conditional; limit: 64 rows a commit",
            ),
            (
                "decision",
                TASKS,
                What::Decision,
                "read a scope, append 1 event unless it has changed; limit: 64 scopes, 64 rows a commit",
            ),
            ("batch", 1, What::Batch, "100 events with a tag each; limit: 100 rows a commit"),
        ];
        for (number, (name, tasks, what, text)) in cases.into_iter().enumerate() {
            // Logs of its own: how many events a scope has decides what it costs to read it.
            let mut ours = Scopes::new(made, &format!("{name}_ours"), self.scopes).await?;
            let mut bare = Scopes::new(made, &format!("{name}_bare"), self.scopes).await?;
            if number == 0 {
                let at = ours.own.log.at().to_owned();
                self.database.say(|| format!("{at}: {} repeats, the median counts", self.repeats));
                if !self.database.json {
                    report::print_header("dcb")?;
                }
            }
            let rates = self.rates(&mut ours, &mut bare, tasks, what).await?;
            Case::new("dcb", name, tasks as usize, text, rates).print(self.database.json)?;
        }
        Ok(())
    }

    async fn rates(
        &self,
        ours: &mut Scopes,
        bare: &mut Scopes,
        tasks: u64,
        what: What,
    ) -> anyhow::Result<Rates> {
        let time = Duration::from_secs_f64(self.seconds);
        let (mut rates, mut all) = (Rates::default(), 0);
        for repeat in 1..=self.repeats {
            for side in self.database.turns(repeat as u64) {
                let started = Instant::now();
                let (written, rates) = match side {
                    Side::Ours => {
                        let written = ours.append(tasks, what, time).await?;
                        all += written;
                        (written, &mut rates.ours)
                    }
                    Side::Limit => (bare.write_bare(tasks, what, time).await?, &mut rates.bare),
                };
                rates.push(written as f64 / started.elapsed().as_secs_f64());
            }
        }
        let found = ours.own.bare.counts().await?;
        anyhow::ensure!(
            found == (all, all),
            "the log holds {} events with {} tags, where {all} were appended",
            found.0,
            found.1
        );
        Ok(rates)
    }
}

/// A log, and what a client knows of its scopes.
struct Scopes {
    own: OwnLog,
    /// The last position that was seen in each.
    seen: Arc<Vec<AtomicU64>>,
    next: Arc<AtomicU64>,
}

impl Scopes {
    async fn new(made: &Throwaway, name: &str, scopes: u64) -> anyhow::Result<Self> {
        let own = OwnLog::create(made, name).await?;
        let seen = (0..scopes).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { own, seen: Arc::new(seen), next: Arc::default() })
    }

    /// The scope of an event: each task has scopes of its own, since what is measured is not how conflicts are told. They
    /// come in no order, as they do in life.
    fn scope(scopes: u64, (task, tasks): (u64, u64), number: u64) -> u64 {
        // Without a common divisor with any number of scopes, so that each comes once before one comes again.
        const STRIDE: u64 = 2_147_483_647;
        task + tasks * (number.wrapping_mul(STRIDE) % (scopes / tasks))
    }

    async fn append(&self, tasks: u64, what: What, time: Duration) -> anyhow::Result<u64> {
        let started = Instant::now();
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let (log, seen, next) =
                (self.own.log.clone(), Arc::clone(&self.seen), Arc::clone(&self.next));
            running.spawn(async move {
                let mut appended = 0;
                let scopes = seen.len() as u64;
                while started.elapsed() < time {
                    if what == What::Batch {
                        let first = next.fetch_add(BATCH, Ordering::Relaxed);
                        let event = |number| event(number, Self::scope(scopes, (0, 1), number));
                        let events = (first..first + BATCH).map(event);
                        log.append(&stream(first % scopes)?, Expected::Any, events).await?;
                        appended += BATCH;
                        continue;
                    }
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let scope = Self::scope(scopes, (task, tasks), number);
                    let query = Query::tags([tag(scope)]);
                    let seen = &seen[scope as usize];
                    let after = match what {
                        What::Decision => {
                            let events = log.read(query.clone()).collect().await?;
                            events.last().map_or(Position::START, |event| event.position())
                        }
                        _ => Position::new(seen.load(Ordering::Relaxed)),
                    };
                    let append = Append::new()
                        .to(&stream(scope)?, Expected::Any, [event(number, scope)])
                        .unless(query, after);
                    let stored = log.append_all(append).await?;
                    seen.store(stored.position().get(), Ordering::Relaxed);
                    appended += 1;
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

    async fn write_bare(&mut self, tasks: u64, what: What, time: Duration) -> anyhow::Result<u64> {
        let rows = if what == What::Batch { BATCH } else { tasks };
        let (next, scopes) = (Arc::clone(&self.next), self.seen.len() as u64);
        let batch = || {
            let first = next.fetch_add(rows, Ordering::Relaxed);
            let row = |number| {
                let scope = Self::scope(scopes, (0, 1), number);
                // A batch goes to one stream, single events to that of their scope, as in ours.
                let of = if what == What::Batch { first % scopes } else { scope };
                BareRow {
                    stream: format!("seat-{of}"),
                    version: number as i64,
                    data: data(number),
                    customer: String::new(),
                    tag: Some(tag(scope)),
                }
            };
            (first..first + rows).map(row).collect()
        };
        match what {
            What::Decision => self.own.bare.read_and_write(batch, time).await,
            _ => self.own.bare.write(batch, time).await,
        }
    }
}

fn stream(scope: u64) -> anyhow::Result<StreamId> {
    Ok(StreamId::new("Seat", format!("seat-{scope}"))?)
}

fn tag(scope: u64) -> String {
    format!("seat:{scope}")
}

/// About 60 bytes.
fn data(number: u64) -> String {
    format!(r#"{{"reservation":"res-{number}","guest":"cust-{}","nights":2}}"#, number % 1000)
}

fn event(number: u64, scope: u64) -> NewEvent {
    NewEvent::from_json("SeatReserved", data(number)).with_tag(tag(scope))
}
