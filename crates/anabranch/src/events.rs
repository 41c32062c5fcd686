//! What happens in the engine, as one stream of typed events, and those who watch it.
//!
//! ```
//! use anabranch::events::EngineEvent;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let log = anabranch::connect("sqlite::memory:").await?;
//! let log = log.with_observer(|event: &EngineEvent| println!("{}", event.what.name()));
//! # drop(log);
//! # Ok(()) }
//! ```

pub use anabranch_core::engine_event::{
    EngineEvent, Happening, Notice, OutageOf, Severity, SlotMove,
};
pub use anabranch_store::{Observer, TracingObserver};
