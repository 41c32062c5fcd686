//! Pause, resume, cancel: events of ours in the stream of an instance.

use crate::error::{LifecycleError, LoadError};
use crate::load::Mode;
use crate::{Workflow, Workflows};
use anabranch_core::{Append, DecodeError, Event, Expected, NewEvent, Position, Query, StreamId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// How often a change is tried while others change the same instance.
const ATTEMPTS: u32 = 16;

/// What the types of our own events begin with.
const PREFIX: &str = "workflow.";
const PAUSED: &str = "workflow.paused";
const RESUMED: &str = "workflow.resumed";
const CANCELLED: &str = "workflow.cancelled";

/// Whether an event type is reserved for us: the schema of a workflow never sees it.
pub(crate) fn is_ours(event_type: &str) -> bool {
    event_type.starts_with(PREFIX)
}

/// What happened to an instance from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// It was paused.
    Paused {
        /// The reason that was given.
        why: String,
    },
    /// It was resumed.
    Resumed,
    /// It was cancelled.
    Cancelled {
        /// The reason that was given.
        why: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Reason {
    why: String,
}

impl Lifecycle {
    /// The mode that it leads to.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self {
            Self::Paused { .. } => Mode::Paused,
            Self::Resumed => Mode::Running,
            Self::Cancelled { .. } => Mode::Cancelled,
        }
    }

    fn event(&self) -> NewEvent {
        match self {
            Self::Paused { why } => NewEvent::new(PAUSED, Reason { why: why.clone() }),
            Self::Resumed => NewEvent::new(RESUMED, ()),
            Self::Cancelled { why } => NewEvent::new(CANCELLED, Reason { why: why.clone() }),
        }
    }

    pub(crate) fn decode(event: &Event) -> Result<Self, DecodeError> {
        let why = || event.data::<Reason>().map(|reason| reason.why);
        match event.event_type() {
            PAUSED => Ok(Self::Paused { why: why()? }),
            RESUMED => Ok(Self::Resumed),
            CANCELLED => Ok(Self::Cancelled { why: why()? }),
            other => Err(DecodeError::UnknownType {
                event_type: other.to_owned(),
                position: event.position(),
                known: [PAUSED, RESUMED, CANCELLED].join(", "),
            }),
        }
    }
}

impl<W: Workflow> Workflows<W> {
    /// Stops an instance: it takes no commands until it is resumed. Answers its version. To pause what
    /// is paused changes nothing.
    pub async fn pause(&self, id: &str, why: impl Into<String>) -> Result<u64, LifecycleError> {
        self.change(id, Lifecycle::Paused { why: why.into() }).await
    }

    /// Lets a paused instance go on. To resume what runs changes nothing.
    pub async fn resume(&self, id: &str) -> Result<u64, LifecycleError> {
        self.change(id, Lifecycle::Resumed).await
    }

    /// Ends an instance for good: it takes no commands any more. To cancel what is cancelled changes
    /// nothing.
    pub async fn cancel(&self, id: &str, why: impl Into<String>) -> Result<u64, LifecycleError> {
        self.change(id, Lifecycle::Cancelled { why: why.into() }).await
    }

    /// Stores the event if nobody else has changed the mode since it was looked at. Commands play no
    /// part: however many come in, they never keep an instance from being paused.
    async fn change(&self, id: &str, to: Lifecycle) -> Result<u64, LifecycleError> {
        let inner = &self.inner;
        let stream = inner.stream(id)?;
        inner.must_be_one().map_err(LoadError::from)?;
        let names = || (inner.workflow.name().to_owned(), id.to_owned());
        let changes = Query::types([PAUSED, RESUMED, CANCELLED]).tagged([tag(&stream)]);
        for _ in 0..ATTEMPTS {
            let last = inner.log.read(changes.clone()).backwards().limit(1).collect().await;
            let last = last.map_err(LoadError::from)?.pop();
            let mode = match &last {
                Some(event) => {
                    let change = Lifecycle::decode(event);
                    change.map_err(|error| inner.unreadable(event, error))?.mode()
                }
                None => Mode::Running,
            };
            let newest = inner.log.read_stream(&stream).backwards().limit(1).collect().await;
            let Some(newest) = newest.map_err(LoadError::from)?.pop() else {
                let (workflow, id) = names();
                return Err(LifecycleError::Missing { workflow, id });
            };
            if mode == to.mode() {
                return Ok(newest.version());
            }
            if mode == Mode::Cancelled {
                let (workflow, id) = names();
                return Err(LifecycleError::Cancelled { workflow, id });
            }
            let seen = last.as_ref().map_or(Position::START, Event::position);
            let event = to.event().with_tag(tag(&stream));
            let append =
                Append::new().to(&stream, Expected::Any, [event]).unless(changes.clone(), seen);
            match inner.log.append_all(append).await {
                Ok(appended) => return Ok(appended.version()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let (workflow, id) = names();
        Err(LifecycleError::Contended { workflow, id, attempts: ATTEMPTS })
    }
}

/// What the changes of an instance are found by. It has a fixed length, however long the id is.
fn tag(stream: &StreamId) -> String {
    format!("{PREFIX}{}", Uuid::new_v5(&Uuid::NAMESPACE_URL, stream.to_string().as_bytes()))
}
