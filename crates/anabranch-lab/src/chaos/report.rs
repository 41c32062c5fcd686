//! What is printed at the end.

use super::deaths::Deaths;
use super::faults::FaultCounts;
use super::pauses::Pauses;
use super::proof::Proof;
use crate::percentiles::Percentiles;
use serde::Serialize;
use std::fmt;

/// How it went.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) seconds: f64,
    pub(crate) events: u64,
    pub(crate) handled: u64,
    /// Of how many events another was to be made; what is wrong with those is in `violations`.
    pub(crate) made: u64,
    /// How often all that was handled until then was proven from the record.
    pub(crate) audits: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) out_of_order: u64,
    pub(crate) faults: FaultCounts,
    #[serde(flatten)]
    pub(crate) deaths: Deaths,
    pub(crate) takeover_ms: Percentiles,
    pub(crate) takeover_hang_ms: Percentiles,
    pub(crate) handover_pause_ms: Percentiles,
    pub(crate) unmoved_gap_ms: Percentiles,
    pub(crate) unmoved_gap_quiet_ms: Percentiles,
    pub(crate) resume_ms: Percentiles,
    /// What must not be, in words.
    pub(crate) violations: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(
        (seed, seconds): (u64, f64),
        (proof, made, audits): (Proof, u64, u64),
        (pauses, deaths): (Pauses, Deaths),
        faults: FaultCounts,
        mut violations: Vec<String>,
    ) -> Self {
        violations.extend(proof.examples);
        Self {
            seed,
            seconds,
            events: proof.events,
            handled: proof.handled,
            made,
            audits,
            lost: proof.lost,
            doubled: proof.doubled,
            out_of_order: proof.out_of_order,
            faults,
            deaths,
            takeover_ms: pauses.takeover,
            takeover_hang_ms: pauses.takeover_hang,
            handover_pause_ms: pauses.handover,
            unmoved_gap_ms: pauses.unmoved_gap,
            unmoved_gap_quiet_ms: pauses.unmoved_gap_quiet,
            resume_ms: pauses.resume,
            violations,
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.lost + self.doubled + self.out_of_order == 0 && self.violations.is_empty()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "events        {:>9}", self.events)?;
        writeln!(f, "handled       {:>9}", self.handled)?;
        writeln!(f, "made of them  {:>9}", self.made)?;
        writeln!(f, "audits        {:>9}", self.audits)?;
        writeln!(f, "lost          {:>9}", self.lost)?;
        writeln!(f, "doubled       {:>9}", self.doubled)?;
        writeln!(f, "out of order  {:>9}", self.out_of_order)?;
        writeln!(f, "faults        {}", self.faults)?;
        writeln!(f, "deaths        {}", self.deaths)?;
        for (name, pauses) in [
            ("takeover after a kill", self.takeover_ms),
            ("takeover after a hang", self.takeover_hang_ms),
            ("pause of moved keys", self.handover_pause_ms),
            ("wait of unmoved keys", self.unmoved_gap_ms),
            ("the same in quiet times", self.unmoved_gap_quiet_ms),
            ("on after a restart", self.resume_ms),
        ] {
            writeln!(f, "{name:<23} {pauses}")?;
        }
        for violation in &self.violations {
            writeln!(f, "VIOLATION  {violation}")?;
        }
        let Self { seed, seconds, .. } = self;
        match self.is_good() {
            true => writeln!(f, "verified from the tables: every event once and in order")?,
            false => writeln!(f, "NOT GOOD: see above")?,
        }
        write!(f, "seed {seed}; the same again: anabranch chaos --seed {seed} --seconds {seconds}")
    }
}
