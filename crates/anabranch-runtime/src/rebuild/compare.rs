//! The rows of the two versions of a table, compared.

use super::columns::{ColumnDifference, Common};
use super::{Rebuild, RebuildError};
use crate::tables::imports::quoted;
use anabranch_core::StoreError;
use anabranch_store::Row;
use anabranch_store::database::Statement;
use serde::Serialize;

/// How many differing rows of each version a comparison shows of each table.
const EXAMPLES: usize = 5;
/// The columns of a comparison that are not of the tables.
const SIDE: &str = "anabranch_side";
const SURPLUS: &str = "anabranch_surplus";
const ONLY_OLD: &str = "anabranch_only_old";
const ONLY_NEW: &str = "anabranch_only_new";
const NUMBER: &str = "anabranch_number";

/// How a table of the new version differs from that of the old one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TableDifference {
    /// The table.
    pub table: String,
    /// Rows that only the old one has.
    pub only_old: u64,
    /// Rows that only the new one has.
    pub only_new: u64,
    /// Some of them, as text.
    pub examples: Vec<String>,
    /// How their columns differ, and by which of them rows are compared.
    #[serde(flatten)]
    pub columns: ColumnDifference,
}

impl TableDifference {
    /// Whether both hold the same rows, as far as the columns go that both have. Not if they cannot be
    /// compared.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.only_old == 0 && self.only_new == 0 && self.columns.incomparable.is_none()
    }
}

impl Rebuild {
    /// Compares the rows of each table by the columns that both versions have, and names the others. A row
    /// that stands several times in a table without a key counts as often. Both versions may go on
    /// meanwhile: what one of them has not handled yet shows as a difference.
    ///
    /// A column whose type has changed is compared by value if both types are numbers, or both are text. On
    /// PostgreSQL text is compared byte by byte, and so are types without an equality, such as `json`.
    pub async fn compare(&self) -> Result<Vec<TableDifference>, RebuildError> {
        self.must_be_under_way().await?;
        let mut differences = Vec::new();
        for (old, next) in &self.own {
            let (columns, common) = self.common(old, next).await?;
            let table = old.clone();
            let mut difference =
                TableDifference { table, only_old: 0, only_new: 0, examples: Vec::new(), columns };
            if difference.columns.incomparable.is_none() {
                let rows = self.look_anew(statement(old, next, &common)).await?;
                if let Some(row) = rows.first() {
                    difference.only_old = self.tables.column(row, ONLY_OLD)?;
                    difference.only_new = self.tables.column(row, ONLY_NEW)?;
                }
                let examples = rows.iter().map(|row| self.example(row));
                difference.examples = examples.collect::<Result<_, StoreError>>()?;
            }
            differences.push(difference);
        }
        Ok(differences)
    }

    /// Runs a query that each of our sessions may know from before a table was changed: then it is busy,
    /// and knows it anew.
    async fn look_anew(&self, look: Statement) -> Result<Vec<Row>, StoreError> {
        for _ in 0..3 {
            match self.tables.query(look.clone()).await {
                Err(StoreError::Busy { .. }) => {}
                rows => return rows,
            }
        }
        self.tables.query(look).await
    }

    fn example(&self, row: &Row) -> Result<String, StoreError> {
        let ours = [SURPLUS, ONLY_OLD, ONLY_NEW, NUMBER];
        let values = row.iter().filter(|(name, _)| !ours.contains(name));
        let values: Vec<_> =
            values.map(|(name, value)| format!("{name}={}", value.to_json())).collect();
        let surplus: i64 = self.tables.column(row, SURPLUS)?;
        let sign = if surplus > 0 { '-' } else { '+' };
        let times = match surplus.unsigned_abs() {
            1 => String::new(),
            times => format!(" ({times} times)"),
        };
        Ok(format!("{sign} {}{times}", values.join(" ")))
    }
}

/// Rows that one table has more often than the other, how many there are in all, and some of them. One
/// statement, so that both tables are seen as of one moment.
fn statement(old: &str, next: &str, common: &Common) -> Statement {
    let names: Vec<String> = common.names.iter().map(|name| quoted(name)).collect();
    let columns = |expressions: &[String]| {
        let named = expressions.iter().zip(&names);
        named.map(|(value, name)| format!("{value} AS {name}")).collect::<Vec<_>>().join(", ")
    };
    let (old_columns, new_columns) = (columns(&common.old), columns(&common.new));
    let places: Vec<String> = (1..=names.len()).map(|place| place.to_string()).collect();
    let (names_list, places) = (names.join(", "), places.join(", "));
    let key: Vec<&str> = common.key.iter().map(|place| names[*place].as_str()).collect();
    // By key, so that the examples of both versions are of the same rows.
    let order = match key.as_slice() {
        [] => String::new(),
        key => format!("ORDER BY {}", key.join(", ")),
    };
    let all = |sign: &str, condition: &str| {
        format!(
            "CAST(sum(CASE WHEN {SURPLUS} {condition} THEN {sign}{SURPLUS} ELSE 0 END) OVER () \
             AS BIGINT)"
        )
    };
    let (only_old, only_new) = (all("", "> 0"), all("-", "< 0"));
    let query = format!(
        "SELECT * FROM (SELECT difference.*, {only_old} AS {ONLY_OLD}, {only_new} AS {ONLY_NEW}, \
         row_number() OVER (PARTITION BY {SURPLUS} > 0 {order}) AS {NUMBER} \
         FROM (SELECT {names_list}, CAST(sum({SIDE}) AS BIGINT) AS {SURPLUS} \
         FROM (SELECT {old_columns}, 1 AS {SIDE} FROM {old} \
         UNION ALL SELECT {new_columns}, -1 AS {SIDE} FROM {next}) AS versions \
         GROUP BY {places} HAVING sum({SIDE}) <> 0) AS difference) AS shown \
         WHERE {NUMBER} <= {EXAMPLES} ORDER BY {SURPLUS} < 0, {NUMBER}"
    );
    Statement::query(query, vec![])
}
