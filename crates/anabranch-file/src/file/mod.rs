//! A file that describes replica sets: read, checked, and as values.
//!
//! | module | subject |
//! |---|---|
//! | `keys` | which keys there are, and what they hold |
//! | `shape` | how that is described |
//! | `validate` | whether a file has that shape |
//! | `model` | what a file says, as values |
//! | `build` | from the one to the other |
//! | `consumers` | the keys that consumers have in common |
//! | `json` | values as JSON, with all digits |
//! | `one_of` | lists whose tables are of several shapes |
//! | `partition` | how events are keyed |
//! | `tests` | tests that stand in a file |
//! | `setting` | texts that may be taken from the environment |
//! | `text` | texts, and where each character of them stands |
//! | `webhook` | webhooks, from their tables |
//! | `problem` | what is wrong, and where |
//! | `schema` | the shape as a JSON Schema, for editors |

mod build;
mod consumers;
mod json;
mod keys;
mod model;
mod one_of;
mod partition;
mod problem;
mod schema;
mod setting;
mod shape;
mod tests;
mod text;
mod validate;
mod webhook;

pub use model::{
    By, Consumer, Due, Effects, File, Form, Pool, Program, Projection, Run, Schedule, Set,
    Statements, Target, Webhook,
};
pub use problem::{Place, Problem, Problems, Source};
pub use schema::json_schema;
pub use setting::Setting;
pub use shape::DATABASES;
pub use tests::{Expectation, Given, Test};
pub use text::Text;

pub(crate) use validate::{is_nearly, suggest};
