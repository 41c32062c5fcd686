//! The columns of the two versions of a table: which both have, and which are new, gone or changed.

use super::{Rebuild, RebuildError};
use crate::fold::SLOT;
use anabranch_core::StoreError;
use anabranch_store::Row;
use serde::Serialize;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Its type, as the database declares it.
    #[serde(rename = "type")]
    pub declared: String,
}

/// A column that both versions have, with another type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedColumn {
    /// Its name.
    pub name: String,
    /// Its type in the old version.
    pub was: String,
    /// Its type in the new one.
    pub is: String,
    /// Whether rows are compared by it all the same: both types are numbers, or both are text.
    pub compared: bool,
}

/// How the columns of the two versions of a table differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ColumnDifference {
    /// The columns by which rows are compared.
    pub compared: Vec<String>,
    /// Columns that only the new version has.
    #[serde(rename = "new_columns")]
    pub new: Vec<TableColumn>,
    /// Columns that only the old version has.
    #[serde(rename = "gone_columns")]
    pub gone: Vec<TableColumn>,
    /// Columns with another type.
    #[serde(rename = "changed_columns")]
    pub changed: Vec<ChangedColumn>,
    /// Why the rows cannot be compared, if they cannot.
    pub incomparable: Option<String>,
}

impl ColumnDifference {
    /// Whether both versions have the same columns, with the same types.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.new.is_empty() && self.gone.is_empty() && self.changed.is_empty()
    }
}

/// A column as the database describes it; see [`Catalogue::columns_of`].
///
/// [`Catalogue::columns_of`]: anabranch_store::database::Catalogue::columns_of
struct Described {
    column: TableColumn,
    family: String,
    place_in_key: i64,
    exact: String,
    by_value: String,
}

/// The columns by which the rows of two tables are compared, each with its expression in the old table
/// and in the new one.
#[derive(Default)]
pub(super) struct Common {
    pub(super) names: Vec<String>,
    pub(super) old: Vec<String>,
    pub(super) new: Vec<String>,
    /// The places of the primary key's columns among them.
    pub(super) key: Vec<usize>,
}

impl Rebuild {
    /// How the columns of each table differ: a quick look, which reads no rows.
    pub async fn columns(&self) -> Result<Vec<(String, ColumnDifference)>, RebuildError> {
        let mut differences = Vec::new();
        for (old, next) in &self.own {
            differences.push((old.clone(), self.common(old, next).await?.0));
        }
        Ok(differences)
    }

    pub(super) async fn common(
        &self,
        old: &str,
        next: &str,
    ) -> Result<(ColumnDifference, Common), RebuildError> {
        let (old, next) = (self.described(old).await?, self.described(next).await?);
        Ok(compare(&old, &next))
    }

    /// The columns of a table; but for the one that says whose row it is, which a row that the last
    /// version wrote does not.
    async fn described(&self, table: &str) -> Result<Vec<Described>, RebuildError> {
        let rows = self.tables.query(self.tables.database.catalogue().columns_of(table)).await?;
        if rows.is_empty() {
            return Err(RebuildError::NoTable { table: table.to_owned() });
        }
        let described = |row: &Row| {
            let text = |name| self.tables.column::<String>(row, name);
            let column = TableColumn { name: text("name")?, declared: text("declared")? };
            let place_in_key = self.tables.column(row, "place_in_key")?;
            let (exact, by_value) = (text("exact")?, text("by_value")?);
            Ok(Described { column, family: text("family")?, place_in_key, exact, by_value })
        };
        let described = rows.iter().map(described).collect::<Result<Vec<_>, StoreError>>()?;
        Ok(described.into_iter().filter(|described| described.column.name != SLOT).collect())
    }
}

