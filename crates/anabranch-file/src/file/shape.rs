//! How it is described what may stand in a file: tables, their keys, and what each key holds.

/// A table of the file.
#[derive(Debug)]
pub(super) struct Table {
    /// What it is called in messages.
    pub(super) name: &'static str,
    /// What it is.
    pub(super) about: &'static str,
    /// What may stand in it.
    pub(super) keys: &'static [Key],
    /// Keys that will have a meaning later, and what to do until then.
    pub(super) later: &'static [(&'static str, &'static str)],
}

impl Table {
    /// Its keys.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }
}

/// A key of a table.
#[derive(Debug)]
pub(super) struct Key {
    /// The key.
    pub(super) name: &'static str,
    /// What it says.
    pub(super) about: &'static str,
    /// What it holds.
    pub(super) kind: Kind,
    /// Whether it must be there.
    pub(super) is_required: bool,
}

/// What a key holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A text.
    Text,
    /// A text, or `${VARIABLE}` for one of the environment.
    Setting,
    /// A whole number.
    Integer {
        /// The least.
        least: i64,
        /// The most.
        most: i64,
    },
    /// A time such as `5s`, `100ms` or `1h30m`.
    Duration,
    /// `true` or `false`.
    Truth,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One or more settings that are secret; `{ env = "VARIABLE" }` is one of the environment, too.
    Secrets,
    /// Texts.
    Texts,
    /// Statements: a text, several, or a table with a form for each database.
    Statements,
    /// A table whose keys are free.
    Each(&'static Kind),
    /// A table.
    Table(&'static Table),
    /// Several tables.
    Tables(&'static Table),
    /// Several tables, each of one of these shapes. Those are told apart by their required keys.
    TablesOf(&'static [&'static Table]),
    /// One table or several, at least one.
    TableOrTables(&'static Table),
    /// Rows: a list of lists.
    Rows,
    /// Any value.
    Any,
}

/// The names of the databases, as URLs begin.
pub const DATABASES: [&str; 2] = ["sqlite", "postgres"];

pub(super) const fn key(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, about, kind, is_required: false }
}

pub(super) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, about, kind, is_required: true }
}
