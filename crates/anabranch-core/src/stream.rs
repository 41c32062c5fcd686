//! Stream ids: a category and an id, written `Order:ord-123`.

use crate::error::InputError;
use crate::limits;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The name of one stream: its category (the kind of thing) and its id (which one).
///
/// ```
/// use anabranch_core::StreamId;
/// let order = StreamId::new("Order", "ord-123")?;
/// assert_eq!(order.to_string(), "Order:ord-123");
/// assert_eq!("Order:ord-123".parse::<StreamId>()?, order);
/// # Ok::<(), anabranch_core::InputError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StreamId {
    category: String,
    id: String,
}

impl StreamId {
    /// A stream id, refused if a part is empty, over-long or holds a control character, or if the
    /// category holds the `:` that separates the two.
    pub fn new(category: impl Into<String>, id: impl Into<String>) -> Result<Self, InputError> {
        let (category, id) = (category.into(), id.into());
        limits::check_category(&category)?;
        limits::check_name(&id, limits::MAX_NAME_BYTES, || {
            format!("stream id of category `{category}`")
        })?;
        Ok(Self { category, id })
    }

    /// The stream of a recorded event, which was checked when the event was appended.
    pub(crate) fn recorded(category: &str, id: &str) -> Self {
        Self { category: category.to_owned(), id: id.to_owned() }
    }

    /// The kind of thing, such as `Order`.
    #[must_use]
    pub fn category(&self) -> &str {
        &self.category
    }

    /// Which one, such as `ord-123`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.category, self.id)
    }
}

impl FromStr for StreamId {
    type Err = InputError;

    /// Splits at the first `:`, so an id may hold colons and a category may not.
    fn from_str(text: &str) -> Result<Self, InputError> {
        match text.split_once(':') {
            Some((category, id)) => Self::new(category, id),
            None => Err(InputError::not_a_stream(text)),
        }
    }
}

impl TryFrom<String> for StreamId {
    type Error = InputError;

    fn try_from(text: String) -> Result<Self, InputError> {
        text.parse()
    }
}

impl From<StreamId> for String {
    fn from(stream: StreamId) -> Self {
        stream.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InputProblem;

    fn problem(text: &str) -> InputProblem {
        text.parse::<StreamId>().unwrap_err().problem
    }

    #[test]
    fn only_the_first_colon_separates() {
        let stream: StreamId = "Order:a:b".parse().unwrap();
        assert_eq!((stream.category(), stream.id()), ("Order", "a:b"));
        assert!(StreamId::new("Or:der", "1").is_err());
    }

    #[test]
    fn bad_ids_are_named() {
        assert_eq!(problem("Order"), InputProblem::NoColon);
        assert_eq!(problem(":x"), InputProblem::Empty);
        assert_eq!(problem("Order:"), InputProblem::Empty);
        assert!(matches!(problem("Order:a\0b"), InputProblem::ControlCharacter { at: 1, .. }));
        assert!(matches!(
            problem(&format!("Order:{}", "x".repeat(256))),
            InputProblem::TooLong { bytes: 256, limit: 255 }
        ));
        let message = "Order:".parse::<StreamId>().unwrap_err().to_string();
        assert!(message.contains("stream id of category `Order`"), "{message}");
    }
}
