//! Programs in Python that speak the protocol by hand.

use crate::support::Db;
use anabranch::prelude::*;
use anabranch_file::program::{Command, ProgramProjection, Programs};
use std::path::PathBuf;
use tempfile::TempDir;

/// A program in a directory of its own.
pub struct Script {
    directory: TempDir,
    pub programs: Programs,
}

impl Script {
    /// What it does comes after the protocol by hand.
    pub fn new(body: &str) -> Self {
        let script = Self { directory: tempfile::tempdir().unwrap(), programs: Programs::new() };
        script.becomes(body);
        script
    }

    /// From its next start on it does something else.
    pub fn becomes(&self, body: &str) {
        let text = format!("{}\n{body}\n", include_str!("raw.py"));
        std::fs::write(self.file("program.py"), text).unwrap();
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What it has written to a file, if it has.
    pub fn note(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.file(name)).ok()
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(["python3", "program.py"], self.directory.path());
        // What it says is written when it flushes, whatever the machine prefers.
        command.env.push(("PYTHONUNBUFFERED".to_owned(), String::new()));
        command
    }

    /// A projection with the tables of a recorder.
    pub fn projection(&self, db: &Db, log: &Log, name: &str) -> ProgramProjection {
        self.projection_by(db, log, name, self.command())
    }

    pub fn projection_by(
        &self,
        db: &Db,
        log: &Log,
        name: &str,
        mut command: Command,
    ) -> ProgramProjection {
        let table = db.table(name);
        command.env.push(("TABLE".to_owned(), table.clone()));
        let partition = Partition::entity("Order");
        ProgramProjection::new(&self.programs, log, name, partition, command)
            .with_set_up(vec![
                format!("CREATE TABLE {table} (position BIGINT, key TEXT, worker TEXT)"),
                format!(
                    "CREATE TABLE {table}_keys (key TEXT PRIMARY KEY, number BIGINT, wrong BIGINT)"
                ),
            ])
            .with_reset(vec![format!("DELETE FROM {table}"), format!("DELETE FROM {table}_keys")])
    }
}

/// Whether a process runs. One that has ended and was not waited for does not.
pub fn runs(id: &str) -> bool {
    let ps = std::process::Command::new("ps").args(["-o", "stat=", "-p", id.trim()]).output();
    let state = String::from_utf8(ps.unwrap().stdout).unwrap();
    !state.trim().is_empty() && !state.starts_with('Z')
}
