//! The showpiece: a stream of orders, a projection in several processes, rescaled and hit while it
//! runs, and a proof from the tables at the end.
//!
//! | module | subject |
//! |---|---|
//! | `crew` | the worker processes: started, told to stop, killed |
//! | `worker` | what one of them runs |
//! | `orders` | the stream of orders |
//! | `served` | the demo with the API and the console beside it, until Ctrl-C |
//! | `shipments` | a second consumer, of which keys are parked |
//! | `proof` | what the tables say at the end |
//! | `display` | what is seen meanwhile |

mod crew;
mod display;
mod orders;
mod proof;
mod served;
mod shipments;
pub(crate) mod worker;

use anabranch::Log;
use anabranch_terminal::cut_short::unless_signalled;
use anabranch_terminal::output;
use anyhow::Context;
use clap::Args;
use crew::Crew;
use display::Display;
use futures_util::future::LocalBoxFuture;
use orders::Orders;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// See it work: orders stream in while a projection is rescaled, and one of its processes is killed
///
/// Everything happens in a SQLite file of its own, which is removed at the end. Worker processes share
/// the projection, two lanes each: first 3 of them, then 5, of which one is killed (kill -9), then 2. At
/// the end the tables are read and checked: nothing lost, nothing twice, every order's events in their
/// order. The exit code is 1 if that is not so.
///
/// With --serve the console is beside it: open the address that is printed. 2,000 events a second come then, workers join,
/// are killed and leave again and again, and a second consumer has keys that are parked and wait for you, until Ctrl-C.
#[derive(Args)]
pub struct Demo {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// How many events
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    events: u64,

    /// Serve the API and the console beside it, here or at this address, until Ctrl-C; then it is proven
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        default_missing_value = served::USUAL,
        value_parser = served::address,
        conflicts_with = "events"
    )]
    serve: Option<SocketAddr>,
}

/// How long the slowest machine may take before the demo gives up.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(50);

impl Demo {
    /// Runs the command. Boxed, so that it is compiled with this crate, and not with the one that calls it.
    pub fn run(self) -> LocalBoxFuture<'static, anyhow::Result<ExitCode>> {
        Box::pin(self.run_here())
    }

    async fn run_here(self) -> anyhow::Result<ExitCode> {
        // Before anything is made.
        let place = self.serve.map(served::Place::bind).transpose()?;
        let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
        let url = format!("sqlite:{}", directory.path().join("demo.db").display());
        let log = anabranch::connect(&url).await?;
        let outcome = match place {
            Some(place) => {
                Box::pin(place.play(&log, &url, Display::new(self.json, self.events))).await?
            }
            None => Box::pin(unless_signalled(self.play(&log, &url))).await?,
        };
        match self.json {
            true => output::json(&outcome)?,
            false => output::print(format_args!("{}", outcome.report()))?,
        }
        Ok(if outcome.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Each act ends when so many events are handled, not when so much time has passed.
    async fn play(&self, log: &Log, url: &str) -> anyhow::Result<proof::Outcome> {
        let mut stage = Stage {
            log,
            display: Display::new(self.json, self.events),
            crew: Crew::new(url),
            started: Instant::now(),
        };
        let orders = Orders::start(log, self.events);
        stage.crew.scale(3)?;
        stage.act("3 workers, 2 lanes each", self.events / 4).await?;

        stage.crew.scale(5)?;
        stage.act("5 workers: two more have joined", self.events / 2).await?;

        stage.crew.kill()?;
        stage.act("one was killed; the others take over", self.events * 3 / 4).await?;

        stage.crew.scale(2)?;
        stage.act("2 workers: the others have left", self.events).await?;
        let seconds = stage.started.elapsed().as_secs_f64();
        orders.finish().await?;
        stage.crew.dismiss()?;
        stage.display.finish();
        proof::prove(log, seconds).await
    }
}

/// What the acts play on.
struct Stage<'a> {
    log: &'a Log,
    display: Display,
    crew: Crew,
    started: Instant,
}

impl Stage<'_> {
    /// Shows what happens until so many events are handled.
    async fn act(&mut self, title: &str, until: u64) -> anyhow::Result<()> {
        self.display.act(title);
        loop {
            let handled = proof::handled(self.log).await?;
            self.display.show(handled, self.started.elapsed(), self.crew.len());
            if handled >= until {
                return Ok(());
            }
            self.crew.check()?;
            let patient = self.started.elapsed() < PATIENCE;
            anyhow::ensure!(patient, "only {handled} events were handled in {PATIENCE:?}");
            tokio::time::sleep(LOOK).await;
        }
    }
}
