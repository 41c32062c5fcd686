//! What databases write differently.
//!
//! Statements above the backends are written once. Where databases differ, they are put together from the
//! fragments here, which a backend says and `contract` runs one by one.

use super::{Lexical, Statement};
use crate::options::Namespace;
use crate::value::Value;
use anabranch_core::SlotSet;
use std::fmt;

/// How a database writes what differs. A backend says all of it: nothing here has a default that would be
/// wrong for the next one.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// The name of the database, as URLs begin: for statements of users that cannot be the same everywhere.
    fn name(&self) -> &'static str;

    /// By which rules it reads the text of statements.
    fn lexical(&self) -> Lexical;

    /// Which log in it.
    fn namespace(&self) -> &Namespace;

    /// A table of the log, as statements write it.
    fn table(&self, name: &str) -> String;

    /// The id that the last row got which this transaction added to a table whose ids are never given out again, as
    /// `audit`, in the way a statement writes it.
    fn last_id(&self, table: &str) -> String;

    /// The database's own clock, in microseconds since 1970: leases are told by no other. It is what
    /// [`Database::clock`](super::Database::clock) says.
    fn now_us(&self) -> &'static str;

    /// What follows a query so that the rows that it reads are not changed before the transaction ends;
    /// nothing where a writing transaction is alone.
    fn for_update(&self) -> &'static str;

    /// That a column is one of the values of the array `$place`.
    fn is_any(&self, column: &str, place: usize) -> String;

    /// That a column is none of the values of the array `$place`, of which there may be thousands.
    fn is_none(&self, column: &str, place: usize, of: ColumnType) -> String;

    /// The values of the array `$place` as the rows of a table `k` with the column `value`: what follows FROM.
    fn each(&self, place: usize, of: ColumnType) -> String;

    /// That a text holds another one.
    fn contains(&self, text: &str, part: &str) -> String;

    /// That the slot in a column is one of those in `$place`, which [`slots`](Self::slots) makes.
    fn has_slot(&self, column: &str, place: usize) -> String;

    /// Slots, for [`has_slot`](Self::has_slot).
    fn slots(&self, slots: &SlotSet) -> Value;

    /// The type of a column.
    fn column_type(&self, of: ColumnType) -> &'static str;

    /// What follows RENAME TO for a table of the log.
    fn renamed<'a>(&self, table: &'a str) -> &'a str;

    /// The collation in which texts are equal only if they are the same, for keys of any column.
    fn plain_collation(&self) -> &'static str;

    /// The collation by which rows are gone through whose keys are not known to be unique, so that different
    /// texts are different keys; none where that of the key will do.
    fn page_collation(&self) -> Option<&'static str>;

    /// What follows CREATE TABLE (…) for a table whose rows are each changed soon.
    fn room_for_changes(&self) -> &'static str;

    /// A statement by which the rest of its transaction goes about something in another way than the database
    /// would by itself; none where nothing is to be said.
    fn hint(&self, hint: Hint) -> Option<Statement>;

    /// The statements that do something for each of some rows with these columns. `sql` learns how they are
    /// named in it, and must use no other values. As few statements as the database can do it in, each with the
    /// number of rows that it is for.
    fn for_rows(
        &self,
        columns: &[(&str, ColumnType)],
        rows: Vec<Vec<Value>>,
        sql: &dyn Fn(&Given) -> String,
    ) -> Vec<ForRows>;
}

/// The type of a column, as every database has it in some way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A whole number.
    Integer,
    /// A number with a fraction.
    Float,
    /// A text.
    Text,
    /// A text by which rows are found: compared byte by byte.
    Key,
    /// Yes or no.
    Boolean,
    /// An id.
    Uuid,
    /// JSON, kept as it was written.
    Json,
    /// JSON that is read in parts.
    Document,
}

/// How to go about something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Read the beginning of a queue in its order. A planner cannot know how few rows are open, or of some slots.
    QueueInOrder,
    /// Read a page by its keys. A planner cannot know that a page is all that is wanted of a large table.
    PageByKey,
    /// Find rows by their keys, though the table was small when the plan was made, or is small beside their number.
    RowsByKey,
    /// Compare two tables as a whole, each gone through once. A planner that knows nothing of one of them yet would
    /// go through it for each row of the other.
    WholeTables,
    /// Read a few figures from many places. It looks costly where much is counted, and would be compiled first, which
    /// takes longer than the rest.
    Figures,
    /// Commit without waiting for the disk: what a crash loses of this was never there, and what builds on it
    /// waits for both.
    LightCommit,
}

impl Hint {
    /// All there are.
    pub const ALL: [Self; 6] = [
        Self::QueueInOrder,
        Self::PageByKey,
        Self::RowsByKey,
        Self::WholeTables,
        Self::Figures,
        Self::LightCommit,
    ];
}

/// How the values of rows are named in a statement for them.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Where they come from, if that has to stand behind FROM.
    pub from: Option<String>,
    /// The names of columns, and what a statement writes for each.
    pub columns: Vec<(String, String)>,
}

impl Given {
    /// What a statement writes for a column.
    ///
    /// # Panics
    /// If there is no such column.
    #[must_use]
    pub fn column(&self, name: &str) -> &str {
        let found = self.columns.iter().find(|(of, _)| of == name);
        &found.unwrap_or_else(|| panic!("`{name}` is no column of these rows")).1
    }

    /// The FROM of a statement that reads from these tables too; empty if there is nothing to read from.
    #[must_use]
    pub fn from(&self, others: &[&str]) -> String {
        let all: Vec<&str> =
            self.from.as_deref().into_iter().chain(others.iter().copied()).collect();
        if all.is_empty() { String::new() } else { format!(" FROM {}", all.join(", ")) }
    }
}

/// A statement for some rows.
#[derive(Clone, Debug)]
pub struct ForRows {
    /// The statement.
    pub sql: String,
    /// Its values.
    pub values: Vec<Value>,
    /// For how many rows.
    pub rows: u64,
}
