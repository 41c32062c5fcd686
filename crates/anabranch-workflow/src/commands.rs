//! Commands: load, decide, append, and again if somebody else was faster.

use crate::error::{LoadError, SendError};
use crate::event_info::COMMAND_EVENTS;
use crate::lifecycle::is_ours;
use crate::load::{Loaded, Mode};
use crate::pace::Pace;
use crate::workflows::Inner;
use crate::{Workflow, Workflows};
use anabranch_core::{AppendError, Expected, NewEvent, StreamId};
use anabranch_store::backoff::random;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How often a command is decided before it is given up. The tasks of one process take turns, so this
/// counts the times that another process was faster.
const ATTEMPTS: u32 = 64;

/// What a command did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// The version of the instance after its events.
    pub version: u64,
    /// How many events it led to.
    pub events: usize,
    /// Whether it had been carried out before; then this is what it did at that time. Of processes
    /// that send it at the same moment, more than one may be told that it was the first.
    pub repeated: bool,
}

/// Which command it is.
#[derive(Clone, Copy)]
enum CommandId {
    /// Made for it: nobody can send it again.
    Fresh(Uuid),
    /// The caller's.
    Callers(Uuid),
}

/// What `decide` or the mode of an instance makes of a command.
enum Verdict<W: Workflow> {
    Events(Vec<W::Event>),
    Nothing,
    Refused(SendError<W::Rejection>),
}

impl<W: Workflow> Workflows<W> {
    /// Sends a command to an instance, which begins with its first event.
    ///
    /// The answer comes once its events are durable. It was decided on the newest state: if somebody
    /// else was faster, it is decided anew, up to 64 times. A rejected command leaves no trace; one
    /// that decides on no events succeeds and stores nothing.
    pub async fn send(
        &self,
        id: &str,
        command: W::Command,
    ) -> Result<Sent, SendError<W::Rejection>> {
        self.inner.send(CommandId::Fresh(Uuid::now_v7()), id, &command).await
    }

    /// Sends a command under an id of the caller's: however often that is sent to the instance, its
    /// events are stored once, and every later answer is that of the first time, whatever the state
    /// is by then.
    ///
    /// What left no trace (a rejection, a decision on no events) is decided anew.
    pub async fn send_as(
        &self,
        command_id: Uuid,
        id: &str,
        command: W::Command,
    ) -> Result<Sent, SendError<W::Rejection>> {
        self.inner.send(CommandId::Callers(command_id), id, &command).await
    }
}

