//! What is known of a statement before it runs.

/// Why a text is refused that holds more than one statement.
pub const ONE_STATEMENT: &str = "there are several statements in the text; give them one at a time";

/// A statement that was prepared and not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// The types that it wants for `$1`, `$2`, …, as people write them: `bigint`, `timestamptz`, `text[]`, the
    /// name of an enum or a domain. `None` where the database takes any value.
    pub values: Vec<Option<String>>,
    /// The names of the columns that it answers with.
    pub columns: Vec<String>,
}
