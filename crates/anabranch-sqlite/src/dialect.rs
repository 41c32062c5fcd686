//! How SQLite writes what differs.

use anabranch_core::{SLOTS, SlotSet};
use anabranch_store::database::{ColumnType, Dialect, ForRows, Given, Hint, Lexical, Statement};
use anabranch_store::{Namespace, Value};

/// The function that says what a clock says that is moved by hand.
const NOW_BY_HAND: &str = "anabranch_now_us()";

/// How SQLite reads the text of statements.
pub const LEXICAL: Lexical = Lexical {
    nested_comments: false,
    return_ends_comment: false,
    escape_strings: false,
    dollar_quotes: false,
    bracket_names: true,
    back_quotes: true,
    marked_values: true,
    colon_casts: false,
    trigger_bodies: true,
    atomic_bodies: false,
};

/// SQLite's dialect, for a log.
#[derive(Clone, Debug)]
pub(crate) struct SqliteDialect {
    pub(crate) namespace: Namespace,
    /// Whether its clock is moved by hand.
    pub(crate) is_by_hand: bool,
}

impl Dialect for SqliteDialect {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn lexical(&self) -> Lexical {
        LEXICAL
    }

    fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    fn table(&self, name: &str) -> String {
        format!("{}_{name}", self.namespace)
    }

    fn last_id(&self, table: &str) -> String {
        format!("(SELECT seq FROM sqlite_sequence WHERE name = '{}_{table}')", self.namespace)
    }

    fn now_us(&self) -> &'static str {
        match self.is_by_hand {
            true => NOW_BY_HAND,
            false => "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
        }
    }

    fn for_update(&self) -> &'static str {
        // The one write lock does that for all rows.
        ""
    }

    fn is_any(&self, column: &str, place: usize) -> String {
        format!("{column} IN (SELECT value FROM json_each(${place}))")
    }

    fn is_none(&self, column: &str, place: usize, _: ColumnType) -> String {
        format!("{column} NOT IN (SELECT value FROM json_each(${place}))")
    }

    fn each(&self, place: usize, _: ColumnType) -> String {
        format!("json_each(${place}) AS k")
    }

    fn contains(&self, text: &str, part: &str) -> String {
        format!("instr({text}, {part}) > 0")
    }

    fn has_slot(&self, column: &str, place: usize) -> String {
        format!("substr(${place}, {column} + 1, 1) = x'01'")
    }

    fn slots(&self, slots: &SlotSet) -> Value {
        // A byte each: there are no functions for bits.
        let mut bytes = vec![0_u8; usize::from(SLOTS)];
        slots.iter().for_each(|slot| bytes[usize::from(slot.get())] = 1);
        bytes.into()
    }

    fn column_type(&self, of: ColumnType) -> &'static str {
        match of {
            ColumnType::Integer | ColumnType::Boolean => "INTEGER",
            ColumnType::Float => "REAL",
            ColumnType::Text
            | ColumnType::Key
            | ColumnType::Uuid
            | ColumnType::Json
            | ColumnType::Document => "TEXT",
        }
    }

    fn renamed<'a>(&self, table: &'a str) -> &'a str {
        table
    }

    fn plain_collation(&self) -> &'static str {
        "BINARY"
    }

    fn page_collation(&self) -> Option<&'static str> {
        Some("BINARY")
    }

    fn room_for_changes(&self) -> &'static str {
        ""
    }

    fn hint(&self, hint: Hint) -> Option<Statement> {
        match hint {
            // It plans by the indexes that there are, and there is one commit for all.
            Hint::QueueInOrder
            | Hint::PageByKey
            | Hint::RowsByKey
            | Hint::WholeTables
            | Hint::Figures
            | Hint::LightCommit => None,
        }
    }

    fn for_rows(
        &self,
        columns: &[(&str, ColumnType)],
        rows: Vec<Vec<Value>>,
        sql: &dyn Fn(&Given) -> String,
    ) -> Vec<ForRows> {
        // Without a server in between, a prepared statement for each row is as fast as any.
        let columns = columns.iter().zip(1..);
        let columns = columns.map(|((name, _), place)| ((*name).to_owned(), format!("${place}")));
        let sql = sql(&Given { from: None, columns: columns.collect() });
        rows.into_iter().map(|values| ForRows { sql: sql.clone(), values, rows: 1 }).collect()
    }
}
