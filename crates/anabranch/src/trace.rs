//! Traces: where code runs in one, and how that travels with what it appends and enqueues.
//!
//! The context of an append is stored beside its event, and whatever handles the event goes on from there: projections,
//! subscribers, workflows, tasks, webhooks and programs. So one request is one trace, from the append to the commit of
//! what was made of it, over all processes. The context is the [W3C trace context](https://www.w3.org/TR/trace-context/),
//! the header `traceparent` of HTTP.
//!
//! Without the feature `otel` the context is passed on and nothing is recorded; say by [`within`] where code runs. With it,
//! the context is that of the current span of `tracing`, and appends, handlers, tasks, messages and commits are spans.
//! Where nothing is traced, nothing is stored.
//!
//! ```
//! use anabranch::prelude::*;
//! use anabranch::trace::{self, TraceContext};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let log = anabranch::connect("sqlite::memory:").await?;
//! let order = StreamId::new("Order", "ord-123")?;
//! // From the header `traceparent` of a request.
//! let request: TraceContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse()?;
//! let append = || log.append(&order, Expected::NoStream, [NewEvent::new("OrderPlaced", ())]);
//! trace::within(request, append()).await?;
//!
//! let events = log.read_stream(&order).collect().await?;
//! assert_eq!(events[0].trace(), Some(request));
//! # Ok(()) }
//! ```
//!
//! [`NewEvent::with_trace`](crate::NewEvent::with_trace) says the context of one event, in the place of that of the code.

pub use anabranch_core::{BadTraceContext, TraceContext};
#[cfg(feature = "otel")]
pub use anabranch_otlp::{Export, ExportError};
pub use anabranch_store::trace::{current, within};
