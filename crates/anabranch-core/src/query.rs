//! Queries by type and tag: the language of dynamic consistency boundaries (DCB).

use crate::error::{InputError, InputProblem};
use crate::limits::{self, MAX_ITEM_TAGS, MAX_NAME_BYTES, MAX_QUERY_TERMS};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which events: those that match at least one item. A query without items matches every event.
///
/// ```
/// use anabranch_core::Query;
/// let query = Query::types(["SeatReserved", "SeatReleased"]).tagged(["seat:12a"])
///     .or(Query::tags(["show:7"]));
/// assert!(query.matches("SeatReserved", ["show:7", "seat:12a"]));
/// assert!(query.matches("ShowCancelled", ["show:7"]));
/// assert!(!query.matches("SeatReserved", ["seat:12b"]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    items: Vec<QueryItem>,
}

/// One item of a query: the event has one of these types (any type if there are none) and all of
/// these tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueryItem {
    /// The event has one of these types.
    pub types: Vec<String>,
    /// The event has all of these tags.
    pub tags: Vec<String>,
}

impl Query {
    /// Every event.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Events that match at least one of these items; every event if there are none.
    #[must_use]
    pub fn from_items(items: Vec<QueryItem>) -> Self {
        Self { items }
    }

    /// Events of one of these types.
    pub fn types<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        let types = types.into_iter().map(Into::into).collect();
        Self { items: vec![QueryItem { types, tags: Vec::new() }] }
    }

    /// Events with all of these tags.
    pub fn tags<T: Into<String>>(tags: impl IntoIterator<Item = T>) -> Self {
        let tags = tags.into_iter().map(Into::into).collect();
        Self { items: vec![QueryItem { types: Vec::new(), tags }] }
    }

    /// The same, but only events that have all of these tags as well.
    #[must_use]
    pub fn tagged<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        let tags: Vec<String> = tags.into_iter().map(Into::into).collect();
        if self.items.is_empty() {
            self.items.push(QueryItem::default());
        }
        for item in &mut self.items {
            item.tags.extend(tags.iter().cloned());
        }
        self
    }

    /// Events that match this query or the other.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        if self.is_all() || other.is_all() {
            return Self::all();
        }
        self.items.extend(other.items);
        self
    }

    /// The items; none means every event.
    #[must_use]
    pub fn items(&self) -> &[QueryItem] {
        &self.items
    }

    /// Whether every event matches.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether an event of this type with these tags matches.
    pub fn matches<'a>(
        &self,
        event_type: &str,
        tags: impl IntoIterator<Item = &'a str> + Clone,
    ) -> bool {
        self.is_all() || self.items.iter().any(|item| item.matches(event_type, tags.clone()))
    }

    /// Refuses names that no event can have, and queries too large for one statement.
    pub fn validate(&self) -> Result<(), InputError> {
        let terms = self.items.iter().map(|item| item.types.len() + item.tags.len()).sum();
        check_count(terms, MAX_QUERY_TERMS, || "query".to_owned())?;
        for (number, item) in self.items.iter().enumerate() {
            let subject = || format!("query item {}", number + 1);
            if item.types.is_empty() && item.tags.is_empty() {
                let problem = InputProblem::EmptyQueryItem;
                return Err(InputError { subject: subject(), problem });
            }
            check_count(item.tags.len(), MAX_ITEM_TAGS, subject)?;
            for name in item.types.iter().chain(&item.tags) {
                limits::check_name(name, MAX_NAME_BYTES, || {
                    format!("`{}` in query item {}", name.escape_debug(), number + 1)
                })?;
            }
        }
        Ok(())
    }
}

fn check_count(
    count: usize,
    limit: usize,
    subject: impl FnOnce() -> String,
) -> Result<(), InputError> {
    if count <= limit {
        return Ok(());
    }
    let remedy = "split it into several queries";
    let problem = InputProblem::TooMany { count, limit, remedy };
    Err(InputError { subject: subject(), problem })
}

impl QueryItem {
    /// The tag that stands for the item, if it has any: every event that matches has it. What is locked, looked up and
    /// checked for the item goes by this one, so all have to mean the same.
    #[must_use]
    pub fn leading_tag(&self) -> Option<&str> {
        self.tags.first().map(String::as_str)
    }

    fn matches<'a>(
        &self,
        event_type: &str,
        tags: impl IntoIterator<Item = &'a str> + Clone,
    ) -> bool {
        (self.types.is_empty() || self.types.iter().any(|wanted| wanted == event_type))
            && self.tags.iter().all(|wanted| tags.clone().into_iter().any(|tag| tag == wanted))
    }
}

impl fmt::Display for Query {
    /// `type A or B with tags x and y; or tags z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() {
            return f.write_str("every event");
        }
        for (number, item) in self.items.iter().enumerate() {
            if number > 0 {
                f.write_str("; or ")?;
            }
            if !item.types.is_empty() {
                write!(f, "type {}", item.types.join(" or "))?;
            }
            if !item.tags.is_empty() {
                let with = if item.types.is_empty() { "" } else { " with " };
                write!(f, "{with}tag {}", item.tags.join(" and "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_reads_as_a_sentence() {
        let query = Query::types(["A", "B"]).tagged(["x"]).or(Query::tags(["y", "z"]));
        assert_eq!(query.to_string(), "type A or B with tag x; or tag y and z");
        assert_eq!(Query::all().to_string(), "every event");
    }

    #[test]
    fn or_with_everything_is_everything() {
        assert!(Query::tags(["x"]).or(Query::all()).is_all());
    }

    #[test]
    fn bad_queries_are_refused_by_name() {
        let empty_item = Query { items: vec![QueryItem::default()] };
        assert_eq!(empty_item.validate().unwrap_err().problem, InputProblem::EmptyQueryItem);
        let message = Query::tags(["a\0b"]).validate().unwrap_err().to_string();
        assert!(message.contains("`a\\0b` in query item 1"), "{message}");
        let numbers = |count: u32| (0..count).map(|n| n.to_string());
        for (many, limit) in [(Query::tags(numbers(33)), 32), (Query::types(numbers(129)), 128)] {
            let problem = many.validate().unwrap_err().problem;
            assert!(
                matches!(problem, InputProblem::TooMany { limit: found, .. } if found == limit)
            );
        }
    }
}
