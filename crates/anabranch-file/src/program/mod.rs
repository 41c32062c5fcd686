//! Programs in any language, by the line protocol of `docs/programs.md`.
//!
//! | module | subject |
//! |---|---|
//! | `check` | whether a program can be started at all |
//! | `command` | what is started, and how long it may take |
//! | `programs` | the programs of this process: one thread starts them, and one count knows when all have ended |
//! | `launch` | a program that ends with its parent |
//! | `children` | the programs of one consumer: idle ones wait for the next batch |
//! | `process` | one program: what it is sent, what it says, how it ends |
//! | `lines` | its standard output, line by line and bounded |
//! | `stderr` | its standard error, in our log |
//! | `last_words` | what of that is told when it has died |
//! | `clock` | how long it may take |
//! | `message` | what it may say |
//! | `texts` | statements that come again and again |
//! | `events` | a batch of events or a task on its way to it, and rows |
//! | `inside` | a conversation whose effects are in a transaction |
//! | `recorder` | what they were sent and have answered, for tests |
//! | `projection`, `pool`, `outside` | the consumers |

mod check;
mod children;
mod clock;
mod command;
mod events;
mod inside;
mod last_words;
mod launch;
mod lines;
mod message;
mod outside;
mod pool;
mod process;
mod programs;
mod projection;
mod recorder;
mod stderr;
mod texts;

pub use children::greets;
pub use command::Command;
pub use launch::launch;
pub use outside::OutsideProgramPool;
pub use pool::ProgramPool;
pub use programs::Programs;
pub use projection::ProgramProjection;
pub use recorder::Recorder;
