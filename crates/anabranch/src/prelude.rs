//! What nearly every program uses: `use anabranch::prelude::*;`.
//!
//! What belongs to one kind of program is imported from its module: [`workpool`](crate::workpool),
//! [`workflow`](crate::workflow), [`batch`](crate::batch), [`operate`](crate::operate). Their traits that add a
//! method to [`ReplicaSet`] are here.

pub use crate::{
    Append, Event, Expected, HandlerError, HandlerResult, Log, NewEvent, Partition, Position,
    Projection, Query, ReplicaSet, Scope, Settings, StreamId, Subscriber, Tx, View, ViewColumn,
    params,
};

#[cfg(feature = "workflow")]
pub use anabranch_workflow::WorkflowSet;
#[cfg(feature = "workpool")]
pub use anabranch_workpool::PoolSet;
