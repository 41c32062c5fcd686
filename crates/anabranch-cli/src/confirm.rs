//! What cannot be taken back is done with `--yes` only.

use crate::refusal::Refusal;
use anabranch::errors::ErrorCode;
use clap::Args;

/// Whether it is meant.
#[derive(Args)]
pub(crate) struct Confirm {
    /// It is meant: this cannot be taken back
    #[arg(long)]
    yes: bool,
}

impl Confirm {
    /// Refuses what was not confirmed, and says what would happen.
    pub(crate) fn require(&self, consequence: &str) -> Result<(), Refusal> {
        match self.yes {
            true => Ok(()),
            false => {
                let said = format!("{consequence}; add --yes if that is meant");
                Err(Refusal::new(ErrorCode::NotConfirmed, said))
            }
        }
    }
}
