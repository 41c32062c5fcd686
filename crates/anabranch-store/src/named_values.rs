//! SQL in which values have names: `:stream_id`, `:data.total`, `:data.items[0].sku`, `:data."order no"`, `:data.note?`.
//!
//! A text is read as its database would read it ([`Lexical`]): what looks like a name in quotes, in a comment, in a
//! cast or in a slice is none. It may hold several statements. Each occurrence of a name is a value of its own, `$1`,
//! `$2`, …, so that the database finds the type of each place by itself.
//!
//! ```
//! use anabranch_store::database::Lexical;
//! use anabranch_store::named_values::parse;
//!
//! let text = "UPDATE t SET note = :data.note? WHERE id = :stream_id AND kind = ':none'; DELETE FROM u";
//! let named = parse(text, Lexical::ANY)?;
//! let [update, delete] = named.statements.as_slice() else { panic!("two statements") };
//! assert_eq!(update.sql, "UPDATE t SET note = $1 WHERE id = $2 AND kind = ':none'");
//! assert_eq!(delete.sql, "DELETE FROM u");
//! assert_eq!(update.values[0].to_string(), "data.note");
//! assert!(update.values[0].optional);
//! // A database that complains about `$2` means `:stream_id`.
//! let place = update.source_offset(update.sql.find("$2").unwrap());
//! assert!(text[place..].starts_with(":stream_id"));
//! # Ok::<(), anabranch_store::named_values::NamedError>(())
//! ```
//!
//! A name goes on for as long as it can: `:a[0]` is an item of `a` and `:a?` is optional, whatever operators the
//! database has. `(:a)[1]` is a subscript of the database, and `:a ? 'x'` its operator. Inside of an array or a
//! subscript a colon after something is that of a slice: `a[lo:hi]`.

mod bodies;
mod reader;
#[cfg(test)]
mod tests;

use crate::database::Lexical;
use std::fmt;
use std::ops::Range;
use thiserror::Error;

/// Reads a text by the rules of a database.
pub fn parse(text: &str, rules: Lexical) -> Result<Named, NamedError> {
    reader::Reader::new(text, rules).read()
}

/// A text whose values have names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Its statements, without those that are empty.
    pub statements: Vec<NamedStatement>,
}

impl Named {
    /// All values, in the order of the text.
    pub fn values(&self) -> impl Iterator<Item = &NamedValue> {
        self.statements.iter().flat_map(|statement| &statement.values)
    }
}

/// One statement of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedStatement {
    /// Where it is in the text, in bytes, without white space around it and the `;` after it.
    pub span: Range<usize>,
    /// The statement with `$1`, `$2`, … for its values.
    pub sql: String,
    /// What `$1`, `$2`, … are.
    pub values: Vec<NamedValue>,
    /// Where in `sql` each value is written.
    written: Vec<Range<usize>>,
}

impl NamedStatement {
    /// The place in the text of what is at a place in [`sql`](Self::sql), in bytes: for a value, where its name
    /// begins.
    #[must_use]
    pub fn source_offset(&self, at: usize) -> usize {
        let before = self.written.iter().take_while(|written| written.start <= at).count();
        let Some(last) = before.checked_sub(1) else {
            return (self.span.start + at).min(self.span.end);
        };
        let (written, value) = (&self.written[last], &self.values[last]);
        match at.checked_sub(written.end) {
            Some(after) => (value.span.end + after).min(self.span.end),
            None => value.span.start,
        }
    }
}

/// A value that a statement names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedValue {
    /// Where it is in the text, in bytes: from the colon to the end.
    pub span: Range<usize>,
    /// Where the value is found.
    pub path: Vec<Segment>,
    /// Whether it may be missing: it ends with `?`.
    pub optional: bool,
}

/// A step on the way to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A field of an object.
    Key(String),
    /// An item of an array, from 0.
    Item(usize),
}

impl fmt::Display for NamedValue {
    /// The path as it is written, without the colon.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, segment) in self.path.iter().enumerate() {
            let dot = if place == 0 { "" } else { "." };
            match segment {
                Segment::Key(name)
                    if reader::name_length(name) == name.len() && !name.is_empty() =>
                {
                    write!(f, "{dot}{name}")?;
                }
                Segment::Key(name) => write!(f, "{dot}\"{}\"", name.replace('"', "\"\""))?,
                Segment::Item(number) => write!(f, "[{number}]")?,
            }
        }
        Ok(())
    }
}

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{said}")]
pub struct NamedError {
    /// Where in the text, in bytes.
    pub at: usize,
    /// What is wrong there.
    pub said: String,
}
