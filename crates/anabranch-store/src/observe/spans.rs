//! Spans of `tracing` for what the engine does, with parents and links of OpenTelemetry: the one place in which the
//! engine makes them.

use super::Emitter;
use crate::trace::{Doing, is_of_one_trace};
use anabranch_core::TraceContext;
use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
};
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// A span of the engine.
#[derive(Debug)]
pub(crate) struct Span(tracing::Span);

/// A span with its name, which must be known when the program is built.
macro_rules! span {
    ($name:literal $kind:literal $place:ident $events:ident $(, $parent:tt $given:expr)?) => {
        tracing::span!(
            target: "anabranch::trace",
            $($parent: $given,)?
            tracing::Level::INFO,
            $name,
            otel.name = $place.name($name),
            otel.kind = $kind,
            anabranch.set = $place.set,
            anabranch.worker = $place.worker,
            anabranch.consumer = $place.consumer,
            anabranch.lane = $place.lane,
            anabranch.events = $events,
        )
    };
}

/// Where something is done.
#[derive(Default)]
struct Place<'a> {
    set: Option<&'a str>,
    worker: Option<&'a str>,
    consumer: Option<&'a str>,
    lane: Option<u64>,
}

impl Place<'_> {
    fn name(&self, doing: &str) -> String {
        self.consumer.map_or_else(|| doing.to_owned(), |consumer| format!("{doing} {consumer}"))
    }
}

impl Span {
    /// A span with this parent; without one it begins a trace of its own, except for an append, which stands in the
    /// current span. One event of several, and a message, stand in the batch around them if that is of the same trace,
    /// and leave the links to it; else they link to it. Nothing if nobody wants it.
    pub(crate) fn begin(
        doing: Doing,
        by: Option<&Emitter>,
        events: usize,
        parent: Option<TraceContext>,
        links: &[TraceContext],
    ) -> Option<Self> {
        let place = by.map_or_else(Place::default, |by| Place {
            set: by.set.as_deref(),
            worker: by.worker.as_deref(),
            consumer: by.consumer.as_deref(),
            lane: by.lane.map(|lane| lane as u64),
        });
        let events = Some(events as u64).filter(|events| *events > 0);
        let stands_in_batch = matches!(doing, Doing::HandleOne | Doing::Send);
        let around = stands_in_batch.then(Self::of_current).flatten();
        let is_inside = around.is_some_and(|around| match &parent {
            Some(parent) => is_of_one_trace(parent, &around),
            None => links.is_empty(),
        });
        let parent = if is_inside { around } else { parent };
        let span = match doing {
            Doing::Append => span!("append" "producer" place events),
            Doing::Handle => span!("handle" "consumer" place events, parent None),
            Doing::HandleOne => span!("handle event" "consumer" place events, parent None),
            Doing::Task => span!("task" "consumer" place events, parent None),
            Doing::Send => span!("send" "client" place events, parent None),
        };
        if span.is_disabled() {
            return None;
        }
        if let Some(parent) = parent {
            let remote = Context::new().with_remote_span_context(spoken(parent));
            // It was begun just now, so it takes one; without a layer nothing is recorded.
            let _ = span.set_parent(remote);
        }
        if !is_inside {
            links.iter().chain(&around).for_each(|link| span.add_link(spoken(*link)));
        }
        Some(Self(span))
    }

    /// The commit of what is done here.
    pub(crate) fn commit(&self) -> Self {
        let _here = self.0.enter();
        let (place, events) = (Place::default(), None::<u64>);
        Self(span!("commit" "internal" place events))
    }

    /// The commit of several things.
    pub(crate) fn commit_of<'a>(all: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let all: Vec<_> = all.map(|span| (span, span.context())).collect();
        let (first, of_first) = all.first()?;
        let is_one = all.iter().skip(1).all(|(_, of_other)| match (of_first, of_other) {
            (Some(first), Some(other)) => is_of_one_trace(first, other),
            _ => false,
        });
        let commit = if is_one {
            first.commit()
        } else {
            let (place, events) = (Place::default(), None::<u64>);
            Self(span!("commit" "internal" place events, parent None))
        };
        let linked = all.iter().skip(usize::from(is_one)).filter_map(|(_, context)| *context);
        linked.for_each(|context| commit.0.add_link(spoken(context)));
        Some(commit)
    }

    /// The context of the current span, if it is recorded or handed on: that of `tracing`, or of the API of
    /// OpenTelemetry, where the innermost of `tracing` is not recorded.
    pub(crate) fn of_current() -> Option<TraceContext> {
        context_of(&tracing::Span::current())
            .or_else(|| Context::map_current(|context| said(context.span().span_context())))
    }

    pub(crate) fn context(&self) -> Option<TraceContext> {
        context_of(&self.0)
    }

    pub(crate) async fn around<F: Future>(&self, future: F) -> F::Output {
        future.instrument(self.0.clone()).await
    }

    pub(crate) fn failed(&self, error: String) {
        self.0.set_status(Status::error(error));
    }
}

impl Drop for Span {
    /// The layer takes the last time that a span was left for its end; it ends now.
    fn drop(&mut self) {
        drop(self.0.enter());
    }
}

fn context_of(span: &tracing::Span) -> Option<TraceContext> {
    if span.is_none() {
        return None;
    }
    said(span.context().span().span_context())
}

fn said(span: &SpanContext) -> Option<TraceContext> {
    let flags = (span.trace_flags() & TraceFlags::SAMPLED).to_u8();
    TraceContext::new(span.trace_id().to_bytes(), span.span_id().to_bytes(), flags)
}

fn spoken(context: TraceContext) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(context.trace_id()),
        SpanId::from_bytes(context.span_id()),
        TraceFlags::new(context.flags()),
        true,
        TraceState::NONE,
    )
}
