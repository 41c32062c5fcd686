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
//! | that the handler received every event once and in order | [`Consumers::audit`], [`Proof`] |
//! | how far each fixed partition is, and what another number of them would move | [`Offsets`], [`Rescale`] |

pub use anabranch_core::audit::{Proven, Violation};
pub use anabranch_runtime::host;
pub use anabranch_runtime::import::{Before, ImportedPartition};
pub use anabranch_runtime::{
    AuditError, AuditProgress, AuditStatus, ChangedColumn, CheckpointTable, CodeChange,
    ColumnDifference, ConsumerGauges, ConsumerStatus, Consumers, CursorStatus, Fingerprint, Gauges,
    GaugesOf, Generation, GenerationMember, Import, ImportError, ImportPlan, KeyState, LimitStatus,
    MissingEvents, NextEvent, Obstacle, Offset, Offsets, OperateError, Outage, Owner, Parked,
    ParkedAction, ParkedFilter, ParkedFound, Proof, Reason, Rebalance, Rebuild, RebuildError,
    Refusal, ReplayError, ReplayFrom, Rescale, Runner, RunnerStatus, ScopeChange, SetGauges,
    SwitchPreview, TableColumn, TableDifference, TaskGauge, UnableWorker, Unlimited, Unmatched,
    UnrunPool, VersionState, WorkerStatus,
};
