//! A pool of a program whose effects are in the database: exactly once.

use super::children::Children;
use super::command::Command;
use super::inside::{self, Items};
use super::programs::Programs;
use anabranch::workpool::{Pool, PoolSettings, Task};
use anabranch::{HandlerResult, Log, Tx};
use serde_json::value::RawValue;

/// A program that runs tasks: what it answers commits together with the end of the task.
pub struct ProgramPool {
    settings: PoolSettings,
    code: Option<String>,
    log: Log,
    children: Children,
}

impl ProgramPool {
    /// A program for the tasks of a pool.
    #[must_use]
    pub fn new(
        programs: &Programs,
        log: &Log,
        name: &str,
        settings: PoolSettings,
        command: Command,
    ) -> Self {
        let children = Children::new(programs, log, name, "pool", command);
        Self { settings, code: None, log: log.clone(), children }
    }

    /// Which code it has: see [`Settings::code`](anabranch::Settings::code).
    #[must_use]
    pub fn with_code(mut self, code: String) -> Self {
        self.code = Some(code);
        self
    }
}

impl Pool for ProgramPool {
    type Output = Option<Box<RawValue>>;

    fn name(&self) -> &str {
        self.children.consumer()
    }

    fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    fn settings(&self) -> PoolSettings {
        self.settings
    }

    /// A program has its time-out until its first query, whatever the task before it did.
    fn begins_in_open_transaction(&self) -> bool {
        false
    }

    async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult<Self::Output> {
        inside::handle(&self.children, &self.log, Items::Task(task), tx).await
    }
}
