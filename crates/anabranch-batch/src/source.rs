//! Where the rows are: a table, or a query.

use anabranch_store::database::{quoted, quoted_part};

/// A table or a query with a unique key.
///
/// Of a table the catalogue must show that the key is unique and never NULL. A query shows nothing, and neither
/// does a view: they need [`Batch::assume_unique`](crate::Batch::assume_unique).
///
/// ```
/// use anabranch_batch::Source;
/// let all = Source::table("intake.applications", "id");
/// let new = Source::query("SELECT id, xml FROM applications WHERE year = 2026", "id");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// As it stands behind FROM.
    pub(crate) from: String,
    /// The key, quoted.
    pub(crate) key: String,
    /// For messages.
    pub(crate) name: String,
    pub(crate) key_name: String,
    /// Whether the catalogue may know it by that name.
    pub(crate) is_table: bool,
}

impl Source {
    /// A table, with its schema before a dot if it has one, and the column of its unique key.
    #[must_use]
    pub fn table(name: impl Into<String>, key: impl Into<String>) -> Self {
        let (name, key_name) = (name.into(), key.into());
        Self { from: quoted(&name), key: quoted_part(&key_name), name, key_name, is_table: true }
    }

    /// The rows of a query, and the column of its unique key.
    #[must_use]
    pub fn query(sql: impl Into<String>, key: impl Into<String>) -> Self {
        let (sql, key_name) = (sql.into(), key.into());
        let sql = sql.trim().trim_end_matches(';').to_owned();
        let (from, name) = (format!("({sql})"), "the query".to_owned());
        Self { from, key: quoted_part(&key_name), name, key_name, is_table: false }
    }

    /// The name of the table as it was given, or the query.
    pub(crate) fn text(&self) -> &str {
        let query = self.from.strip_prefix('(').and_then(|from| from.strip_suffix(')'));
        query.filter(|_| !self.is_table).unwrap_or(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_whatever_they_hold() {
        assert_eq!(quoted("intake.log"), "\"intake\".\"log\"");
        assert_eq!(quoted("a\"; DROP TABLE b"), "\"a\"\"; DROP TABLE b\"");
        let query = Source::query(" SELECT 1 AS id; ", "id");
        assert_eq!((query.from.as_str(), query.key.as_str()), ("(SELECT 1 AS id)", "\"id\""));
        assert_eq!(query.text(), "SELECT 1 AS id");
        assert_eq!(Source::table("intake.log", "id").text(), "intake.log");
    }
}
