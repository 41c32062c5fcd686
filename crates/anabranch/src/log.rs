//! What appears in the signatures of [`Log`](crate::Log) and has seldom to be named.

pub use anabranch_core::{Condition, DecodeError, QueryItem, Recorded};
pub use anabranch_store::{ReadLog, ReadStream};
