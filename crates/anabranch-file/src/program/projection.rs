//! A projection that is a program: exactly once.

use super::children::Children;
use super::command::Command;
use super::inside::{self, Items};
use super::programs::Programs;
use crate::sql::Hooks;
use anabranch::{Event, HandlerResult, Log, Partition, Position, Projection, Settings, Tx};

/// A program that keeps tables up to date with events: what it answers commits together with the cursor.
pub struct ProgramProjection {
    name: String,
    partition: Partition,
    settings: Settings,
    hooks: Hooks,
    log: Log,
    children: Children,
}

impl ProgramProjection {
    /// A program for the events of a log, under a name.
    #[must_use]
    pub fn new(
        programs: &Programs,
        log: &Log,
        name: impl Into<String>,
        partition: Partition,
        command: Command,
    ) -> Self {
        let name = name.into();
        let children = Children::new(programs, log, &name, "program", command);
        let (settings, hooks) = (Settings::default(), Hooks::default());
        Self { name, partition, settings, hooks, log: log.clone(), children }
    }

    /// What else it chooses.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The statements that make its tables, the first time that it runs.
    #[must_use]
    pub fn with_set_up(mut self, statements: Vec<String>) -> Self {
        self.hooks.setup = statements.into_iter().map(Into::into).collect();
        self
    }

    /// The statements that empty its tables before a replay from the start. Without them a replay is refused.
    #[must_use]
    pub fn with_reset(mut self, statements: Vec<String>) -> Self {
        self.hooks.reset = Some(statements.into_iter().map(Into::into).collect());
        self
    }

    pub(crate) fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }
}

impl Projection for ProgramProjection {
    fn name(&self) -> &str {
        &self.name
    }

    fn partition(&self) -> Partition {
        self.partition.clone()
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.handle_batch(std::slice::from_ref(event), tx).await
    }

    async fn handle_batch(&self, events: &[Event], tx: &mut Tx) -> HandlerResult {
        inside::handle(&self.children, &self.log, Items::Events(events), tx).await.map(drop)
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        self.hooks.set_up(false, tx).await
    }

    async fn reset(&self, to: Position, tx: &mut Tx) -> HandlerResult {
        self.hooks.reset(to, false, tx).await
    }
}
