//! Completions and manual pages.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;

use process::{failure, run, stdout};
use std::process::Command;

#[test]
fn completions_know_the_commands_and_are_read_by_a_shell() {
    let here = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = stdout(&run(here.path(), &["completions", shell]));
        for word in ["why", "skip-to-head", "total-partitions", "log-format"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    let script = stdout(&run(here.path(), &["completions", "bash"]));
    std::fs::write(here.path().join("anabranch"), script).unwrap();
    let complete = "source ./anabranch; COMP_WORDS=(anabranch wh); COMP_CWORD=1; \
                    _anabranch anabranch wh anabranch; echo \"${COMPREPLY[@]}\"";
    let completed = Command::new("bash").args(["-c", complete]).current_dir(here.path()).output();
    assert_eq!(stdout(&completed.unwrap()).trim(), "why");
    assert!(failure(&run(here.path(), &["completions", "cmd"]), 2).contains("cmd"));
}

#[test]
fn each_command_has_a_page() {
    let here = tempfile::tempdir().unwrap();
    assert!(stdout(&run(here.path(), &["man"])).contains(".TH anabranch 1"));
    stdout(&run(here.path(), &["man", "share/man1"]));
    for page in ["anabranch.1", "anabranch-run.1", "anabranch-why.1", "anabranch-parked-retry.1"] {
        let text = std::fs::read_to_string(here.path().join("share/man1").join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
    assert!(!here.path().join("share/man1/anabranch-launch.1").exists(), "it is hidden");
    std::fs::write(here.path().join("file"), "").unwrap();
    assert!(failure(&run(here.path(), &["man", "file"]), 1).contains("cannot be written to file"));
}
