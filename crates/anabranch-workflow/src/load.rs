//! From events, or a snapshot and the events after it, to a state.

use crate::error::LoadError;
use crate::lifecycle::{Lifecycle, is_ours};
use crate::pace::Pace;
use crate::workflows::Inner;
use crate::{Instance, Workflow, Workflows};
use anabranch_core::{DecodeError, Event, Position, StreamId};
use anabranch_core::{Happening, Notice};
use anabranch_store::{Filter, Page, PageEnd, ReadRequest, Scope};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Most streams are short: their first page is the whole, and nobody has to look for a snapshot.
const FIRST_PAGE_EVENTS: u64 = 256;

/// Whether an instance takes commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It does.
    #[default]
    Running,
    /// Not until it is resumed.
    Paused,
    /// Never again.
    Cancelled,
}

impl Mode {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Running, Self::Paused, Self::Cancelled].into_iter().find(|mode| mode.name() == name)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A state and how far it has been folded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded<S> {
    pub(crate) version: u64,
    pub(crate) mode: Mode,
    pub(crate) state: S,
    /// How commands of this process came and come to it.
    pub(crate) pace: Pace,
}

impl<W: Workflow> Workflows<W> {
    /// How an instance stands, by its last event that is stored; `None` if there is no such instance.
    pub async fn state(&self, id: &str) -> Result<Option<Instance<W::State>>, LoadError> {
        let stream = self.inner.stream(id)?;
        let loaded = match self.inner.cached(id) {
            Some(cached) => self.inner.read_on(&stream, cached).await?,
            None => self.inner.load(&stream).await?,
        };
        Ok((loaded.version > 0).then(|| Instance::of(id, &loaded)))
    }

    /// How an instance stood right after the event with this version; `None` if there is none.
    pub async fn state_at(
        &self,
        id: &str,
        version: u64,
    ) -> Result<Option<Instance<W::State>>, LoadError> {
        let stream = self.inner.stream(id)?;
        let (loaded, _) = self.inner.fold_up_to(&stream, version).await?;
        Ok((version > 0 && loaded.version == version).then(|| Instance::of(id, &loaded)))
    }
}

impl<W: Workflow> Inner<W> {
    pub(crate) fn stream(&self, id: &str) -> Result<StreamId, LoadError> {
        Ok(StreamId::new(self.workflow.category(), id)?)
    }

    /// The state as this process last saw it; others may have changed it since.
    pub(crate) fn cached(&self, id: &str) -> Option<Arc<Loaded<W::State>>> {
        self.cache.get(id)
    }

    pub(crate) fn keep(&self, id: &str, loaded: &Arc<Loaded<W::State>>) {
        self.cache.keep(id, Arc::clone(loaded), |this, kept| this.version > kept.version);
    }

    /// The state from the database.
    pub(crate) async fn load(&self, stream: &StreamId) -> Result<Arc<Loaded<W::State>>, LoadError> {
        let (loaded, folded) = self.fold_up_to(stream, u64::MAX).await?;
        let loaded = Arc::new(loaded);
        if let Some((every, snapshots)) = &self.snapshots
            && folded >= *every
        {
            // None was kept on the way: they are of an older state version, or there were none yet.
            snapshots.keep(stream.id(), &loaded);
        }
        if loaded.version > 0 {
            self.keep(stream.id(), &loaded);
        }
        Ok(loaded)
    }

    /// What is stored after a state, folded into it.
    pub(crate) async fn read_on(
        &self,
        stream: &StreamId,
        from: Arc<Loaded<W::State>>,
    ) -> Result<Arc<Loaded<W::State>>, LoadError> {
        let page = self.page(stream, from.version, u64::MAX).await?;
        if page.events.is_empty() {
            return Ok(from);
        }
        let mut loaded = Arc::unwrap_or_clone(from);
        self.fold_from(stream, &mut loaded, page, u64::MAX).await?;
        loaded.pace = loaded.pace.met_others(Instant::now());
        let loaded = Arc::new(loaded);
        self.keep(stream.id(), &loaded);
        Ok(loaded)
    }

