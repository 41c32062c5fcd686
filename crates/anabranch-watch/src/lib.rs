//! Metrics and health of what runs on a log: for Prometheus, and for whoever starts and stops processes.
//!
//! | module | subject |
//! |---|---|
//! | `catalogue` | every metric: its name, unit, kind and help |
//! | `families` | their values, and the two text formats |
//! | `counted` | what the events of the engine add to them |
//! | `shown` | what is read from the database when somebody asks |
//! | `health` | whether the process turns over, and whether its workers hold their leases |
//! | `watch` | all of that for one log |
//! | `server` | the small HTTP server |

mod catalogue;
mod counted;
mod families;
mod health;
mod server;
mod shown;
mod watch;

pub use catalogue::{Kind, METRICS, Metric};
pub use families::Format;
pub use health::NotReady;
pub use server::Server;
pub use watch::Watch;
