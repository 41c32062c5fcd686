//! What the examples that measure share.
//!
//! | module | subject |
//! |---|---|
//! | `crew` | worker processes: started, told to leave, killed |
//! | `load` | a steady stream of orders |
//! | `ledger` | the projection: who handled which event, and when |
//! | `proof` | what its rows say |
//! | `watch` | who owns what, from the tables |
//! | `text` | numbers and bars on a terminal |

#[path = "../start.rs"]
mod start;

pub mod crew;
pub mod ledger;
pub mod load;
pub mod proof;
pub mod text;
pub mod watch;

pub use start::{Outcome, arguments, as_partition, connect, report, url_or};
