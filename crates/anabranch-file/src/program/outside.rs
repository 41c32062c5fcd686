//! A pool of a program with effects outside the database: at least once.

use super::children::{Children, NotTaken};
use super::clock::{Awaited, Clock};
use super::command::Command;
use super::events;
use super::message::Message;
use super::process::{Broken, Process};
use super::programs::Programs;
use anabranch::workpool::{OutsidePool, PoolSettings, Run, Task};
use anabranch::{HandlerResult, Log};
use serde_json::value::RawValue;

/// A program that runs tasks with effects outside. As many programs run as tasks at the same time
/// ([`PoolSettings::in_flight_per_process`]).
pub struct OutsideProgramPool {
    settings: PoolSettings,
    code: Option<String>,
    children: Children,
}

impl OutsideProgramPool {
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
        Self { settings, code: None, children }
    }

    /// Which code it has: see [`Settings::code`](anabranch::Settings::code).
    #[must_use]
    pub fn with_code(mut self, code: String) -> Self {
        self.code = Some(code);
        self
    }

    /// Does what the program says, until the end of the task.
    async fn talk(
        &self,
        process: &mut Process,
        batch: u64,
        task: &Task,
        run: &mut Run,
    ) -> Result<HandlerResult<Option<Box<RawValue>>>, Broken> {
        let timeout = self.children.command.timeout;
        let (mut clock, mut enqueued) = (Clock::new(timeout, Awaited::Task), 0);
        loop {
            let said = match process.next(&mut clock).await? {
                Message::Enqueue { enqueue, event: Some(0) | None } => {
                    let pool = enqueue.pool.clone();
                    run.then(pool, enqueue.task(task.id(), self.children.consumer(), enqueued));
                    enqueued += 1;
                    continue;
                }
                Message::Save(checkpoint) => {
                    let checkpoint = checkpoint.get().to_owned();
                    if let Err(error) = run.save_json(checkpoint).await {
                        process.send(|out| events::abandoned(out, batch, &error));
                        process.flush(&mut clock).await?;
                        return Ok(Err(error));
                    }
                    process.send(|out| out.extend_from_slice(b"{\"saved\":true}"));
                    // It gets on.
                    clock = Clock::new(timeout, Awaited::Task);
                    continue;
                }
                Message::Failed { error, event: Some(0) | None } => {
                    return Ok(Err(error));
                }
                Message::Done { result } => {
                    return Ok(Ok(result.map(ToOwned::to_owned)));
                }
                Message::Hello { .. } => "has greeted twice; greet once".to_owned(),
                Message::Execute(_) | Message::Query(_) | Message::Append { .. } => {
                    "has answered with a statement or an event, which only a pool with `effects = \"database\"` \
                     may"
                        .to_owned()
                }
                Message::Enqueue { .. } | Message::Failed { .. } => {
                    "has named another event than 0; a task comes alone".to_owned()
                }
            };
            return Err(Broken::new(said));
        }
    }
}

impl OutsidePool for OutsideProgramPool {
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

    async fn run(&self, task: &Task, run: &mut Run) -> HandlerResult<Self::Output> {
        let mut process = self.children.take().await.map_err(|not_taken| match not_taken {
            NotTaken::NotStarted(error) => error,
            NotTaken::Broken(broken) => self.children.failure(broken, 1),
        })?;
        let (batch, mut sent) = (process.begin_batch(), Ok(()));
        process.send(|out| sent = events::task(out, batch, task, run.checkpoint_json()));
        sent?;
        let ended = self.talk(&mut process, batch, task, run).await;
        match ended.and_then(|ended| process.must_be_quiet().map(|()| ended)) {
            Ok(ended) => {
                self.children.give_back(process);
                ended
            }
            Err(broken) => Err(self.children.failure(broken, 1)),
        }
    }
}
