//! The laws hold for every seed, and the simulation would show it if they did not.

use anabranch_sim::{Mutant, Run, Violation, What, run, run_many};
use std::time::Instant;

const SEEDS: u64 = 10_000;
/// Seeds in which everything happens that can.
const EVERYTHING: u64 = 1_000;
/// So many seeds find any mutant; most of them take a few dozen.
const ENOUGH: u64 = 20_000;

#[test]
fn the_laws_hold_for_ten_thousand_seeds() {
    let begun = Instant::now();
    let many = run_many(SEEDS, Mutant::None);
    assert!(many.failure.is_none(), "{}", many.failure.unwrap());
    let (steps, handled) = (many.steps, many.handled);
    println!("{SEEDS} seeds, {steps} steps, {handled} events, {:?}", begun.elapsed());
}

#[test]
fn everything_happens_that_can() {
    let many = run_many(EVERYTHING, Mutant::None);
    for (what, count) in What::ALL.iter().zip(many.counts) {
        assert!(count > 0, "never in {EVERYTHING} seeds: {}", what.text());
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..100 {
        let (one, other) = (run(seed, Mutant::None), run(seed, Mutant::None));
        assert_eq!((one.hash, one.steps), (other.hash, other.steps), "seed {seed}");
    }
    assert_ne!(run(0, Mutant::None).hash, run(1, Mutant::None).hash);
}

/// The first run in which a mutant breaks a law.
#[allow(clippy::print_stdout)]
fn caught(mutant: Mutant) -> (Run, Violation) {
    let many = run_many(ENOUGH, mutant);
    let run = many.failure.unwrap_or_else(|| panic!("{mutant:?} breaks no law in {ENOUGH} seeds"));
    let violation = run.failure.clone().expect("a law that is broken");
    println!("{mutant:?}: {} seeds, {violation}", run.seed + 1);
    (run, violation)
}

#[test]
fn a_broken_fence_is_caught() {
    let laws = ["fence", "once", "order", "cover"];
    assert!(laws.contains(&caught(Mutant::Fence).1.law));
    assert!(laws.contains(&caught(Mutant::Epoch).1.law));
}

#[test]
fn a_broken_split_is_caught() {
    assert_eq!(caught(Mutant::Split).1.law, "no skip");
    assert!(["fence", "once", "order"].contains(&caught(Mutant::Stale).1.law));
}

#[test]
fn a_broken_horizon_is_caught() {
    assert_eq!(caught(Mutant::Horizon).1.law, "no skip");
}

#[test]
fn a_lane_that_does_not_learn_of_its_loss_is_caught() {
    assert_eq!(caught(Mutant::Loss).1.law, "liveness");
}

#[test]
fn generations_that_overlap_are_caught() {
    assert_eq!(caught(Mutant::Recreate).1.law, "recreate");
}

#[test]
fn a_failing_seed_tells_how_to_see_it_again() {
    let (first, _) = caught(Mutant::Horizon);
    let again = run(first.seed, Mutant::Horizon);
    assert_eq!((again.hash, &again.failure), (first.hash, &first.failure));
    let shown = first.to_string();
    assert!(shown.contains(&format!("seed {}, step {}: no skip", first.seed, first.steps)));
    assert!(shown.ends_with(&format!("--seed {} --mutant horizon", first.seed)));
    assert!(first.trace.len() >= 30);
}
