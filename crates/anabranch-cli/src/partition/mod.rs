//! Keys, slots and partitions.
//!
//! | module | subject |
//! |---|---|
//! | `explain` | where a key goes |
//! | `classify` | which strategy fits |

mod classify;
mod explain;

pub(crate) use explain::{hashed, really, registered};

use clap::Subcommand;
use std::process::ExitCode;

/// What to know about partitions.
#[derive(Subcommand)]
pub(crate) enum Partition {
    Explain(explain::Explain),
    Classify(classify::Classify),
}

impl Partition {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Explain(explain) => explain.run().await,
            Self::Classify(classify) => classify.run(),
        }
    }
}
