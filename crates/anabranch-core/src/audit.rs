//! The audit of a consumer: the record of what each commit handed to the handler, and the proof that it was
//! every event once and in order.
//!
//! The core makes and compares; it reads nothing. [`Digester`] makes what a commit stores. [`Prover`] receives the
//! stored rows and the events of the log, and ends with a proof or with the first [`Violation`].
//!
//! | file | subject |
//! |---|---|
//! | `record` | a row of the record |
//! | `digest` | the digest of what was handed to the handler |
//! | `prover` | what goes in and out, and in which order |
//! | `shape` | what a row says of itself |
//! | `chain`, `row_ids` | which row goes on from which |
//! | `window` | one pass over the log for the rows of a window |
//! | `segment` | a run of rows of one cursor, compared with its events |
//! | `explain` | which single mistake explains a digest |
//! | `by_position` | custom keys, where slots are unknown |
//! | `ledger`, `keys` | what is set aside, and that nothing overtakes it |
//! | `end` | the cursors at the end, and what stays when rows are pruned |
//! | `violation`, `places` | what can be wrong, and where |

mod by_position;
mod chain;
mod digest;
mod end;
mod explain;
mod keys;
mod ledger;
mod places;
mod prover;
mod record;
mod row_ids;
mod segment;
mod shape;
mod violation;
mod window;

pub use digest::{DIGEST_BYTES, Digest, Digester};
pub use end::{AuditedCursor, Checkpoint, Proven};
pub use places::{EventPlace, RowPlace};
pub use prover::{Prover, Seen};
pub use record::{Record, RecordKind};
pub use violation::Violation;

#[cfg(test)]
mod tests;