impl<W: Workflow> Inner<W> {
    async fn send(
        &self,
        command_id: CommandId,
        id: &str,
        command: &W::Command,
    ) -> Result<Sent, SendError<W::Rejection>> {
        let stream = self.stream(id)?;
        let _turn = self.turns.take(id).await;
        let cached = self.cached(id);
        let pace = cached.as_ref().map(|cached| cached.pace).unwrap_or_default();
        sleep(pace.wait(Instant::now(), random())).await;
        let begun = Instant::now();
        let is_shared = pace.is_shared(begun);
        let mut is_newest = is_shared || cached.is_none();
        let mut loaded = match cached {
            // Where others append, what this process remembers is old, and to find that out by an
            // append that conflicts takes longer than to look.
            Some(cached) if is_shared => self.read_on(&stream, cached).await?,
            Some(cached) => cached,
            None => self.load(&stream).await?,
        };
        let mut attempt = 1;
        loop {
            let verdict = self.verdict(id, &loaded, command);
            let Verdict::Events(events) = verdict else {
                // No version check guards this, so what this process remembers is not enough.
                if !is_newest {
                    is_newest = true;
                    loaded = self.read_on(&stream, loaded).await?;
                    continue;
                }
                if let Some(sent) = self.earlier(&stream, command_id).await? {
                    return Ok(sent);
                }
                return match verdict {
                    Verdict::Refused(error) => Err(error),
                    _ => Ok(Sent { version: loaded.version, events: 0, repeated: false }),
                };
            };
            let mut after = Loaded::clone(&loaded);
            let new = self.encode(&stream, command_id, &mut after, &events)?;
            match self.log.append(&stream, Expected::Exact(loaded.version), new).await {
                Ok(appended) => {
                    let (version, count) = (appended.version(), events.len());
                    let repeated = appended.events()[0].version != loaded.version + 1;
                    if !repeated {
                        self.follow(id, loaded.version, after, begun);
                    }
                    return Ok(Sent { version, events: count, repeated });
                }
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {
                    sleep(Pace::after_conflict(attempt, random())).await;
                    attempt += 1;
                    loaded = self.read_on(&stream, loaded).await?;
                    is_newest = true;
                }
                Err(error) if error.is_conflict() => {
                    let (workflow, id) = (self.workflow.name().to_owned(), id.to_owned());
                    return Err(SendError::Contended { workflow, id, attempts: ATTEMPTS });
                }
                Err(error @ AppendError::IdReused { .. }) => {
                    let earlier = self.earlier(&stream, command_id).await?;
                    return earlier.ok_or_else(|| error.into());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn verdict(&self, id: &str, loaded: &Loaded<W::State>, command: &W::Command) -> Verdict<W> {
        let names = || (self.workflow.name().to_owned(), id.to_owned());
        match loaded.mode {
            Mode::Running => match self.workflow.decide(&loaded.state, command) {
                Ok(events) if events.is_empty() => Verdict::Nothing,
                Ok(events) => Verdict::Events(events),
                Err(rejection) => Verdict::Refused(SendError::Rejected(rejection)),
            },
            Mode::Paused => {
                let (workflow, id) = names();
                Verdict::Refused(SendError::Paused { workflow, id })
            }
            Mode::Cancelled => {
                let (workflow, id) = names();
                Verdict::Refused(SendError::Cancelled { workflow, id })
            }
        }
    }

    /// The events as they are appended. The state follows them.
    fn encode(
        &self,
        stream: &StreamId,
        command_id: CommandId,
        state: &mut Loaded<W::State>,
        events: &[W::Event],
    ) -> Result<Vec<NewEvent>, SendError<W::Rejection>> {
        let workflow = || self.workflow.name().to_owned();
        let unwritable = |problem| SendError::Unwritable { workflow: workflow(), problem };
        let mut new = Vec::with_capacity(events.len());
        for (number, happened) in events.iter().enumerate() {
            self.workflow.evolve(&mut state.state, happened);
            state.version += 1;
            let event = self.schema.encode(happened);
            let event = event.map_err(|error| unwritable(error.to_string()))?;
            if is_ours(event.event_type()) {
                let name = event.event_type();
                let problem = format!("types like `{name}` are Anabranch's own; rename it");
                return Err(unwritable(problem));
            }
            let info = self.workflow.describe(stream.id(), &state.state, happened);
            let (event, count) = match command_id {
                CommandId::Fresh(id) => (event.with_causation(id.to_string()), None),
                CommandId::Callers(id) => {
                    let event = event.with_id(event_id(stream, id, number));
                    let count = (number == 0).then_some(events.len());
                    (event.with_causation(id.to_string()), count)
                }
            };
            let name = event.event_type().to_owned();
            let described = info.of(event, count);
            new.push(described.map_err(|problem| unwritable(format!("`{name}`: {problem}")))?);
        }
        Ok(new)
    }

    /// What the command did when it was sent before, if it was and left a trace.
    async fn earlier(
        &self,
        stream: &StreamId,
        command_id: CommandId,
    ) -> Result<Option<Sent>, LoadError> {
        let CommandId::Callers(id) = command_id else {
            return Ok(None);
        };
        let Some(first) = self.log.find(event_id(stream, id, 0)).await? else {
            return Ok(None);
        };
        let metadata = first.metadata_json().map(serde_json::from_str::<serde_json::Value>);
        let count = metadata.and_then(Result::ok).and_then(|all| all[COMMAND_EVENTS].as_u64());
        let events = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(1);
        let version = first.version() + events.saturating_sub(1) as u64;
        Ok(Some(Sent { version, events, repeated: true }))
    }

    /// The state follows the events that were just stored.
    fn follow(&self, id: &str, before: u64, mut loaded: Loaded<W::State>, begun: Instant) {
        loaded.pace = loaded.pace.sent(begun, Instant::now());
        let loaded = Arc::new(loaded);
        self.keep(id, &loaded);
        if let Some((every, snapshots)) = &self.snapshots
            && before / every < loaded.version / every
        {
            snapshots.keep(id, &loaded);
        }
    }
}

/// The id of an event that a command leads to. The stream is part of it, so that one command id may be
/// used for several instances.
fn event_id(stream: &StreamId, command_id: Uuid, number: usize) -> Uuid {
    Uuid::new_v5(&command_id, format!("{number}:{stream}").as_bytes())
}

/// Waits, if there is something to wait for; the timer alone would wait for its next tick.
async fn sleep(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}
