//! Projections in SQL: statements with fields of the event by name.
//!
//! | module | subject |
//! |---|---|
//! | `field` | a field of an event: which there are, and its value |
//! | `compile` | from the statements of a file to a projection |
//! | `projection` | the projection |
//! | `tables` | tables of its own, whose names a rebuild changes |
//! | `document` | values out of JSON, without reading the rest of it |

mod compile;
mod document;
mod field;
mod projection;
mod tables;

pub use field::{Field, FieldError};
pub use projection::SqlProjection;

pub(crate) use compile::{Compiled, Compiler};
pub(crate) use projection::Hooks;
