//! Where code runs in a trace, and how that travels with what it appends and enqueues.
//!
//! The context is that of [`within`], or, with the feature `otel`, that of the current span of `tracing`. An append
//! takes it along in a column of its own, and whatever handles the event goes on from there. Without a context nothing
//! is stored and nothing is looked up.

use crate::observe::Emitter;
#[cfg(feature = "otel")]
use crate::observe::spans::Span;
use anabranch_core::{Event, TraceContext};
use std::future::Future;

tokio::task_local! {
    /// What [`within`] was told; nothing where a span says it.
    static TOLD: Option<TraceContext>;
}

/// More links than this are dropped by those who record spans.
const MAX_LINKS: usize = 128;

/// Runs a future in a trace: what it appends and enqueues carries this context. It wins over the current span.
///
/// ```
/// # async fn f(log: anabranch_store::Log) -> Result<(), Box<dyn std::error::Error>> {
/// use anabranch_core::{Expected, NewEvent, StreamId, TraceContext};
/// use anabranch_store::trace;
/// // From the header `traceparent` of a request, say.
/// let context: TraceContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse()?;
/// let order = StreamId::new("Order", "ord-123")?;
/// let placed = NewEvent::new("OrderPlaced", ());
/// trace::within(context, log.append(&order, Expected::NoStream, [placed])).await?;
/// # Ok(()) }
/// ```
pub async fn within<F: Future>(context: TraceContext, future: F) -> F::Output {
    TOLD.scope(Some(context), future).await
}

/// The context in which this code runs, if there is one.
#[must_use]
pub fn current() -> Option<TraceContext> {
    let told = TOLD.try_with(|told| *told).ok().flatten();
    #[cfg(feature = "otel")]
    let told = told.or_else(Span::of_current);
    told
}

/// Something that runs in a trace: it goes on from what caused it. There is none where nothing is traced.
#[doc(hidden)]
#[derive(Debug)]
pub struct Work {
    /// What goes on if no span is recorded.
    cause: Option<TraceContext>,
    #[cfg(feature = "otel")]
    span: Option<Span>,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Append,
    Handle,
    HandleOne,
    Task,
    Send,
}

/// What caused something.
#[derive(Debug, Default, PartialEq)]
struct Causes {
    /// How many events there are.
    events: usize,
    /// The first of them, if all are of one trace.
    parent: Option<TraceContext>,
    /// The others.
    links: Vec<TraceContext>,
}

impl Causes {
    fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut causes = Self::default();
        let (mut seen, mut is_one) = (std::collections::HashSet::new(), true);
        for event in events {
            causes.events += 1;
            let Some(trace) = event.trace() else {
                is_one = false;
                continue;
            };
            is_one &= causes.links.first().is_none_or(|first| is_of_one_trace(first, &trace));
            if causes.links.len() < MAX_LINKS && seen.insert(trace) {
                causes.links.push(trace);
            }
        }
        if is_one && !causes.links.is_empty() {
            causes.parent = Some(causes.links.remove(0));
        }
        causes
    }
}

/// Whether two spans are parts of one trace.
pub(crate) fn is_of_one_trace(one: &TraceContext, other: &TraceContext) -> bool {
    one.trace_id() == other.trace_id()
}

impl Work {
    /// An append, in the span of its caller. Only with `otel`, where it is a span of its own.
    #[must_use]
    pub fn append() -> Option<Self> {
        // Who says where it stands knows better.
        match TOLD.try_with(|told| told.is_some()) {
            Ok(true) => None,
            _ => Self::new(Doing::Append, Causes::default(), None),
        }
    }

    /// A handler that gets these events: a part of the trace in which they were appended, if that is one. It links to
    /// each append that is not its parent.
    #[must_use]
    pub fn handle(events: &[Event], by: &Emitter) -> Option<Self> {
        Self::new(Doing::Handle, Causes::of(events), Some(by))
    }

    /// One event of several that a handler gets, one after the other: it goes on with its own trace.
    #[must_use]
    pub fn one_of(events: &[Event], event: &Event) -> Option<Self> {
        if events.len() < 2 || event.trace().is_none() {
            return None;
        }
        Self::new(Doing::HandleOne, Causes::of([event]), None)
    }

    /// The commit of what was handled.
    #[must_use]
    pub fn commit(&self) -> Option<Self> {
        #[cfg(feature = "otel")]
        if let Some(span) = &self.span {
            let span = Some(span.commit());
            return Some(Self { cause: self.cause, span });
        }
        None
    }

