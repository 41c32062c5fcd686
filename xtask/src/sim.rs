//! Seeds of the simulation.

use anyhow::{Result, bail};
use std::process::Command;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut command = Command::new("cargo");
    // A million seeds are soon run if they are optimised.
    command.args(["run", "--quiet", "--release", "--package", "anabranch-sim", "--"]);
    let status = command.args(arguments).current_dir(crate::root()).status()?;
    if !status.success() {
        bail!("the simulation failed ({status})");
    }
    Ok(())
}
