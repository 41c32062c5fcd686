//! Licences, sources and known advisories of all dependencies, checked offline.
//!
//! What is allowed stands in `deps.toml`. The advisories there are kept by hand, since the public
//! database cannot be reached offline: a line for each crate that this project uses or could pull in.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    licences: BTreeSet<String>,
    banned: BTreeMap<String, String>,
    /// Crates that may be there in several versions, with the reason.
    several: BTreeMap<String, String>,
    advisory: Vec<Advisory>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advisory {
    krate: String,
    below: String,
    why: String,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

pub(crate) fn check(root: &Path) -> Result<()> {
    let rules = std::fs::read_to_string(root.join("deps.toml")).context("deps.toml")?;
    let rules: Rules = toml::from_str(&rules).context("deps.toml")?;
    let arguments = ["metadata", "--format-version=1", "--locked", "--all-features"];
    let output = Command::new("cargo").args(arguments).current_dir(root).output()?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let problems = problems(&rules, &metadata);
    if !problems.is_empty() {
        bail!("{} problems with dependencies:\n  {}", problems.len(), problems.join("\n  "));
    }
    println!("{} packages: licences, sources and advisories are fine", metadata.packages.len());
    Ok(())
}

fn problems(rules: &Rules, metadata: &Metadata) -> Vec<String> {
    let mut problems = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in &metadata.packages {
        let name = format!("{} {}", package.name, package.version);
        if !metadata.workspace_members.contains(&package.id) {
            versions.entry(&package.name).or_default().push(&package.version);
            let source = package.source.as_deref().unwrap_or("a path");
            if !source.contains("crates.io-index") {
                problems.push(format!("{name} comes from {source}, not from the registry"));
            }
        }
        if let Err(problem) = licence(rules, package.license.as_deref()) {
            problems.push(format!("{name}: {problem}"));
        }
        if let Some(why) = rules.banned.get(&package.name) {
            problems.push(format!("{name} is banned: {why}"));
        }
        for advisory in rules.advisory.iter().filter(|advisory| advisory.krate == package.name) {
            if numbers(&package.version) < numbers(&advisory.below) {
                problems.push(format!("{name} is below {}: {}", advisory.below, advisory.why));
            }
        }
    }
    for (name, versions) in versions {
        if versions.len() > 1 && !rules.several.contains_key(name) {
            problems.push(format!("{name} is there in several versions: {}", versions.join(", ")));
        }
    }
    problems
}

fn licence(rules: &Rules, licence: Option<&str>) -> Result<()> {
    let licence = licence.context("has no licence")?;
    let expression = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX)
        .map_err(|error| anyhow::anyhow!("licence `{licence}`: {}", error.reason))?;
    let allowed = |requirement: &spdx::LicenseReq| {
        requirement.license.id().is_some_and(|id| rules.licences.contains(id.name))
    };
    if !expression.evaluate(allowed) {
        bail!("the licence `{licence}` is not in deps.toml");
    }
    Ok(())
}

/// The numbers of a version, for comparing.
fn numbers(version: &str) -> Vec<u64> {
    let plain = version.split(['-', '+']).next().unwrap_or_default();
    plain.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, version: &str, licence: Option<&str>, source: &str) -> Vec<String> {
        let rules = Rules {
            licences: ["MIT".to_owned()].into(),
            banned: [("openssl".to_owned(), "we use rustls".to_owned())].into(),
            several: BTreeMap::new(),
            advisory: vec![Advisory {
                krate: "quick-xml".to_owned(),
                below: "0.41.0".to_owned(),
                why: "denial of service".to_owned(),
            }],
        };
        let package = Package {
            id: "x".to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            license: licence.map(str::to_owned),
            source: Some(source.to_owned()),
        };
        problems(&rules, &Metadata { packages: vec![package], workspace_members: BTreeSet::new() })
    }

    #[test]
    fn each_rule_can_fail() {
        let registry = "registry+crates.io-index";
        assert!(found("a", "1.0.0", Some("MIT OR GPL-3.0"), registry).is_empty());
        assert_eq!(found("a", "1.0.0", Some("GPL-3.0"), registry).len(), 1);
        assert_eq!(found("a", "1.0.0", None, registry).len(), 1);
        assert_eq!(found("a", "1.0.0", Some("MIT"), "git+somewhere").len(), 1);
        assert_eq!(found("openssl", "1.0.0", Some("MIT"), registry).len(), 1);
        assert_eq!(found("quick-xml", "0.9.1", Some("MIT"), registry).len(), 1);
        assert!(found("quick-xml", "0.41.0", Some("MIT"), registry).is_empty());
    }
}
