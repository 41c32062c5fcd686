//! Where the published schemas of Kubernetes, KEDA and the Prometheus operator come from, for the test of
//! `deploy/kubernetes/`.

use crate::prometheus::{alone, repeatedly};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where tests find the schemas: a folder with `python` (packages) and `node_modules`.
pub(crate) const SCHEMAS_VARIABLE: &str = "ANABRANCH_TEST_KUBERNETES_SCHEMAS";

/// Pinned: a new version of a schema is looked at before it is used.
const FROM_PYPI: [&str; 1] = ["kubernetes-validate==1.37.0"];
const FROM_NPM: [&str; 2] =
    ["@kubernetes-models/keda@2.0.0", "@kubernetes-models/prometheus-operator@6.0.0"];

/// The folder with the schemas: the one that the variable names, or one that is filled from PyPI and npm once.
pub(crate) fn folder(python: &Path, node: &Path, cache: &Path) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(SCHEMAS_VARIABLE) {
        return Ok(named.into());
    }
    let home = cache.join("kubernetes-schemas");
    let done = home.join("done");
    let wanted = [FROM_PYPI.as_slice(), FROM_NPM.as_slice()].concat().join("\n");
    let is_done = || std::fs::read_to_string(&done).is_ok_and(|is| is == wanted);
    if is_done() {
        return Ok(home);
    }
    let _alone = alone(cache)?;
    // Somebody else may have done it by now.
    if is_done() {
        return Ok(home);
    }
    eprintln!("fetching schemas of Kubernetes: pip and npm");
    std::fs::create_dir_all(&home)?;
    let packages = home.join("python");
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"])
        .arg(packages)
        .args(FROM_PYPI);
    repeatedly(|| succeed(&mut pip))?;
    let beside = node.parent().context("Node lies in a folder")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::iter::once(beside.to_owned()).chain(std::env::split_paths(&path));
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-save", "--ignore-scripts", "--prefix"])
        .arg(&home)
        .args(FROM_NPM);
    npm.env("PATH", std::env::join_paths(places)?);
    repeatedly(|| succeed(&mut npm))?;
    std::fs::write(&done, &wanted)?;
    Ok(home)
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!(
            "the test of deploy/kubernetes needs published schemas, and {command:?} failed: {}. Fetch them where \
             the registries can be reached, and set {SCHEMAS_VARIABLE} to that folder",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
