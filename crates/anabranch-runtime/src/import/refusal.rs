//! Why positions cannot be imported.

use anabranch_core::{Position, SLOTS};
use serde::{Serialize, Serializer};
use thiserror::Error;

/// Why positions cannot be imported, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No consumer can have this name.
    #[error("{0}")]
    Name(String),
    /// There cannot be so many partitions.
    #[error("there cannot be {total} partitions; use 1 to {SLOTS}")]
    Total {
        /// How many.
        total: u16,
    },
    /// One sequence in several partitions.
    #[error(
        "the global strategy is one sequence, so it has 1 partition and not {total}; choose the \
         strategy by which the old runners divided the events"
    )]
    Global {
        /// How many.
        total: u16,
    },
    /// A checkpoint of no partition.
    #[error(
        "there is a checkpoint for partition {index}, but {total} partitions are 0 to {}; correct \
         the number of partitions or leave it out", total.saturating_sub(1)
    )]
    NotOne {
        /// Its index.
        index: u16,
        /// How many there are.
        total: u16,
    },
    /// Two checkpoints of one partition.
    #[error("there are two checkpoints for partition {index}; keep the one that is true")]
    Double {
        /// Its index.
        index: u16,
    },
    /// Partitions without a checkpoint.
    #[error(
        "there is no checkpoint for partition {} of {total}; add it, with position 0 if it has \
         handled nothing", some(.indexes)
    )]
    Missing {
        /// Their indexes.
        indexes: Vec<u16>,
        /// How many there are.
        total: u16,
    },
    /// A position that the log does not have.
    #[error(
        "partition {index} stands at {position}, and the log ends at {head}; check that it is a \
         position of this log"
    )]
    BeyondHead {
        /// Its index.
        index: u16,
        /// Its position.
        position: Position,
        /// The end of the log.
        head: Position,
    },
    /// Checkpoints that differ in partitions that are no sets of slots.
    #[error(
        "{total} does not divide {SLOTS}, so a slot holds keys of several of these partitions, and they \
         stand between {lowest} and {highest}: let all of them stop at one position, or give {lowest} \
         for all if the handler bears to see events again"
    )]
    Uneven {
        /// How many there are.
        total: u16,
        /// The lowest.
        lowest: Position,
        /// The highest.
        highest: Position,
    },
    /// A consumer that is keyed otherwise.
    #[error(
        "it is partitioned by {found}, and these positions are for {wanted}; give its own strategy and \
         rule, or another name"
    )]
    OtherKeys {
        /// What is stored.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// A consumer that depends on all events from the first on.
    #[error(
        "it is a view, which is folded from the first event on: what the old runners have done is not \
         in its table; let it begin at the start"
    )]
    View,
    /// Somebody is at work.
    #[error("it is run by {}; stop that first", .workers.join(" and by "))]
    Running {
        /// By whom, in words.
        workers: Vec<String>,
    },
    /// A consumer that has handled something.
    #[error(
        "it has run and stands at {}: it would handle up to {repeats} positions again and leave out up \
         to {leaves_out}; replace its positions only if that is meant (--replace)",
        between(*.lowest, *.highest)
    )]
    HasRun {
        /// Its lowest position.
        lowest: Position,
        /// Its highest.
        highest: Position,
        /// How many positions a partition would repeat, at most.
        repeats: u64,
        /// How many positions a partition would leave out, at most.
        leaves_out: u64,
    },
    /// A replay that nobody has done yet.
    #[error(
        "it is asked to begin again after position {to}, which would follow the import; let a worker do \
         that first, or replace it too (--replace)"
    )]
    Replay {
        /// Where it is to begin.
        to: Position,
    },
}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How many indexes are written out.
const SHOWN: usize = 10;

fn some(indexes: &[u16]) -> String {
    let shown: Vec<String> = indexes.iter().take(SHOWN).map(u16::to_string).collect();
    let more = if indexes.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

fn between(lowest: Position, highest: Position) -> String {
    match lowest == highest {
        true => lowest.to_string(),
        false => format!("{lowest} to {highest}"),
    }
}
