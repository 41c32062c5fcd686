//! What the tables hold, against what the documents were made of.

use crate::contract::Contract;
use crate::flaw::{Flaw, make};
use crate::intake::Intake;
use crate::start::Outcome;
use crate::target::{batch, row};
use crate::text::grouped;
use anabranch::Log;
use std::collections::BTreeMap;

/// What must come of the documents.
struct Expected {
    /// The rows of each table.
    rows: [usize; 5],
    /// The sum of all incomes.
    cents: usize,
    /// The documents that fail.
    flaws: BTreeMap<String, Flaw>,
}

impl Expected {
    fn of(intake: Intake) -> Self {
        let mut expected = Self { rows: [0; 5], cents: 0, flaws: BTreeMap::new() };
        for number in 1..=intake.rows {
            match make(intake.seed, number).expected {
                Ok(application) => {
                    let rows = expected.rows.iter_mut().zip(application.rows());
                    rows.for_each(|(sum, rows)| *sum += rows);
                    expected.cents += application.incomes.iter().map(|it| it.cents).sum::<usize>();
                }
                Err(flaw) => {
                    expected.flaws.insert(number.to_string(), flaw);
                }
            }
        }
        expected
    }
}

/// Prints what was found; what differs from what must be is an error.
pub async fn prove(log: &Log, contract: &Contract) -> Outcome<()> {
    let intake = Intake::read(log).await?;
    let expected = Expected::of(intake);
    let mut wrong = sessions(log, contract).await?;

    println!("\ntables");
    for (table, expected) in contract.tables.iter().zip(expected.rows) {
        let select = format!("SELECT count(*) AS n FROM \"{}\"", table.name);
        let found: usize = row(log, select).await?.get("n")?;
        let (of, line) = (grouped(expected), grouped(found));
        println!("  {:<12} {line:>7} of {of} rows", table.name);
        if found != expected {
            wrong.push(format!("{} has {found} rows, not {expected}", table.name));
        }
    }
    let sum = "SELECT CAST(round(coalesce(sum(amount), 0) * 100) AS bigint) AS cents FROM income";
    let cents: usize = row(log, sum.to_owned()).await?.get("cents")?;
    let euros = |cents: usize| format!("{}.{:02}", grouped(cents / 100), cents % 100);
    println!("  all incomes together {} of {}", euros(cents), euros(expected.cents));
    if cents != expected.cents {
        wrong.push(format!("incomes are {}, not {}", euros(cents), euros(expected.cents)));
    }

    wrong.extend(failures(log, contract, &expected).await?);
    if !wrong.is_empty() {
        return Err(format!("this is not as it must be:\n  {}", wrong.join("\n  ")).into());
    }
    println!("\nverified: every document once, all of it or nothing, every failure as expected");
    Ok(())
}

/// The proof of the batch itself: who handled what, nothing twice, nothing missing.
async fn sessions(log: &Log, contract: &Contract) -> Outcome<Vec<String>> {
    let verified = batch(contract).verify(log).await?;
    println!("\nsessions");
    for it in &verified.sessions {
        let (rows, part) = (grouped(it.rows as usize), &it.part);
        println!("  {}  {part:<8} {rows:>7} rows, {} to {}", it.session, it.first, it.last);
    }
    println!(
        "  {} documents: {} converted, {} failed, {} not processed, {} collisions",
        grouped(verified.rows as usize),
        grouped(verified.succeeded as usize),
        verified.failed,
        verified.missing + verified.claimed,
        verified.collisions.len()
    );
    Ok(verified.violations(true))
}

/// Each flaw must have been found, and nothing else.
async fn failures(log: &Log, contract: &Contract, expected: &Expected) -> Outcome<Vec<String>> {
    let mut wrong = Vec::new();
    let mut found: BTreeMap<Flaw, (usize, String)> = BTreeMap::new();
    let failed = batch(contract).failed(log, usize::MAX >> 1).await?;
    for it in &failed {
        match expected.flaws.get(&it.key) {
            Some(flaw) if it.error.starts_with(flaw.reason()) => {
                let (count, _) = found.entry(*flaw).or_insert((0, it.error.clone()));
                *count += 1;
            }
            Some(flaw) => wrong.push(format!("{} has {flaw:?} and says: {}", it.key, it.error)),
            None => wrong.push(format!("{} is sound and says: {}", it.key, it.error)),
        }
    }
    println!("\nfailures");
    for flaw in Flaw::ALL {
        let must = expected.flaws.values().filter(|other| **other == flaw).count();
        let (count, reason) = found.remove(&flaw).unwrap_or_default();
        if must != count {
            wrong.push(format!("{count} of {must} documents failed for {flaw:?}"));
        }
        if count > 0 {
            let name = format!("{flaw:?}");
            println!("  {count:>4} × {name:<17} {reason}");
        }
    }
    Ok(wrong)
}
