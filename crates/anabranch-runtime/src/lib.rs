//! Consumers: what handles the events of a log, exactly once and in order, on one lane or many.
//!
//! | module | subject |
//! |---|---|
//! | [`projection`] | [`Projection`]: tables kept up to date, exactly once |
//! | [`view`] | [`View`]: a fold for each key, and no SQL |
//! | [`rollup`] | [`Rollup`]: sums across keys, in parts for each slot |
//! | `row_watch` | a debug mode: rows that two slots write |
//! | `fold` | how views and rollups are run |
//! | [`subscriber`] | [`Subscriber`]: effects elsewhere, at least once |
//! | `courier` | a subscriber that delivers several keys at the same time |
//! | [`rows`], [`holding`] | [`RowConsumer`]: rows of its own instead of events |
//! | [`permits`] | [`Permits`]: a limit on what is in work, over all processes |
//! | [`settings`] | retry, batch size, version, start |
//! | [`scope`] | [`Scope`]: which events a consumer handles |
//! | [`scope_change`] | [`ScopeChange`]: a scope that is no longer the stored one |
//! | [`code_change`] | [`CodeChange`]: a code that is not the accepted one |
//! | `identity` | what identifies a consumer: stored, and compared at each start |
//! | `key_samples` | keys of handled events, computed again at each start |
//! | [`next_event`] | [`NextEvent`]: the first event of a slot that is not handled |
//! | [`unmatched`] | [`Unmatched`]: a scope that no event of the log matches |
//! | [`tx`] | [`Tx`]: the transaction that a handler writes in |
//! | [`handler`] | what handlers return |
//! | [`replica_set`] | [`ReplicaSet`]: consumers that scale together |
//! | [`tuning`] | [`Tuning`]: leases, heartbeats, time-outs |
//! | [`report`] | what a worker says of itself |
//! | [`mod@progress_bar`] | how far it is, on a terminal |
//! | [`consumers`] | [`Consumers`]: pause, replay, parked keys, generations |
//! | [`operate_error`] | [`OperateError`]: why a request of an operator was not carried out |
//! | [`fingerprint`] | [`Fingerprint`]: what a decision about a consumer rests on |
//! | `skip` | leaving out what is not handled |
//! | [`parked_page`] | parked keys by filter, a page at a time |
//! | [`replay`] | beginning again: from where, and from where it can |
//! | `key_replay` | one key handled again, while the others go on |
//! | [`status`] | how the consumers stand |
//! | [`gauges`] | [`Gauges`]: what metrics show, by one cheap statement |
//! | [`reason`] | [`Reason`]: why a cursor does not advance |
//! | [`unrun_pools`] | [`UnrunPool`]: pools with tasks that no worker has ever run |
//! | [`offsets`] | [`Offsets`]: how far each partition is, and what a rescale moves |
//! | [`import`] | [`Import`]: positions of runners that were there before |
//! | [`rebalance`] | [`Rebalance`]: slots moved for their load, now |
//! | [`rebuild`] | [`Rebuild`]: a new version beside the old one |
//! | [`incomplete`] | [`Incomplete`]: what a catch-up has left behind |
//! | `interference` | what a test does to handlers |
//! | `known_codes` | the code of an error of any type |
//! | [`audit`] | [`Proof`]: every event once and in order, proven on a live system |
//! | `backlog` | what a consumer has not handled |
//! | `worker` | the process: lease, claims, start and stop |
//! | `feed` | one reader for all lanes of a consumer |
//! | `lane` | takes events, runs the handler, commits with the fence |
//! | `consumer` | a consumer as the runtime sees it |
//! | `tables` | the rows that consumers live by |
//!
//! This crate never names a database: it writes the same statements on all of them.

pub mod audit;
mod backlog;
pub mod code_change;
mod consumer;
pub mod consumers;
#[doc(hidden)]
pub mod courier;
mod feed;
pub mod fingerprint;
mod fold;
pub mod gauges;
pub mod handler;
pub mod holding;
mod identity;
pub mod import;
pub mod incomplete;
#[doc(hidden)]
pub mod interference;
mod key_replay;
mod key_samples;
mod known_codes;
mod lane;
pub mod next_event;
pub mod offsets;
pub mod operate_error;
pub mod parked_page;
pub mod permits;
pub mod progress_bar;
pub mod projection;
pub mod reason;
pub mod rebalance;
pub mod rebuild;
pub mod replay;
pub mod replica_set;
pub mod report;
pub mod rollup;
mod row_watch;
pub mod rows;
pub mod run_error;
pub mod scope;
pub mod scope_change;
pub mod settings;
mod skip;
mod standing;
pub mod status;
pub mod subscriber;
mod tables;
mod too_busy;
pub mod tuning;
pub mod tx;
pub mod unmatched;
pub mod unrun_pools;
pub mod view;
mod worker;

pub use audit::{AuditError, AuditProgress, AuditStatus, Proof};
pub use code_change::CodeChange;
pub use consumers::{Consumers, KeyState, Parked};
#[doc(hidden)]
pub use courier::{Courier, CourierLane};
pub use fingerprint::Fingerprint;
pub use gauges::{ConsumerGauges, Gauges, GaugesOf, SetGauges, TaskGauge};
pub use handler::{HandlerError, HandlerResult};
pub use holding::{Commit, Holding};
pub use import::{CheckpointTable, Import, ImportError, ImportPlan, Refusal};
pub use incomplete::{Incomplete, Left};
#[doc(hidden)]
pub use known_codes::code_of_runtime;
pub use next_event::NextEvent;
pub use offsets::{Offset, Offsets, Rescale};
pub use operate_error::{Obstacle, OperateError};
pub use parked_page::{ParkedAction, ParkedFilter, ParkedFound, ParkedPage};
pub use permits::{Permit, Permits};
pub use progress_bar::{ProgressBar, progress_bar};
pub use projection::Projection;
pub use reason::{Reason, UnableWorker};
pub use rebalance::Rebalance;
pub use rebuild::{
    ChangedColumn, ColumnDifference, Rebuild, RebuildError, SwitchPreview, TableColumn,
    TableDifference, VersionState,
};
pub use replay::{MOST_LAST, MissingEvents, ReplayError, ReplayFrom};
pub use replica_set::{
    ConsumerChange, ConsumerProgress, Progress, ReplicaSet, SetCheck, SetHandle, shutdown_signal,
};
pub use rollup::{Rollup, RollupReader};
pub use rows::RowConsumer;
pub use run_error::RunError;
pub use scope::Scope;
pub use scope_change::ScopeChange;
pub use settings::{Settings, Start};
pub use status::{
    ConsumerStatus, CursorStatus, LimitStatus, Outage, Owner, RunnerStatus, Unlimited, WorkerStatus,
};
pub use subscriber::{Delivery, Guarantee, Subscriber};
pub use tables::generations::{Generation, GenerationMember};
pub use tables::runners::Runner;
pub use tuning::{Tuning, TuningError};
pub use tx::{Mark, RawTx, Tx};
pub use unmatched::Unmatched;
pub use unrun_pools::UnrunPool;
pub use view::{View, ViewColumn, ViewReader};
pub use worker::host;
