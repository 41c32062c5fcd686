//! What goes to crates.io: complete metadata, and packages that compile by themselves.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

/// What `cargo metadata` says of a crate; empty where the manifest says nothing.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    /// `Some` of nothing: not meant to be published.
    publish: Option<Vec<String>>,
    description: Option<String>,
    license: Option<String>,
    readme: Option<String>,
    documentation: Option<String>,
    rust_version: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// Those of <https://crates.io/category_slugs> that are used here: a name that it does not know is dropped
/// there in silence.
const CATEGORIES: [&str; 7] = [
    "asynchronous",
    "command-line-interface",
    "command-line-utilities",
    "concurrency",
    "data-structures",
    "database",
    "development-tools::testing",
];

/// What each package holds beside its sources.
const FILES: [&str; 4] = ["Cargo.lock", "README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Packages everything that is meant to be published, and compiles what was packaged.
///
/// All at once, as a workspace, and by `cargo check`: `cargo package` would itself build each crate, and
/// everything below it once more, which takes over three minutes on two cores. The question is the same: is
/// there a file missing, or a dependency that only a path provides?
pub(crate) fn check(root: &Path) -> Result<()> {
    let metadata = ["metadata", "--no-deps", "--format-version=1", "--locked"];
    let output = Command::new("cargo").args(metadata).current_dir(root).output()?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let (published, private): (Vec<_>, Vec<_>) = metadata
        .packages
        .into_iter()
        .partition(|package| package.publish.as_ref().is_none_or(|to| !to.is_empty()));
    let problems: Vec<String> = published.iter().flat_map(problems).collect();
    if !problems.is_empty() {
        bail!("{} packages are not complete:\n  {}", problems.len(), problems.join("\n  "));
    }

    // With all of them here, nothing below asks the network.
    cargo(root, &["fetch", "--locked", "--quiet"])?;
    let mut package = vec!["package", "--workspace", "--no-verify", "--allow-dirty"];
    // Quiet, since it warns of examples that lie outside of the package, which is meant.
    package.extend(["--quiet", "--locked", "--offline"]);
    package.extend(private.iter().flat_map(|package| ["--exclude", &package.name]));
    cargo(root, &package)?;

    let unpacked = root.join("target/package/unpacked");
    unpack(root, &unpacked, &published)?;
    let everything = ["check", "--workspace", "--all-features", "--quiet", "--offline"];
    cargo(&unpacked, &everything).context("what was packaged does not compile by itself")?;
    println!("{} packages: metadata, files and build are fine", published.len());
    Ok(())
}

fn problems(package: &Package) -> Vec<String> {
    let mut missing = Vec::new();
    let texts = [
        ("description", &package.description),
        ("license", &package.license),
        ("readme", &package.readme),
        ("documentation", &package.documentation),
        ("rust-version", &package.rust_version),
    ];
    for (field, text) in texts {
        if text.as_ref().is_none_or(String::is_empty) {
            missing.push(format!("{} has no {field}", package.name));
        }
    }
    for (field, words) in [("keywords", &package.keywords), ("categories", &package.categories)] {
        if !(1..=5).contains(&words.len()) {
            missing.push(format!("{} has {} {field}, not 1 to 5", package.name, words.len()));
        }
    }
    let is_keyword = |word: &str| {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_+".contains(letter);
        word.len() <= 20
            && word.starts_with(|letter: char| letter.is_ascii_alphanumeric())
            && word.chars().all(allowed)
    };
    for word in package.keywords.iter().filter(|word| !is_keyword(word)) {
        missing.push(format!("{}: crates.io refuses the keyword `{word}`", package.name));
    }
    for slug in package.categories.iter().filter(|slug| !CATEGORIES.contains(&slug.as_str())) {
        missing.push(format!("{}: `{slug}` is no category known here", package.name));
    }
    missing
}

/// Lays the packages out as a workspace in which each finds the others, as it would find them on crates.io.
fn unpack(root: &Path, unpacked: &Path, published: &[Package]) -> Result<()> {
    if unpacked.exists() {
        std::fs::remove_dir_all(unpacked)?;
    }
    std::fs::create_dir_all(unpacked)?;
    let mut patches = String::new();
    for Package { name, version, .. } in published {
        let folder = format!("{name}-{version}");
        let archive = root.join(format!("target/package/{folder}.crate"));
        let mut tar = Command::new("tar");
        // `m`: files of now. Packages give every file one time, by which cargo would take it for unchanged.
        tar.arg("xzmf").arg(&archive).current_dir(unpacked);
        if !tar.status().context("cannot run tar")?.success() {
            bail!("cannot unpack {}", archive.display());
        }
        for file in FILES {
            if !unpacked.join(&folder).join(file).is_file() {
                bail!("the package of {name} has no {file}");
            }
        }
        patches.push_str(&format!("{name} = {{ path = \"{folder}\" }}\n"));
    }
    // With the profiles of the workspace, what is compiled of other people serves here too.
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let profiles = manifest.find("[profile.").map_or("", |start| &manifest[start..]);
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"anabranch*\"]\n\n[patch.crates-io]\n{patches}\n{profiles}"
    );
    std::fs::write(unpacked.join("Cargo.toml"), manifest)?;
    std::fs::copy(root.join("Cargo.lock"), unpacked.join("Cargo.lock"))?;
    Ok(())
}

fn cargo(folder: &Path, arguments: &[&str]) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).current_dir(folder);
    cargo.env("CARGO_TARGET_DIR", crate::root().join("target"));
    if !cargo.status().context("cannot run cargo")?.success() {
        bail!("cargo {} failed", arguments[0]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> Package {
        let text = |text: &str| Some(text.to_owned());
        Package {
            name: "anabranch".to_owned(),
            version: "0.1.0".to_owned(),
            publish: None,
            description: text("Events"),
            license: text("MIT"),
            readme: text("README.md"),
            documentation: text("https://docs.rs/anabranch"),
            rust_version: text("1.89"),
            keywords: vec!["events".to_owned()],
            categories: vec!["database".to_owned()],
        }
    }

    #[test]
    fn each_rule_can_fail() {
        assert_eq!(problems(&package()), Vec::<String>::new());
        let broken = |change: fn(&mut Package)| {
            let mut package = package();
            change(&mut package);
            problems(&package).len()
        };
        assert_eq!(broken(|package| package.description = None), 1);
        assert_eq!(broken(|package| package.license = Some(String::new())), 1);
        assert_eq!(broken(|package| package.readme = None), 1);
        assert_eq!(broken(|package| package.documentation = None), 1);
        assert_eq!(broken(|package| package.rust_version = None), 1);
        assert_eq!(broken(|package| package.keywords = vec!["e".to_owned(); 6]), 1);
        assert_eq!(broken(|package| package.keywords = vec!["two words".to_owned()]), 1);
        assert_eq!(broken(|package| package.categories.clear()), 1);
        assert_eq!(broken(|package| package.categories = vec!["data-bases".to_owned()]), 1);
    }
}
