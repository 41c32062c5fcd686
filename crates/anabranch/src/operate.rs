//! Operating consumers: how they stand, and what may be done about it.
//!
//! ```
//! use anabranch::operate::Consumers;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let log = anabranch::connect("sqlite::memory:").await?;
//! for consumer in Consumers::new(&log).list().await? {
//!     println!("{}: {} events to go", consumer.name, consumer.lag);
//! }
//! # Ok(()) }
//! ```
//!
//! | for | there is |
//! |---|---|
//! | what runs, how far it is, what waits, pause and resume, parked keys, replay | [`Consumers`] |
//! | a new version of a projection beside the old one | [`Rebuild`] |
//! | positions of runners that were there before | [`Import`] |
//! | how far each fixed partition is, and what another number of them would move | [`Offsets`], [`Rescale`] |

pub use anabranch_runtime::import::{Before, ImportedPartition};
pub use anabranch_runtime::{
    ChangedColumn, CheckpointTable, CodeChange, ColumnDifference, ConsumerStatus, Consumers,
    CursorStatus, Generation, GenerationMember, Import, ImportError, ImportPlan, KeyState,
    LimitStatus, MissingEvents, NextEvent, Obstacle, Offset, Offsets, OperateError, Outage, Owner,
    Parked, Reason, Rebuild, RebuildError, Refusal, ReplayError, ReplayFrom, Rescale, Runner,
    RunnerStatus, ScopeChange, SwitchPreview, TableColumn, TableDifference, UnableWorker,
    Unlimited, Unmatched, UnrunPool, VersionState, WorkerStatus,
};
