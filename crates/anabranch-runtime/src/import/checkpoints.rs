//! The table in which the old runners keep their positions.

use super::ImportError;
use crate::tables::Tables;
use crate::tables::imports::MAX_ROWS;
use anabranch_core::{Position, StoreError};
use anabranch_store::value::{ColumnError, FromValue};
use anabranch_store::{Log, Row};
use std::collections::{BTreeSet, HashMap};

/// How many names of rows are written out.
const SHOWN: usize = 3;

/// A table in which old runners keep how far they are, a row for each partition. It lies in the
/// database of the log.
///
/// ```
/// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::ImportError> {
/// use anabranch_runtime::{CheckpointTable, Import};
/// let table = CheckpointTable::new("checkpoints", "position")
///     .names("reader", "order_runner_partition_{i}_of_{n}");
/// let import = Import::new("order_summary").partitions(3).checkpoints(table.read(&log, 3).await?);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct CheckpointTable {
    table: String,
    position: String,
    names: Option<(String, String)>,
    index: Option<String>,
}

impl CheckpointTable {
    /// A table, with its schema if need be (`old.checkpoints`), and the column that holds positions;
    /// spelt as the database does, capitals included.
    pub fn new(table: impl Into<String>, position: impl Into<String>) -> Self {
        Self { table: table.into(), position: position.into(), names: None, index: None }
    }

    /// The column that names the runner, and how they are named: `{i}` is the index of the partition,
    /// `{n}` how many there are. Rows with other names are left alone.
    pub fn names(mut self, column: impl Into<String>, pattern: impl Into<String>) -> Self {
        self.names = Some((column.into(), pattern.into()));
        self
    }

    /// The column that holds the index of the partition, if it does not follow from a name.
    pub fn index(mut self, column: impl Into<String>) -> Self {
        self.index = Some(column.into());
        self
    }

    /// The position of each partition, as the table has it: [`Import`](crate::Import) finds out what
    /// is missing or stands twice.
    pub async fn read(&self, log: &Log, total: u16) -> Result<Vec<(u16, Position)>, ImportError> {
        let mut columns = vec![self.position.as_str()];
        columns.extend(self.names.as_ref().map(|(column, _)| column.as_str()));
        columns.extend(self.index.as_deref());
        if columns.len() == 1 {
            return Err(self.wrong("say by which column its rows are told apart: names or index"));
        }
        let tables = Tables::of(log.database());
        let rows = tables.foreign_rows(&self.table, &columns).await.map_err(|e| self.unread(e))?;
        if rows.len() > MAX_ROWS {
            return Err(self.wrong(format!(
                "has more than {MAX_ROWS} rows; name the table, or a view, that holds only checkpoints"
            )));
        }
        self.checkpoints(&rows, total)
    }

    fn checkpoints(&self, rows: &[Row], total: u16) -> Result<Vec<(u16, Position)>, ImportError> {
        let expand = |pattern: &str, index: i64| {
            pattern.replace("{i}", &index.to_string()).replace("{n}", &total.to_string())
        };
        let by_name: HashMap<String, i64> = match &self.names {
            Some((_, pattern)) if self.index.is_none() => {
                (0..i64::from(total)).map(|index| (expand(pattern, index), index)).collect()
            }
            _ => HashMap::new(),
        };
        if self.index.is_none() && by_name.len() < usize::from(total) {
            return Err(self.wrong("the pattern of names has no {i}, so all partitions are one"));
        }
        let (mut found, mut others) = (Vec::new(), BTreeSet::new());
        for row in rows {
            let name: Option<String> = match &self.names {
                Some((column, _)) => self.column(row, column)?,
                None => None,
            };
            let index = match (&self.index, &name) {
                (Some(column), _) => Some(self.column(row, column)?),
                (None, Some(name)) => by_name.get(name).copied(),
                (None, None) => None,
            };
            let is_ours = |index: &i64| match (&self.index, &self.names) {
                (Some(_), Some((_, pattern))) => Some(expand(pattern, *index)) == name,
                _ => true,
            };
            match index.filter(is_ours) {
                Some(index) => found.push((self.index_of(index)?, self.position_of(row)?)),
                None => others.extend(name),
            }
        }
        match (&self.names, others.is_empty()) {
            (Some((column, pattern)), false) if found.is_empty() => {
                let wanted = expand(pattern, 0);
                let some: Vec<_> = others.iter().take(SHOWN).map(|n| format!("`{n}`")).collect();
                Err(self.wrong(format!(
                    "no row has `{wanted}` in column `{column}`, nor any other partition of {total}; \
                     there are {}; correct the pattern of names or the number of partitions",
                    some.join(", ")
                )))
            }
            _ => Ok(found),
        }
    }

    fn index_of(&self, index: i64) -> Result<u16, ImportError> {
        let wrong = |_| self.wrong(format!("it has a partition {index}, and the first one is 0"));
        u16::try_from(index).map_err(wrong)
    }

    /// Nothing is guessed: where nothing is done yet that must be said.
    fn position_of(&self, row: &Row) -> Result<Position, ImportError> {
        match self.column::<i64>(row, &self.position)? {
            position @ 0.. => Ok(Position::from_i64(position)),
            position => Err(self.wrong(format!(
                "it has position {position}, and positions of a log begin at 1, with 0 for nothing done"
            ))),
        }
    }

    fn column<T: FromValue>(&self, row: &Row, name: &str) -> Result<T, ImportError> {
        row.get(name).map_err(|error: ColumnError| self.wrong(error.to_string()))
    }

    /// What the database says of a table or column that is not there.
    fn unread(&self, error: StoreError) -> ImportError {
        match error {
            StoreError::Other { source, .. } => {
                self.wrong(format!("{source}; names are taken as they stand, capitals included"))
            }
            error => error.into(),
        }
    }

    fn wrong(&self, problem: impl Into<String>) -> ImportError {
        ImportError::Table { table: self.table.clone(), problem: problem.into() }
    }
}
