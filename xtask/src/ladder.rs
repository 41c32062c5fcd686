//! Where PostgreSQL's programs come from, from the nearest to the farthest.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

/// Where tests find a server that is there already.
pub(crate) const URL_VARIABLE: &str = "ANABRANCH_TEST_POSTGRES";
/// Where tests that start a server of their own find its programs.
pub(crate) const PROGRAMS_VARIABLE: &str = "ANABRANCH_TEST_POSTGRES_PROGRAMS";
/// Where tests find a connection pooler.
pub(crate) const POOLER_VARIABLE: &str = "ANABRANCH_TEST_PGBOUNCER";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    /// A server that somebody else runs.
    Env,
    /// Programs on this machine.
    Machine,
    /// The system's package manager, where we may use it.
    System,
    /// A package of binaries from npm, which needs no root.
    Npm,
    /// A package of binaries from PyPI, which needs no root.
    Pip,
}

pub(crate) const ALL: [Rung; 5] = [Rung::Env, Rung::Machine, Rung::System, Rung::Npm, Rung::Pip];

impl FromStr for Rung {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "env" => Self::Env,
            "machine" => Self::Machine,
            "system" => Self::System,
            "npm" => Self::Npm,
            "pip" => Self::Pip,
            _ => bail!("there is no `{name}`; use env, machine, system, npm or pip"),
        })
    }
}

/// What the ladder leads to.
pub(crate) enum Found {
    Url(String),
    Programs(PathBuf),
}

/// Climbs until something is found. `cache` keeps what was fetched.
pub(crate) fn climb(rungs: &[Rung], cache: &Path) -> Result<Found> {
    for rung in rungs {
        let found = match rung {
            Rung::Env => {
                std::env::var(URL_VARIABLE).ok().filter(|url| !url.is_empty()).map(Found::Url)
            }
            Rung::Machine => on_this_machine().map(Found::Programs),
            Rung::System => from_system().map(Found::Programs),
            Rung::Npm => from_npm(cache).map(Found::Programs),
            Rung::Pip => from_pip(cache).map(Found::Programs),
        };
        if let Some(found) = found {
            return Ok(found);
        }
    }
    bail!(
        "the tests need PostgreSQL and none was found: install it (Debian: apt-get install \
         postgresql; macOS: brew install postgresql), or set {URL_VARIABLE} to the URL of a server \
         where the tests may create databases, schemas and roles"
    )
}

/// The programs of a server, for tests that start one of their own.
pub(crate) fn programs(cache: &Path) -> Result<PathBuf> {
    match climb(&ALL[1..], cache)? {
        Found::Programs(bin) => Ok(bin),
        Found::Url(_) => bail!("only a server that is there already has a URL"),
    }
}

/// PgBouncer, a connection pooler.
pub(crate) fn pooler() -> Result<PathBuf> {
    let installed = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
        places.map(|place| place.join("pgbouncer")).find(|program| program.is_file())
    };
    let found = installed().or_else(|| install("pgbouncer").then(installed).flatten());
    found.context(
        "the tests of connection poolers need PgBouncer and none was found: install it (Debian: \
         apt-get install pgbouncer; macOS: brew install pgbouncer)",
    )
}

fn is_complete(bin: &Path) -> bool {
    ["postgres", "initdb"].iter().all(|program| bin.join(program).is_file())
}

fn on_this_machine() -> Option<PathBuf> {
    let configured = output(Command::new("pg_config").arg("--bindir"));
    let mut places: Vec<PathBuf> = configured.iter().map(|path| path.trim().into()).collect();
    for parent in ["/usr/lib/postgresql", "/usr", "/opt/homebrew/opt", "/usr/local/opt"] {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        let named = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            parent.ends_with("postgresql")
                || name.starts_with("pgsql-")
                || name.starts_with("postgresql")
        };
        let mut homes: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(named).collect();
        homes.sort_by_key(|home| std::cmp::Reverse(major_version(home)));
        places.extend(homes.into_iter().map(|home| home.join("bin")));
    }
    places.push("/usr/local/pgsql/bin".into());
    places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    places.into_iter().find(|bin| is_complete(bin))
}

/// The number at the end of a folder's name: the newest PostgreSQL is taken first.
fn major_version(home: &Path) -> u32 {
    let name = home.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let number = name.rsplit(['-', '@']).next().unwrap_or_default();
    number.split('.').next().unwrap_or_default().parse().unwrap_or(0)
}

fn from_system() -> Option<PathBuf> {
    install("postgresql").then(on_this_machine).flatten()
}

/// Only as root, and only with a manager that installs without questions.
pub(crate) fn install(package: &str) -> bool {
    if !crate::postgres::is_root() || output(Command::new("apt-get").arg("--version")).is_none() {
        return false;
    }
    eprintln!("installing {package} with apt-get");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    apt(&["update"]);
    apt(&["install", "--yes", "--no-install-recommends", package])
}

/// This machine, as packages of npm that hold binaries are named: `linux-x64`.
pub(crate) fn npm_platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}-{machine}")
}

fn from_npm(cache: &Path) -> Option<PathBuf> {
    let name = format!("@embedded-postgres/{}", npm_platform());
    let home = cache.join("postgres-npm");
    let native = home.join("package/native");
    if !is_complete(&native.join("bin")) {
        eprintln!("fetching PostgreSQL: npm pack {name}");
        std::fs::create_dir_all(&home).ok()?;
        let packed =
            output(Command::new("npm").args(["pack", "--silent", &name]).current_dir(&home))?;
        let archive = packed.lines().last()?.trim().to_owned();
        output(Command::new("tar").args(["xzf", &archive]).current_dir(&home))?;
        link(&native).ok()?;
    }
    let bin = native.join("bin");
    is_complete(&bin).then_some(bin)
}

/// npm packages hold no symbolic links, so this one lists those that it needs.
fn link(native: &Path) -> Result<()> {
    #[derive(serde::Deserialize)]
    struct Link {
        source: String,
        target: String,
    }
    let list = std::fs::read_to_string(native.join("pg-symlinks.json"))?;
    let links: Vec<Link> = serde_json::from_str(&list)?;
    let root = native.parent().context("native lies in the package")?;
    for Link { source, target } in links {
        let (source, target) = (root.join(source), root.join(target));
        if !target.exists() {
            std::os::unix::fs::symlink(source, target)?;
        }
    }
    Ok(())
}

fn from_pip(cache: &Path) -> Option<PathBuf> {
    let home = cache.join("postgres-pip");
    let bin = home.join("pgserver/pginstall/bin");
    if !is_complete(&bin) {
        eprintln!("fetching PostgreSQL: pip download pgserver");
        std::fs::create_dir_all(&home).ok()?;
        let pip = ["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "pgserver"];
        output(Command::new("python3").args(pip).current_dir(&home))?;
        let wheels = std::fs::read_dir(&home).ok()?.flatten().map(|entry| entry.path());
        let wheel =
            wheels.into_iter().find(|path| path.extension().is_some_and(|it| it == "whl"))?;
        let unzip = ["-m", "zipfile", "-e"];
        output(Command::new("python3").args(unzip).arg(wheel).arg(".").current_dir(&home))?;
        let make_executable = "chmod -R a+rX . && chmod a+x pgserver/pginstall/bin/*";
        output(Command::new("sh").args(["-c", make_executable]).current_dir(&home))?;
    }
    is_complete(&bin).then_some(bin)
}

/// What a command printed, if it worked.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
