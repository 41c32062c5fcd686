//! Programs that are started by the launcher end with the process that has started them, however that ends.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anabranch::backend::RawTx;
use anabranch::prelude::*;
use anabranch_file::program::{Command, ProgramProjection, Programs};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const DIRECTORY: &str = "ANABRANCH_TEST_DIRECTORY";
const LAUNCHER: &str = env!("CARGO_BIN_EXE_anabranch");

/// It greets, takes a batch, says who it is, and does not look at its input any more.
const IGNORES_ITS_INPUT: &str = r#"
import json, os, sys, time
sys.stdin.readline()
print(json.dumps({"hello": {"protocol": 1}}), flush=True)
number = json.loads(sys.stdin.readline())["batch"]
with open("id.part", "w") as file:
    file.write(str(os.getpid()))
os.rename("id.part", "id")
time.sleep(1000)
"#;

fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited a minute for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process runs. One that has ended and was not waited for does not.
fn runs(id: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(id).join("status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

/// What the process does that is killed: this same test, called with a directory.
fn be_the_parent(directory: PathBuf) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite:{}", directory.join("log.db").display());
        let log = anabranch::connect(&url).await.unwrap();
        let order = "Order:1".parse().unwrap();
        log.append(&order, Expected::Any, [NewEvent::new("Placed", 1)]).await.unwrap();
        let command = Command::new(["python3", "-c", IGNORES_ITS_INPUT], directory);
        let programs = Programs::with_launcher(LAUNCHER);
        let all = Partition::global();
        let projection = ProgramProjection::new(&programs, &log, "p", all, command);
        ReplicaSet::new("s").projection(projection).catch_up(&log).await.unwrap();
    });
}

#[test]
fn a_process_that_is_killed_takes_its_programs_along() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return be_the_parent(directory.into());
    }
    let directory = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    let mut parent = std::process::Command::new(this)
        .args(["--exact", "a_process_that_is_killed_takes_its_programs_along"])
        .env(DIRECTORY, directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let id = directory.path().join("id");
    let id = until("the program", || std::fs::read_to_string(&id).ok());
    assert!(runs(&id));
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("the end of the program", || (!runs(&id)).then_some(()));
}

/// The signal comes when the thread has ended that started the program, and threads of a runtime come and go.
#[test]
fn a_program_outlives_the_thread_that_called_it_first() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let says_who_it_is = IGNORES_ITS_INPUT.replace(
        "time.sleep(1000)",
        "while True:\n    print(json.dumps({'done': number}), flush=True)\n    line = sys.stdin.readline()\n    if not line:\n        break\n    number = json.loads(line)['batch']",
    );
    let log = runtime.block_on(anabranch::connect("sqlite::memory:")).unwrap();
    let command = Command::new(["python3", "-c", &says_who_it_is], directory.path());
    let programs = Programs::with_launcher(LAUNCHER);
    let projection = ProgramProjection::new(&programs, &log, "p", Partition::global(), command);
    let handle = || {
        std::thread::scope(|scope| {
            let handled = scope.spawn(|| {
                runtime.handle().block_on(async {
                    let mut tx = Tx::on(&log.database(), Duration::from_secs(1));
                    projection.handle_batch(&[], &mut tx).await
                })
            });
            handled.join().unwrap().unwrap();
        });
        let id = std::fs::read_to_string(directory.path().join("id")).unwrap();
        std::fs::remove_file(directory.path().join("id")).unwrap();
        id
    };
    let id = handle();
    // A new one would have written who it is.
    std::fs::write(directory.path().join("id"), &id).unwrap();
    assert_eq!(handle(), id);
    assert!(runs(&id));
}

fn launch(arguments: &[&str]) -> std::process::Output {
    std::process::Command::new(LAUNCHER).arg("launch").args(arguments).output().unwrap()
}

#[test]
fn nothing_is_started_for_a_parent_that_is_gone() {
    let output = launch(&["--parent", "1", "--", "sh", "-c", "echo started"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("process 1, which has started it, is gone"), "{said}");
    assert!(!output.status.success() && output.stdout.is_empty());
}

#[test]
fn the_launcher_becomes_the_program() {
    let parent = std::process::id().to_string();
    let output =
        launch(&["--parent", &parent, "--", "sh", "-c", "echo \"$@\"; exit 7", "-", "--a", "b c"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), &b"--a b c\n"[..]));
    let output = launch(&["--parent", &parent, "--", "no-such-program"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot start `no-such-program`"), "{said}");
}
