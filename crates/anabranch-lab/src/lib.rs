//! The laboratory: programs that measure Anabranch, hit it, and show it. The command `anabranch` runs them as
//! `bench`, `chaos` and `demo`; each starts worker processes of the same command.
//!
//! | module | subject |
//! |---|---|
//! | `demo` | a projection that is rescaled and hit while it runs, and a proof |
//! | `chaos` | workers that are hit at random, and a proof |
//! | `bench` | how fast, beside the bare driver |
//! | `throwaway` | logs that a command makes for itself |
//! | [`receiver`] | a server that gets webhooks |
//! | `percentiles` | what was measured, in three numbers |
//! | `worker_process` | processes of this program's own |

#![warn(clippy::print_stderr)]

mod bench;
mod chaos;
mod demo;
mod percentiles;
pub mod receiver;
mod throwaway;
mod worker_process;

pub use bench::Bench;
pub use chaos::Chaos;
pub use chaos::worker::ChaosWorker;
pub use demo::Demo;
pub use demo::worker::DemoWorker;
