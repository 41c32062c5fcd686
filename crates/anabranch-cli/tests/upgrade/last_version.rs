//! The program of the last version, built once from the repository's own history.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The last version: workers of this commit run beside this version's. Set it to the commit of a
/// release when the schema changes after it.
const COMMIT: &str = "7f40c9585285deb768d06d1b59bab7da0524762d";
/// The schema that it knows.
pub const SCHEMA: i64 = 5;

/// The program of the last version. The first test that asks builds it; others wait for that.
pub fn program() -> PathBuf {
    let short = &COMMIT[..7];
    let folder = target().join("upgrade").join(short);
    let program = folder.join(format!("anabranch{}", std::env::consts::EXE_SUFFIX));
    std::fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    // Tests are processes of their own. The lock ends with the process, however it ends.
    lock.lock().unwrap();
    if !program.exists() {
        let built = build(&check_out(&folder), &folder.join("build"));
        // Renamed last, so that what is there is whole.
        let copy = folder.join("copied");
        std::fs::copy(built, &copy).unwrap();
        std::fs::rename(copy, &program).unwrap();
        for spent in ["src", "build"] {
            std::fs::remove_dir_all(folder.join(spent)).unwrap();
        }
    }
    program
}

/// The folder of all that is built.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()
}

/// The sources of the commit, without touching the repository's own index and files.
fn check_out(folder: &Path) -> PathBuf {
    let root = git(Path::new(env!("CARGO_MANIFEST_DIR")), &["rev-parse", "--show-toplevel"]);
    let root = said(&root).unwrap_or_else(|error| {
        panic!(
            "the upgrade tests build the last version from the history of the repository, and git \
             finds none here: {error}; run them in a clone of the repository"
        )
    });
    let (root, commit) = (Path::new(root.trim()), format!("{COMMIT}^{{commit}}"));
    if let Err(error) = said(&git(root, &["cat-file", "-e", &commit])) {
        panic!(
            "the upgrade tests build the last version, commit {COMMIT}, which this clone does not \
             hold: {error}; if it is shallow, run `git fetch --unshallow`, else `git fetch origin`"
        );
    }
    let (sources, index) = (folder.join("src"), folder.join("index"));
    let with_index = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(root).env("GIT_INDEX_FILE", &index).args(arguments);
        said(&git.output().unwrap()).unwrap();
    };
    with_index(&["read-tree", COMMIT]);
    let prefix = format!("--prefix={}/", sources.display());
    with_index(&["checkout-index", "--all", "--force", &prefix]);
    sources
}

fn git(directory: &Path, arguments: &[&str]) -> Output {
    let git = Command::new("git").current_dir(directory).args(arguments).output();
    git.unwrap_or_else(|error| panic!("the upgrade tests need git: {error}"))
}

/// Builds the sources in a folder of their own; returns the program.
fn build(sources: &Path, folder: &Path) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .current_dir(sources)
        .args(["build", "--locked", "--package", "anabranch-cli"])
        .env("CARGO_TARGET_DIR", folder)
        .env_remove("CARGO_BUILD_TARGET");
    let built = said(&build.output().unwrap());
    built.unwrap_or_else(|error| panic!("the last version, {COMMIT}, does not build: {error}"));
    folder.join("debug").join(format!("anabranch{}", std::env::consts::EXE_SUFFIX))
}

fn said(output: &Output) -> Result<String, String> {
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
