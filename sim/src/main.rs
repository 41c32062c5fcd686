//! Runs seeds of the simulation: one with its whole trace, or many.

#![allow(clippy::print_stdout)]

use anabranch_sim::{Mutant, What, run_many, run_with};
use std::process::ExitCode;

const HELP: &str = "\
anabranch-sim [--seed N [--steps N]] [--seeds N] [--mutant NAME]

  --seed N       run this seed and print every step
  --steps N      … up to this step
  --seeds N      run seeds 0 to N - 1 (default 1000) and print what happened how often
  --mutant NAME  break something on purpose: fence, split, horizon, epoch, stale, loss,
                 recreate";

#[derive(Default)]
struct Arguments {
    seed: Option<u64>,
    steps: Option<u64>,
    seeds: Option<u64>,
    mutant: Mutant,
}

fn main() -> ExitCode {
    match arguments() {
        Ok(Arguments { seed: Some(seed), steps, mutant, .. }) => {
            let run = run_with(seed, mutant, steps, true);
            println!("{run}");
            if run.failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Ok(Arguments { seeds, mutant, .. }) => many(seeds.unwrap_or(1000), mutant),
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments::default();
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        let value = given.next().ok_or_else(|| HELP.to_owned())?;
        let number = || value.parse().map_err(|_| format!("{flag}: `{value}` is no number"));
        match flag.as_str() {
            "--seed" => found.seed = Some(number()?),
            "--steps" => found.steps = Some(number()?),
            "--seeds" => found.seeds = Some(number()?),
            "--mutant" => found.mutant = value.parse()?,
            _ => return Err(HELP.to_owned()),
        }
    }
    Ok(found)
}

fn many(seeds: u64, mutant: Mutant) -> ExitCode {
    let many = run_many(seeds, mutant);
    if let Some(run) = many.failure {
        println!("{run}");
        return ExitCode::FAILURE;
    }
    for (what, count) in What::ALL.iter().zip(&many.counts) {
        println!("{count:>10}  {}", what.text());
    }
    println!("{seeds} seeds, {} steps, {} events handled", many.steps, many.handled);
    ExitCode::SUCCESS
}
