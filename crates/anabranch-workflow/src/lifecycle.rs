//! Pause, resume, cancel: events of ours in the stream of an instance.

use crate::commands::{ATTEMPTS, pause_before};
use crate::error::LifecycleError;
use crate::load::Mode;
use crate::{Workflow, Workflows};
use anabranch_core::{DecodeError, Event, Expected, NewEvent};
use serde::{Deserialize, Serialize};

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

    async fn change(&self, id: &str, to: Lifecycle) -> Result<u64, LifecycleError> {
        let inner = &self.inner;
        let stream = inner.stream(id)?;
        let names = || (inner.workflow.name().to_owned(), id.to_owned());
        let _turn = inner.turns.take(id).await;
        let mut loaded = match inner.cached(id) {
            Some(cached) => inner.read_on(&stream, cached).await?,
            None => inner.load(&stream).await?,
        };
        for attempt in 1..=ATTEMPTS {
            if loaded.version == 0 {
                let (workflow, id) = names();
                return Err(LifecycleError::Missing { workflow, id });
            }
            if loaded.mode == to.mode() {
                return Ok(loaded.version);
            }
            if loaded.mode == Mode::Cancelled {
                let (workflow, id) = names();
                return Err(LifecycleError::Cancelled { workflow, id });
            }
            let expected = Expected::Exact(loaded.version);
            match inner.log.append(&stream, expected, [to.event()]).await {
                Ok(appended) => return Ok(appended.version()),
                Err(error) if !error.is_conflict() => return Err(error.into()),
                Err(_) => pause_before(attempt).await,
            }
            loaded = inner.read_on(&stream, loaded).await?;
        }
        let (workflow, id) = names();
        Err(LifecycleError::Contended { workflow, id, attempts: ATTEMPTS })
    }
}