    /// The commit of several things that were done: in their trace, if that is one. It links to each that is not its
    /// parent.
    #[must_use]
    pub fn commit_of<'a>(all: impl Iterator<Item = &'a Self>) -> Option<Self> {
        #[cfg(feature = "otel")]
        {
            let spans = all.filter_map(|work| work.span.as_ref());
            let span = Span::commit_of(spans.take(MAX_LINKS))?;
            Some(Self { cause: None, span: Some(span) })
        }
        #[cfg(not(feature = "otel"))]
        {
            drop(all);
            None
        }
    }

    /// A task that was enqueued there.
    #[must_use]
    pub fn task(enqueued: Option<TraceContext>, by: &Emitter) -> Option<Self> {
        let causes = Causes { events: 0, parent: enqueued, links: Vec::new() };
        Self::new(Doing::Task, causes, Some(by))
    }

    /// A message that is sent with these events.
    #[must_use]
    pub fn send<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<Self> {
        Self::new(Doing::Send, Causes::of(events), None)
    }

    #[cfg(feature = "otel")]
    fn new(doing: Doing, causes: Causes, by: Option<&Emitter>) -> Option<Self> {
        let Causes { events, parent: cause, links } = causes;
        let span = Span::begin(doing, by, events, cause, &links);
        (span.is_some() || cause.is_some()).then_some(Self { cause, span })
    }

    #[cfg(not(feature = "otel"))]
    fn new(_: Doing, causes: Causes, _: Option<&Emitter>) -> Option<Self> {
        causes.parent.map(|cause| Self { cause: Some(cause) })
    }

    /// Where it stands: what it appends and sends carries this.
    #[must_use]
    pub fn context(&self) -> Option<TraceContext> {
        #[cfg(feature = "otel")]
        if let Some(context) = self.span.as_ref().and_then(Span::context) {
            return Some(context);
        }
        self.cause
    }

    /// Runs a future in it.
    pub async fn run<F: Future>(&self, future: F) -> F::Output {
        #[cfg(feature = "otel")]
        if let Some(span) = &self.span {
            // The span says it, and not what an outer one was told.
            let told = if span.context().is_some() { None } else { self.cause };
            return span.around(TOLD.scope(told, future)).await;
        }
        TOLD.scope(self.cause, future).await
    }

    /// It has failed, and why.
    #[cfg_attr(not(feature = "otel"), expect(unused_variables, reason = "nothing is recorded"))]
    pub fn failed(&self, error: &dyn std::fmt::Display) {
        #[cfg(feature = "otel")]
        if let Some(span) = &self.span {
            span.failed(error.to_string());
        }
    }
}

/// Runs a future in what is traced, if something is.
#[doc(hidden)]
pub async fn run<F: Future>(work: Option<&Work>, future: F) -> F::Output {
    match work {
        None => future.await,
        Some(work) => work.run(future).await,
    }
}

/// The same of something that can fail: what is traced says why.
#[doc(hidden)]
pub async fn attempt<T, E, F>(work: Option<&Work>, future: F) -> Result<T, E>
where
    E: std::fmt::Display,
    F: Future<Output = Result<T, E>>,
{
    let outcome = run(work, future).await;
    if let (Some(work), Err(error)) = (work, &outcome) {
        work.failed(error);
    }
    outcome
}

/// Ends what is traced: a span that it has is closed now, and not where a scope happens to end.
#[doc(hidden)]
pub fn end<const N: usize>(_ended: [Option<Work>; N]) {}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::{HashRule, NewEvent, Position, Slots, StreamId};

    const ONE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const SIBLING: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01";
    const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203333-01";

    fn event(trace: Option<&str>) -> Event {
        let (stream, new) = (StreamId::new("S", "1").unwrap(), NewEvent::new("E", ()));
        let slots = Slots::from_keys(HashRule::Fnv1a, "1", None, None);
        let body = new.body(&stream);
        Event::from_traced_row(Position::new(1), 1, new.id(), 0, slots, &body, trace)
    }

    #[test]
    fn one_cause_is_the_parent_and_several_are_links() {
        let causes = |traces: &[Option<&str>]| {
            let events: Vec<Event> = traces.iter().map(|trace| event(*trace)).collect();
            Causes::of(&events)
        };
        let context = |text: &str| text.parse::<TraceContext>().unwrap();
        assert_eq!(causes(&[Some(ONE)]).parent, Some(context(ONE)));
        assert_eq!(causes(&[Some(ONE), Some(ONE)]).parent, Some(context(ONE)));
        assert_eq!(causes(&[None]), Causes { events: 1, ..Causes::default() });
        let several = causes(&[Some(ONE), Some(OTHER), Some(ONE)]);
        assert_eq!((several.parent, several.links), (None, vec![context(ONE), context(OTHER)]));
        // Two spans of one request: a part of its trace.
        let siblings = causes(&[Some(ONE), Some(SIBLING), Some(ONE)]);
        assert_eq!((siblings.parent, siblings.links), (Some(context(ONE)), vec![context(SIBLING)]));
        // What was appended outside of any trace is no part of this one.
        let mixed = causes(&[Some(ONE), None]);
        assert_eq!((mixed.parent, mixed.links), (None, vec![context(ONE)]));
        assert_eq!(causes(&[Some("nonsense")]).parent, None);
    }

    #[tokio::test]
    async fn the_context_is_that_of_the_innermost() {
        let context = |text: &str| text.parse::<TraceContext>().unwrap();
        assert_eq!(current(), None);
        within(context(ONE), async {
            assert_eq!(current(), Some(context(ONE)));
            within(context(OTHER), async { assert_eq!(current(), Some(context(OTHER))) }).await;
            let work = Work::send([&event(Some(OTHER))]).unwrap();
            assert_eq!(work.context().unwrap().trace_id(), context(OTHER).trace_id());
            work.run(async { assert_eq!(current(), work.context()) }).await;
            assert_eq!(current(), Some(context(ONE)));
        })
        .await;
        assert_eq!(current(), None);
    }
}
