//! The coordination of workers, simulated: claims, commits, generations and readers run against a
//! store in memory, one step at a time, in an order that a seed decides, with every fault that can
//! happen to them. The laws are checked after every step.
//!
//! What decides is the code that the runtime uses: `cursor`, `plan` and `generation` of the core. What
//! acts (tables, log, feed, lane, worker) is a model of the runtime, small enough to be read.
//!
//! ```
//! use anabranch_sim::{Mutant, run};
//! let run = run(7, Mutant::None);
//! assert!(run.failure.is_none(), "{run}");
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `world` | what is due when; picks what is next |
//! | `scenario` | what a seed stands for |
//! | `store` | the tables and the transactions on them |
//! | `wire` | requests that come late, answers that get lost |
//! | `log` | appends in flight and the horizon |
//! | `process` | what a process knows |
//! | `worker` | signs of life and claims |
//! | `lane`, `feed`, `working` | what lanes and their feeds hold, and the steps that they take |
//! | `faults` | crashes, pauses, joins, leaves |
//! | `laws` | what must hold, whatever happens |
//! | `many` | many seeds at once |
//! | `mutant` | mechanisms broken on purpose |
//! | `trace` | what has happened |
//! | `rng` | random numbers that never change |

mod faults;
mod feed;
mod lane;
mod laws;
mod log;
mod many;
mod mutant;
mod process;
mod rng;
mod scenario;
mod store;
mod trace;
mod wire;
mod worker;
mod working;
mod world;

pub use laws::Violation;
pub use many::{Many, run_many};
pub use mutant::Mutant;
use std::fmt;
pub use trace::{Step, What};
use world::World;

/// How the run of a seed went.
#[derive(Debug)]
#[must_use]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// What was broken on purpose.
    pub mutant: Mutant,
    /// The law that did not hold.
    pub failure: Option<Violation>,
    /// How many steps it took.
    pub steps: u64,
    /// The same for the same seed.
    pub hash: u64,
    /// How often each of [`What::ALL`] happened.
    pub counts: Vec<u64>,
    /// How many events were handled, by all consumers together.
    pub handled: usize,
    /// The last steps, or all of them.
    pub trace: Vec<Step>,
}

/// Runs a seed.
pub fn run(seed: u64, mutant: Mutant) -> Run {
    run_with(seed, mutant, None, false)
}

/// Runs a seed, at most so many steps, and remembers all of them if asked.
pub fn run_with(seed: u64, mutant: Mutant, most_steps: Option<u64>, keep_trace: bool) -> Run {
    let mut world = World::new(seed, mutant, keep_trace);
    let failure = world.run(most_steps).err();
    let handled = (0..world.scenario.consumers).map(|each| world.laws.handled(each)).sum();
    let (steps, hash) = (world.steps, world.trace.hash());
    let (counts, trace) = world.trace.into_parts();
    Run { seed, mutant, failure, steps, hash, counts, handled, trace }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.trace {
            writeln!(f, "{step}")?;
        }
        let Self { seed, steps, handled, .. } = self;
        match &self.failure {
            None => write!(f, "seed {seed}: {steps} steps, {handled} events handled"),
            Some(violation) => {
                writeln!(f, "seed {seed}, step {steps}: {violation}")?;
                write!(f, "again: cargo run -p anabranch-sim -- --seed {seed}")?;
                if self.mutant != Mutant::None {
                    write!(f, " --mutant {}", self.mutant.name())?;
                }
                Ok(())
            }
        }
    }
}
