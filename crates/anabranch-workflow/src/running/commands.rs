//! The pool that delivers commands. A command's id is that of its task (of the first one, if it was put off), so it
//! is carried out once, however often it is delivered.

use super::command_pool;
use super::job::{Job, task_id, timer_key};
use super::overdue::{Overdue, PutOff};
use super::schedules;
use crate::{SendError, Workflow, Workflows};
use anabranch_core::Retry;
use anabranch_core::{Happening, Notice};
use anabranch_runtime::{HandlerError, HandlerResult};
use anabranch_workpool::{OutsidePool, PoolSettings, Run, Task};
use serde::Serialize;
use uuid::Uuid;

/// Delivering is tried for some minutes: what stands in its way is the database, or a pause that the
/// pool has not heard of yet.
const ATTEMPTS: u32 = 20;
/// How many commands each process decides at the same time: each is a few reads and an append.
const IN_FLIGHT: usize = 256;

/// Delivers the commands of reactions, timers and schedules.
pub(super) struct Commands<W: Workflow> {
    name: String,
    workflows: Workflows<W>,
    overdue: Overdue,
}

/// What became of a command, as the result of its task.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Delivered {
    /// It was carried out: so many events, up to this version.
    Done { events: usize, version: u64 },
    /// The workflow has refused it.
    Rejected { why: String },
    /// The instance was cancelled before.
    Cancelled,
    /// No program that has the code could read it.
    Unreadable { why: String },
    /// It is of a schedule that there is no more.
    Outdated,
    /// It is of a timer that came due while nobody ran, and comes after what was to happen before it.
    PutOff,
}

impl<W: Workflow> Commands<W> {
    pub(super) fn of(workflows: &Workflows<W>) -> Self {
        let name = command_pool(workflows.workflow().name());
        Self { name, workflows: workflows.clone(), overdue: Overdue::of(workflows) }
    }

    /// Delivers a command, unless it is a timer's and others come before it.
    async fn in_turn(
        &self,
        task: &Task,
        run: &mut Run,
        command: serde_json::Value,
        put_off: Option<PutOff>,
    ) -> HandlerResult<Delivered> {
        if let Some(later) = self.overdue.put_off(task, &command, put_off).await? {
            run.then(&self.name, later);
            return Ok(Delivered::PutOff);
        }
        let id = PutOff::command_id(put_off, task.id());
        self.deliver(id, task, serde_json::from_value(command)?).await
    }

    async fn deliver(
        &self,
        id: Uuid,
        task: &Task,
        command: W::Command,
    ) -> HandlerResult<Delivered> {
        match self.workflows.send_as(id, task.key(), command).await {
            Ok(sent) => Ok(Delivered::Done { events: sent.events, version: sent.version }),
            Err(SendError::Rejected(rejection)) => {
                let (error, id) = (Some(rejection.to_string()), format!("id={}", task.key()));
                let what = Happening::notice(Notice::CommandRejected, error, Some(id));
                let events = self.workflows.log().events();
                events.of(self.workflows.workflow().name()).emit(what);
                Ok(Delivered::Rejected { why: rejection.to_string() })
            }
            Err(SendError::Cancelled { .. }) => Ok(Delivered::Cancelled),
            Err(error) => Err(HandlerError::new(error.to_string())),
        }
    }
}

impl<W: Workflow> OutsidePool for Commands<W> {
    type Output = Delivered;

    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> PoolSettings {
        let settings = PoolSettings::default().retry(Retry::default().attempts(ATTEMPTS));
        settings.in_flight_per_process(IN_FLIGHT)
    }

    async fn run(&self, task: &Task, run: &mut Run) -> HandlerResult<Delivered> {
        let workflow = self.workflows.workflow();
        match task.payload()? {
            Job::Command(command) => self.in_turn(task, run, command, None).await,
            Job::Sent { id, command } => match serde_json::from_str(command.get()) {
                Ok(command) => self.deliver(id, task, command).await,
                // Who sent it waits for the answer, and its key must not: trying again would not make it readable.
                Err(error) => Ok(Delivered::Unreadable { why: error.to_string() }),
            },
            Job::Late { command, put_off } => self.in_turn(task, run, command, Some(put_off)).await,
            Job::Schedule { name, cron, at } => {
                let current = workflow.schedules().into_iter().find(|one| one.name() == name);
                let Some(schedule) = current.filter(|one| one.cron().to_string() == cron) else {
                    return Ok(Delivered::Outdated);
                };
                // What came due while nobody ran comes once. The clock of this machine may be behind
                // the database's, which said that it is time.
                let now = self.workflows.log().database().clock().now().max(at);
                if let Some(next) = schedules::next(&schedule, now) {
                    run.then(&self.name, next.with_id(task_id(task.id(), 0)));
                }
                self.deliver(task.id(), task, schedule.into_command()).await
            }
        }
    }
}

/// The unique key of the next time of a schedule. One that has changed has another.
pub(super) fn schedule_key(name: &str, cron: &str) -> String {
    timer_key(name, cron)
}