fn compare(old: &[Described], next: &[Described]) -> (ColumnDifference, Common) {
    let (mut difference, mut common) = (ColumnDifference::default(), Common::default());
    for was in old {
        let Some(is) = find(next, &was.column.name) else {
            difference.gone.push(was.column.clone());
            continue;
        };
        let is_changed = was.column.declared != is.column.declared;
        let is_comparable = !is_changed || (was.family == is.family && was.family != "other");
        if is_changed {
            difference.changed.push(ChangedColumn {
                name: is.column.name.clone(),
                was: was.column.declared.clone(),
                is: is.column.declared.clone(),
                compared: is_comparable,
            });
        }
        if is_comparable {
            let expression = |of: &Described| match is_changed {
                true => of.by_value.clone(),
                false => of.exact.clone(),
            };
            if is.place_in_key > 0 {
                common.key.push(common.names.len());
            }
            common.names.push(is.column.name.clone());
            common.old.push(expression(was));
            common.new.push(expression(is));
        }
    }
    let new = next.iter().filter(|is| find(old, &is.column.name).is_none());
    difference.new = new.map(|is| is.column.clone()).collect();
    difference.compared.clone_from(&common.names);
    difference.incomparable = incomparable(old, next, &common);
    (difference, common)
}

/// Rows are told apart by their key. Without it in both, a row of one version would be compared with any
/// that happens to look alike.
fn incomparable(old: &[Described], next: &[Described], common: &Common) -> Option<String> {
    if common.names.is_empty() {
        return Some("the two versions have no column in common that can be compared".to_owned());
    }
    let missing = |of: &[Described]| {
        let key = of.iter().filter(|column| column.place_in_key > 0);
        let missing = key.filter(|column| find_name(&common.names, &column.column.name).is_none());
        missing.map(|column| column.column.name.clone()).collect::<Vec<_>>().join(", ")
    };
    let of = |version: &str, missing: &str| {
        format!(
            "the key of the {version} version has what the other cannot be compared by: {missing}; so \
             nobody knows which row of one is which of the other"
        )
    };
    match (missing(old), missing(next)) {
        (missing, _) if !missing.is_empty() => Some(of("old", &missing)),
        (_, missing) if !missing.is_empty() => Some(of("new", &missing)),
        _ => None,
    }
}

/// SQLite takes names that differ in case for the same. On PostgreSQL nobody has two such columns by
/// intent, but if so each finds its own.
fn find<'c>(columns: &'c [Described], name: &str) -> Option<&'c Described> {
    let exact = columns.iter().find(|described| described.column.name == name);
    exact.or_else(|| columns.iter().find(|one| one.column.name.eq_ignore_ascii_case(name)))
}

fn find_name<'n>(names: &'n [String], name: &str) -> Option<&'n String> {
    names.iter().find(|one| one.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, declared: &str, family: &str, place_in_key: i64) -> Described {
        let column = TableColumn { name: name.to_owned(), declared: declared.to_owned() };
        let (exact, by_value) = (name.to_owned(), format!("value({name})"));
        Described { column, family: family.to_owned(), place_in_key, exact, by_value }
    }

    #[test]
    fn new_gone_and_changed_columns_are_named_and_the_rest_is_compared() {
        let old = [
            column("id", "text", "text", 1),
            column("sum", "integer", "number", 0),
            column("at", "text", "text", 0),
            column("note", "text", "text", 0),
        ];
        let next = [
            column("id", "text", "text", 1),
            column("currency", "text", "text", 0),
            column("sum", "bigint", "number", 0),
            column("at", "timestamp", "other", 0),
        ];
        let (difference, common) = compare(&old, &next);
        assert_eq!(common.names, ["id", "sum"]);
        assert_eq!((common.old[1].as_str(), common.key.as_slice()), ("value(sum)", &[0][..]));
        assert_eq!(difference.new[0].name, "currency");
        assert_eq!(difference.gone[0].name, "note");
        let changed: Vec<_> =
            difference.changed.iter().map(|one| (one.name.as_str(), one.compared)).collect();
        assert_eq!(changed, [("sum", true), ("at", false)]);
        assert_eq!((difference.incomparable.clone(), difference.is_same()), (None, false));
    }

    #[test]
    fn without_a_common_column_or_key_nothing_is_compared() {
        let (id, sum) = (column("id", "text", "text", 1), column("sum", "bigint", "number", 0));
        let other = column("order_id", "text", "text", 1);
        let (difference, _) = compare(&[id], &[other]);
        assert!(difference.incomparable.unwrap().contains("no column in common"));
        let old = [column("id", "text", "text", 1), column("sum", "bigint", "number", 0)];
        let (difference, _) = compare(&old, &[column("order_id", "text", "text", 1), sum]);
        assert!(difference.incomparable.unwrap().contains("the key of the old version"));
    }
}
