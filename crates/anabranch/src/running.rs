//! Around a running [`ReplicaSet`](crate::ReplicaSet): how far it is, what it has left behind, how its workers are
//! replaced.
//!
//! ```no_run
//! use anabranch::prelude::*;
//! use anabranch::running::progress_bar;
//!
//! # async fn run(log: Log, set: ReplicaSet) -> Result<(), anabranch::RunError> {
//! set.on_progress(progress_bar()).catch_up(&log).await?;
//! # Ok(()) }
//! ```

pub use anabranch_core::{Again, Rollout};
pub use anabranch_runtime::{
    ConsumerChange, ConsumerProgress, Guarantee, Incomplete, Left, Progress, ProgressBar, SetCheck,
    SetHandle, TuningError, progress_bar,
};
