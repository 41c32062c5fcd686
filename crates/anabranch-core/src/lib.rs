//! The pure part of Anabranch: what an event, a stream, a query and a slot are, and how a batch of
//! appends is decided.
//!
//! Nothing here does I/O, reads a clock or starts a task; the one source of randomness is the id of
//! a [`NewEvent`]. So every rule in this crate can be tested by property, and every backend shares
//! the same rules instead of repeating them.
//!
//! | module | subject |
//! |---|---|
//! | [`stream`] | stream ids: category and id |
//! | [`event`] | the recorded event |
//! | [`new_event`] | the event to append |
//! | [`json`] | JSON kept as text |
//! | [`position`] | global positions |
//! | [`query`] | queries by type and tag |
//! | [`append`] | what an append asks for and what it answers |
//! | [`audit`] | the record of an audited consumer, and its proof |
//! | [`decide`] | which appends of a batch are accepted |
//! | [`slot`] | hash rules and the 5040 slots |
//! | [`slot_set`] | sets of slots |
//! | [`partition`] | how a consumer's events are keyed |
//! | [`fixed`] | fixed partitions, i of N |
//! | [`cursor`] | who has done which slots up to where: claim, release, cover |
//! | [`plan`] | which slots each worker should own, and each of its lanes |
//! | [`rates`] | how busy and how heavy each slot is |
//! | [`rescale`] | what going from N fixed partitions to M moves |
//! | [`retry`] | when a failed event is tried again |
//! | [`task_state`] | how a task stands, and what is stored for it |
//! | [`trace_context`] | where something stands in a trace |
//! | [`time`] | microseconds of a database as a [`jiff::Timestamp`] |
//! | [`cron`] | when something is due again, in local time |
//! | [`schema`] | typed events and upcasters |
//! | [`limits`] | what is refused before it reaches a database |
//! | [`engine_event`] | what happens in the engine, as values |
//! | [`error`] | what can go wrong with an input or an append |
//! | [`store_error`] | what a database could not do |
//! | [`code`] | the stable code of each error |

pub mod append;
pub mod audit;
pub mod code;
pub mod cron;
pub mod cursor;
pub mod decide;
pub mod engine_event;
pub mod error;
pub mod event;
pub mod fixed;
pub mod generation;
pub mod json;
pub mod limits;
pub mod new_event;
pub mod partition;
pub mod plan;
pub mod position;
pub mod query;
pub mod rates;
pub mod rescale;
pub mod retry;
pub mod schema;
pub mod scope_key;
pub mod slot;
pub mod slot_set;
pub mod store_error;
pub mod stream;
pub mod task_state;
pub mod time;
pub mod trace_context;

pub use append::{Append, Appended, Condition, Expected, Recorded};
pub use code::{ErrorCode, ErrorKind};
pub use cron::{Cron, CronError};
pub use cursor::Cursor;
pub use engine_event::{EngineEvent, Happening, Notice};
pub use error::{AppendError, InputError, InputProblem, UnknownName};
pub use event::Event;
pub use fixed::FixedPartition;
pub use generation::Rollout;
pub use json::Json;
pub use limits::Limits;
pub use new_event::NewEvent;
pub use partition::{MissingKey, Partition, SlotColumn, Strategy};
pub use position::Position;
pub use query::{Query, QueryItem};
pub use rates::{Rates, Weights};
pub use retry::{Again, Failure, Retry};
pub use schema::{DecodeError, EventSchema};
pub use scope_key::ScopeKey;
pub use slot::{HashRule, SLOTS, Slot, Slots};
pub use slot_set::SlotSet;
pub use store_error::{OtherLog, StoreError};
pub use stream::StreamId;
pub use task_state::{TaskState, TaskStates, UnknownTaskState};
pub use trace_context::{BadTraceContext, TraceContext};
