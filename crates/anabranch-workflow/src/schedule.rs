//! Commands that come again and again.

use crate::Workflow;
use crate::reactions::Shown;
use anabranch_core::Cron;
use std::fmt;

/// A command that is sent whenever a [`Cron`] is due.
///
/// ```
/// # use anabranch_core::{Cron, CronError};
/// # use anabranch_workflow::{Schedule, Workflow};
/// # fn f<W: Workflow>(close_the_day: W::Command) -> Result<Schedule<W>, CronError> {
/// let midnight = Cron::parse("@daily", "Europe/Berlin")?;
/// let schedule = Schedule::new("close-the-day", midnight, "shop-1", close_the_day);
/// # Ok(schedule) }
/// ```
pub struct Schedule<W: Workflow> {
    name: String,
    cron: Cron,
    id: String,
    command: W::Command,
}

impl<W: Workflow> Schedule<W> {
    /// Sends `command` to the instance `id`. The name tells the schedule from others of the workflow,
    /// now and after the next deploy.
    pub fn new(
        name: impl Into<String>,
        cron: Cron,
        id: impl Into<String>,
        command: W::Command,
    ) -> Self {
        Self { name: name.into(), cron, id: id.into(), command }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it is due.
    #[must_use]
    pub fn cron(&self) -> &Cron {
        &self.cron
    }

    /// The instance that the command is for.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The command.
    #[must_use]
    pub fn command(&self) -> &W::Command {
        &self.command
    }

    /// The command, taken out.
    #[must_use]
    pub fn into_command(self) -> W::Command {
        self.command
    }
}

impl<W: Workflow> fmt::Debug for Schedule<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, cron, id, command } = self;
        write!(f, "Schedule({name}: {cron} {id} {})", Shown(command))
    }
}
