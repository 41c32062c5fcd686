//! Commands that are only imagined, and the past as it was.

use crate::error::LoadError;
use crate::lifecycle::{Lifecycle, is_ours};
use crate::{Reactions, Workflow, Workflows};
use anabranch_store::PageEnd;
use jiff::Timestamp;
use uuid::Uuid;

/// What a command would lead to.
#[non_exhaustive]
pub struct WhatIf<W: Workflow> {
    /// Its events, or the rejection.
    pub outcome: Result<Vec<W::Event>, W::Rejection>,
    /// What would happen because of the events, in their order.
    pub reactions: Reactions<W>,
    /// The version after it.
    pub version: u64,
    /// The state after it.
    pub state: W::State,
}

/// An event of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastEvent<E> {
    /// Its version.
    pub version: u64,
    /// Its id.
    pub id: Uuid,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// What happened.
    pub what: Past<E>,
}

/// What happened to an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Past<E> {
    /// An event of the workflow.
    Event(E),
    /// Somebody paused, resumed or cancelled it.
    Lifecycle(Lifecycle),
}

impl<W: Workflow> Workflows<W> {
    /// What these commands would lead to, one after the other, if they were sent to an instance now.
    /// Nothing is stored, and what `react` asks for is only told. A rejection changes nothing, so the
    /// next command meets the same state. Whether the instance is paused plays no part.
    pub async fn what_if(
        &self,
        id: &str,
        commands: impl IntoIterator<Item = W::Command>,
    ) -> Result<Vec<WhatIf<W>>, LoadError> {
        let stream = self.inner.stream(id)?;
        let loaded = match self.inner.cached(id) {
            Some(cached) => self.inner.read_on(&stream, cached).await?,
            None => self.inner.load(&stream).await?,
        };
        let workflow = self.workflow();
        let (mut state, mut version) = (loaded.state.clone(), loaded.version);
        let imagine = |command| {
            let outcome = workflow.decide(&state, &command);
            let mut reactions = Reactions::none();
            for event in outcome.iter().flatten() {
                workflow.evolve(&mut state, event);
                version += 1;
                reactions = std::mem::take(&mut reactions).then(workflow.react(id, &state, event));
            }
            WhatIf { outcome, reactions, version, state: state.clone() }
        };
        Ok(commands.into_iter().map(imagine).collect())
    }

    /// The events of an instance, from the first on. Mind the memory.
    pub async fn events(&self, id: &str) -> Result<Vec<PastEvent<W::Event>>, LoadError> {
        let inner = &self.inner;
        let stream = inner.stream(id)?;
        let mut past = Vec::new();
        let mut after = 0;
        loop {
            let page = inner.page(&stream, after, u64::MAX).await?;
            for event in &page.events {
                let what = if is_ours(event.event_type()) {
                    let lifecycle = Lifecycle::decode(event);
                    Past::Lifecycle(lifecycle.map_err(|error| inner.unreadable(event, error))?)
                } else {
                    Past::Event(inner.decode(event)?)
                };
                let (version, id, recorded_at) = (event.version(), event.id(), event.recorded_at());
                past.push(PastEvent { version, id, recorded_at, what });
            }
            if page.end != PageEnd::More {
                return Ok(past);
            }
            after = page.cursor;
        }
    }
}
