//! What is refused before it reaches a database, so that every backend refuses the same.

use crate::error::{InputError, InputProblem};

/// The longest stream id, event type, tag, tenant, customer, correlation or causation, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// The longest category, in bytes.
pub const MAX_CATEGORY_BYTES: usize = 128;
/// The most tags that one event may carry.
pub const MAX_TAGS: usize = 64;
/// The most types and tags that one query may name, all items together. SQLite unites at most 500
/// ranges in one statement.
pub const MAX_QUERY_TERMS: usize = 128;
/// The most tags that one item of a query may name. SQLite joins at most 64 tables.
pub const MAX_ITEM_TAGS: usize = 32;

/// The limits of a log that a user may change.
///
/// ```
/// use anabranch_core::Limits;
/// let limits = Limits { data_bytes: 4 << 20, ..Limits::default() };
/// assert_eq!(limits.events_per_append, 10_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest data or metadata of one event, in bytes of JSON. Default 1 MiB.
    pub data_bytes: usize,
    /// The most events in one append. Default 10,000.
    pub events_per_append: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { data_bytes: 1 << 20, events_per_append: 10_000 }
    }
}

/// Checks a name: not empty, not over-long, no control characters.
///
/// Control characters are refused everywhere: PostgreSQL cannot hold NUL at all, and the others
/// break log lines, terminals and the separator that stored tags are joined with.
pub fn check_name(
    name: &str,
    limit: usize,
    subject: impl FnOnce() -> String,
) -> Result<(), InputError> {
    let problem = if name.is_empty() {
        InputProblem::Empty
    } else if name.len() > limit {
        InputProblem::TooLong { bytes: name.len(), limit }
    } else if let Some((at, character)) = name.char_indices().find(|(_, c)| c.is_control()) {
        InputProblem::ControlCharacter { character, at }
    } else {
        return Ok(());
    };
    Err(InputError { subject: subject(), problem })
}

/// Checks a category: a name without the `:` that separates it from the id.
pub(crate) fn check_category(category: &str) -> Result<(), InputError> {
    let subject = || format!("category `{}`", category.escape_debug());
    check_name(category, MAX_CATEGORY_BYTES, subject)?;
    if category.contains(':') {
        return Err(InputError { subject: subject(), problem: InputProblem::ColonInCategory });
    }
    Ok(())
}
