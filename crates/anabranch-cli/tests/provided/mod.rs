//! What `cargo xtask test` provides, or else `cargo xtask programs` finds. What is missing is a failure, never a skipped
//! test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

pub fn python() -> PathBuf {
    provided("ANABRANCH_TEST_PYTHON", 2)
}

pub fn node() -> PathBuf {
    provided("ANABRANCH_TEST_NODE", 3)
}

/// The folder of `prometheus` and `promtool`.
pub fn prometheus_programs() -> PathBuf {
    provided("ANABRANCH_TEST_PROMETHEUS_PROGRAMS", 4)
}

/// The folder with the published schemas of Kubernetes.
pub fn kubernetes_schemas() -> PathBuf {
    provided("ANABRANCH_TEST_KUBERNETES_SCHEMAS", 5)
}

/// The browser.
pub fn chromium() -> PathBuf {
    provided("ANABRANCH_TEST_CHROMIUM", 6)
}

/// The script that finds what keeps people from using a page.
pub fn axe() -> PathBuf {
    provided("ANABRANCH_TEST_AXE", 7)
}

/// In the line of this number.
fn provided(variable: &str, line: usize) -> PathBuf {
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return path.into();
    }
    let mut ask = Command::new(env!("CARGO"));
    let output = ask.args(["xtask", "programs"]).current_dir(root()).output().unwrap();
    let (said, wrong) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let found = said.lines().nth(line);
    found.unwrap_or_else(|| panic!("these tests need {variable}: {wrong}")).into()
}
