//! Spans of `tracing` go to a collector of OpenTelemetry, by OTLP over HTTP.
//!
//! | module | subject |
//! |---|---|
//! | `export` | [`Export`]: what is exported, and where to |
//! | `queue` | the queue of spans, and the thread that sends them |
//! | `collector` | how a request gets to the collector, and what it answers |
//!
//! Invariant: nobody who makes a span waits for the collector, and what is sent makes no spans.

mod collector;
mod export;
mod queue;

pub use export::{Export, ExportError};
