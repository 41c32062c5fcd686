//! The programs of one consumer: one for each batch that is under way. Idle ones wait for the next.

use super::clock::{Awaited, Clock};
use super::command::Command;
use super::message::Message;
use super::process::{Broken, Meanwhile, Process};
use super::programs::Programs;
use anabranch::{HandlerError, Log};
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;

/// The version of the protocol.
const PROTOCOL: u64 = 1;

/// The programs of a consumer.
pub(super) struct Children {
    pub(super) command: Command,
    programs: Programs,
    consumer: Arc<str>,
    hello: String,
    idle: Mutex<Vec<Process>>,
}

/// Why there is no program for a batch.
pub(super) enum NotTaken {
    /// It cannot be started, whatever the batch is.
    NotStarted(HandlerError),
    /// An idle one has done what it must not.
    Broken(Broken),
}

impl Children {
    pub(super) fn new(
        programs: &Programs,
        log: &Log,
        consumer: &str,
        kind: &str,
        command: Command,
    ) -> Self {
        Self::on(programs, log.database().dialect().name(), consumer, kind, command)
    }

    /// The same on a database of this kind.
    fn on(
        programs: &Programs,
        database: &str,
        consumer: &str,
        kind: &str,
        command: Command,
    ) -> Self {
        let hello = serde_json::json!({ "hello": {
            "protocol": PROTOCOL,
            "anabranch": env!("CARGO_PKG_VERSION"),
            "consumer": consumer,
            "kind": kind,
            "database": database,
        }});
        Self {
            command,
            programs: programs.clone(),
            consumer: consumer.into(),
            hello: hello.to_string(),
            idle: Mutex::default(),
        }
    }

    pub(super) fn consumer(&self) -> &str {
        &self.consumer
    }

    /// An idle program, or a new one. It is killed if it is not given back.
    pub(super) async fn take(&self) -> Result<Process, NotTaken> {
        while let Some(mut process) = self.idle.lock().ok().and_then(|mut idle| idle.pop()) {
            match process.meanwhile() {
                Meanwhile::Nothing => return Ok(process),
                Meanwhile::Ended => tracing::warn!(
                    target: "anabranch::program",
                    consumer = &*self.consumer,
                    "program `{}` has ended between two batches; it is restarted",
                    self.command
                ),
                Meanwhile::Wrote(broken) => return Err(NotTaken::Broken(broken)),
            }
        }
        // It has seen no event: none is to blame.
        self.start().await.map_err(|said| NotTaken::NotStarted(HandlerError::unable(said)))
    }

    /// After the end of a batch, for the next one.
    pub(super) fn give_back(&self, process: Process) {
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(process);
        }
    }

    /// Starts one and exchanges greetings, or says why not.
    async fn start(&self) -> Result<Process, String> {
        let mut process = Process::start(&self.programs, &self.command, &self.consumer)
            .await
            .map_err(|error| {
                let why = self.command.check().err().unwrap_or_else(|| error.to_string());
                format!("program `{}` cannot be started: {why}", self.command)
            })?;
        process.send(|out| out.extend_from_slice(self.hello.as_bytes()));
        let mut clock = Clock::new(self.command.timeout, Awaited::Greeting);
        let said = match process.next(&mut clock).await {
            Ok(Message::Hello { protocol: PROTOCOL }) => return Ok(process),
            Ok(Message::Hello { protocol }) => format!(
                "speaks version {protocol} of the protocol, and this is version {PROTOCOL} of it: install the \
                 package of the program's language that goes with anabranch {}",
                env!("CARGO_PKG_VERSION")
            ),
            Ok(_) => format!(
                "has not greeted: its first line is {{\"hello\":{{\"protocol\":{PROTOCOL}}}}} (docs/programs.md)"
            ),
            Err(Broken { said, .. }) => said,
        };
        Err(format!("program `{}` {said}", self.command))
    }

    /// What is said of a batch of so many events or tasks whose program had to be ended. It is said in the log too:
    /// what is halved until it works fails nowhere else.
    pub(super) fn failure(
        &self,
        Broken { said, is_too_much }: Broken,
        items: usize,
    ) -> HandlerError {
        let said = format!("program `{}` {said}; it is restarted", self.command);
        tracing::warn!(target: "anabranch::program", consumer = &*self.consumer, events = items, "{said}");
        match HandlerError::new(said) {
            error if is_too_much && items > 1 => error.about_too_much(),
            error => error,
        }
    }
}

/// Starts a program, exchanges greetings with it, and lets it end: what is wrong with it before it has seen an event.
/// `database` is `sqlite` or `postgres`, `kind` is `program` or `pool`.
///
/// ```
/// use anabranch_file::program::{Command, Programs, greets};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let command = Command::new(["false"], "/");
/// let said = greets(&Programs::new(), "sqlite", "risk", "program", &command).await.unwrap_err();
/// assert!(said.starts_with("program `false` has ended (exit status: 1) before its greeting"), "{said}");
/// # });
/// ```
pub async fn greets(
    programs: &Programs,
    database: &str,
    consumer: &str,
    kind: &str,
    command: &Command,
) -> Result<(), String> {
    let children = Children::on(programs, database, consumer, kind, command.clone());
    let process = children.start().await?;
    process.end(command.grace).await;
    Ok(())
}

impl Drop for Children {
    fn drop(&mut self) {
        let idle = self.idle.get_mut().map(std::mem::take).unwrap_or_default();
        // Without a runtime there is no time to give: what is dropped is killed.
        let Ok(runtime) = Handle::try_current() else { return };
        for process in idle {
            runtime.spawn(process.end(self.command.grace));
        }
    }
}
