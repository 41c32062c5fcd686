//! How the commands of Anabranch speak: what they print and say, tables, signals, readers that go away.
//!
//! Standard output is data, standard error is everything else.
//!
//! | module | subject |
//! |---|---|
//! | [`output`] | lines, JSON lines and tables |
//! | [`cut_short`] | signals, and readers that go away |
//! | [`screen`] | the whole screen of a terminal, for a picture that is drawn again and again (Unix) |

#![warn(clippy::print_stderr)]

#[macro_use]
pub mod output;

pub mod cut_short;
#[cfg(unix)]
pub mod screen;
