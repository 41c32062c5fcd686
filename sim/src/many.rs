//! Many seeds at once, on all cores.

use crate::{Mutant, Run, What, run};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// What came of many seeds.
#[derive(Debug)]
#[must_use]
pub struct Many {
    /// The first seed that broke a law.
    pub failure: Option<Run>,
    /// How many steps they took, all together.
    pub steps: u64,
    /// How many events were handled.
    pub handled: u64,
    /// How often each of [`What::ALL`] happened.
    pub counts: Vec<u64>,
}

/// Runs the seeds from 0 on, up to the first that breaks a law.
///
/// ```
/// use anabranch_sim::{Mutant, run_many};
/// let many = run_many(20, Mutant::None);
/// assert!(many.failure.is_none() && many.handled > 0);
/// ```
pub fn run_many(seeds: u64, mutant: Mutant) -> Many {
    let (failure, counts) = (None, vec![0; What::ALL.len()]);
    let many = Mutex::new(Many { failure, steps: 0, handled: 0, counts });
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                // They are begun in order, so that the first to fail is among those that are begun.
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let run = run(seed, mutant);
                    if run.failure.is_some() {
                        next.store(seeds, Ordering::Relaxed);
                    }
                    many.lock().expect("no thread panics with it").add(run);
                }
            });
        }
    });
    many.into_inner().expect("no thread panics with it")
}

impl Many {
    fn add(&mut self, run: Run) {
        self.steps += run.steps;
        self.handled += run.handled as u64;
        self.counts.iter_mut().zip(&run.counts).for_each(|(sum, count)| *sum += count);
        let is_first = self.failure.as_ref().is_none_or(|first| run.seed < first.seed);
        if run.failure.is_some() && is_first {
            self.failure = Some(run);
        }
    }
}