    /// The state at a version, or at the last one before it, and how many events were folded into it.
    async fn fold_up_to(
        &self,
        stream: &StreamId,
        up_to: u64,
    ) -> Result<(Loaded<W::State>, u64), LoadError> {
        let mut loaded = Loaded::default();
        let mut first = FIRST_PAGE_EVENTS.min(up_to);
        if let Some((every, _)) = &self.snapshots {
            first = first.min(*every);
        }
        let mut page = self.page(stream, 0, first).await?;
        if page.end == PageEnd::More
            && first < up_to
            && let Some((_, snapshots)) = &self.snapshots
            && let Some(snapshot) = snapshots.newest(stream.id(), up_to).await?
        {
            let (version, mode) = (snapshot.version, snapshot.mode);
            match serde_json::from_str(&snapshot.state) {
                Ok(state) => {
                    loaded = Loaded { version, mode, state, pace: Pace::default() };
                    page = self.page(stream, version, up_to).await?;
                }
                Err(error) => {
                    let detail = format!("id={} version={version}", stream.id());
                    let (error, detail) = (Some(error.to_string()), Some(detail));
                    let what = Happening::notice(Notice::SnapshotUnfit, error, detail);
                    self.log.events().of(self.workflow.name()).emit(what);
                }
            }
        }
        let begun = loaded.version;
        self.fold_from(stream, &mut loaded, page, up_to).await?;
        let folded = loaded.version - begun;
        Ok((loaded, folded))
    }

    /// Folds a page that follows a state, and those after it.
    async fn fold_from(
        &self,
        stream: &StreamId,
        loaded: &mut Loaded<W::State>,
        mut page: Page,
        up_to: u64,
    ) -> Result<(), LoadError> {
        loop {
            for event in &page.events {
                self.fold(loaded, event)?;
            }
            if page.end != PageEnd::More || loaded.version >= up_to {
                return Ok(());
            }
            page = self.page(stream, loaded.version, up_to).await?;
        }
    }

    /// A page of events after a version, up to another.
    pub(crate) async fn page(
        &self,
        stream: &StreamId,
        after: u64,
        up_to: u64,
    ) -> Result<Page, LoadError> {
        let wanted = usize::try_from(up_to.saturating_sub(after)).unwrap_or(usize::MAX);
        if wanted == 0 {
            return Ok(Page { events: Vec::new(), cursor: after, end: PageEnd::Last });
        }
        let request = ReadRequest {
            scope: Scope::Stream(stream.clone()),
            filter: Filter::default(),
            cursor: after,
            up_to: Position::END,
            backwards: false,
            max_events: wanted.min(Page::MAX_EVENTS),
        };
        self.must_be_one()?;
        Ok(self.log.store().read(request).await?)
    }

    /// Folds an event into a state, and returns it if it is one of the workflow's own.
    fn fold(
        &self,
        loaded: &mut Loaded<W::State>,
        event: &Event,
    ) -> Result<Option<W::Event>, LoadError> {
        debug_assert_eq!(event.version(), loaded.version + 1, "versions of a stream have no holes");
        let happened = if is_ours(event.event_type()) {
            let lifecycle = Lifecycle::decode(event);
            loaded.mode = lifecycle.map_err(|error| self.unreadable(event, error))?.mode();
            None
        } else {
            let happened = self.decode(event)?;
            self.workflow.evolve(&mut loaded.state, &happened);
            Some(happened)
        };
        loaded.version = event.version();
        Ok(happened)
    }

    /// The state right after an event, if need be from the database, and the event. `before` is one that
    /// somebody remembers.
    pub(crate) async fn state_after(
        &self,
        event: &Event,
        before: Option<Loaded<W::State>>,
    ) -> Result<(Loaded<W::State>, Option<W::Event>), LoadError> {
        let last = event.version() - 1;
        let mut loaded = match before.filter(|before| before.version == last) {
            Some(before) => before,
            None if last == 0 => Loaded::default(),
            None => self.fold_up_to(&self.stream(event.stream_id())?, last).await?.0,
        };
        let happened = self.fold(&mut loaded, event)?;
        Ok((loaded, happened))
    }

    /// An event of the workflow's own schema.
    pub(crate) fn decode(&self, event: &Event) -> Result<W::Event, LoadError> {
        self.schema.decode(event).map_err(|error| self.unreadable(event, error))
    }

    pub(crate) fn unreadable(&self, event: &Event, source: DecodeError) -> LoadError {
        let (workflow, id) = (self.workflow.name().to_owned(), event.stream_id().to_owned());
        LoadError::Event { workflow, id, source }
    }
}
