//! The command as a process, and what it said.

use std::path::Path;
use std::process::{Command, Output, Stdio};

pub fn anabranch(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.current_dir(directory).env_remove("ANABRANCH_URL").env_remove("RUST_LOG");
    command.env_remove("DATABASE_URL");
    command
}

pub fn run(directory: &Path, arguments: &[&str]) -> Output {
    anabranch(directory).args(arguments).stdin(Stdio::null()).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn failure(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(output.stdout.is_empty(), "errors go to standard error");
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn postgres() -> String {
    std::env::var("ANABRANCH_TEST_POSTGRES").expect("these tests need PostgreSQL: cargo xtask test")
}
