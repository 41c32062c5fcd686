//! Blue/green: a new version of a projection is built beside the old one, compared, and switched to.

use crate::consumer::NEXT;
use crate::fold::SLOT;
use crate::row_watch;
use crate::tables::imports::quoted;
use crate::tables::{IDLE, Tables};
use anabranch_core::{Cursor, Position, StoreError};
use anabranch_store::database::{Dialect, End, Kind, Statement, Topic};
use anabranch_store::{Log, Row};
use serde::Serialize;
use thiserror::Error;

/// How many differing rows a comparison shows of each table.
const EXAMPLES: usize = 5;

/// The rebuild of a projection or view under the same name.
///
/// 1. The new version is run by [`ReplicaSet::rebuild`](crate::ReplicaSet::rebuild) with a higher
///    [`version`](crate::Settings::version). It has cursors of its own and writes the tables that
///    [`Tx::table`](crate::Tx::table) names, which end in `_next`; the old version goes on.
/// 2. [`compare`](Self::compare) reports how the tables differ.
/// 3. [`switch`](Self::switch) puts the new tables and cursors in the place of the old ones, in one
///    transaction. Workers of the old version are fenced by it and are refused from then on.
///
/// ```
/// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::RebuildError> {
/// use anabranch_runtime::Rebuild;
/// let rebuild = Rebuild::of(&log, "order_summary", &["order_summary"]);
/// let differences = rebuild.compare().await?;
/// if differences.iter().all(|table| table.is_same()) {
///     rebuild.switch().await?;
/// }
/// # Ok(()) }
/// ```
pub struct Rebuild {
    log: Log,
    tables: Tables,
    name: String,
    own: Vec<(String, String)>,
}

/// How a table of the new version differs from that of the old one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableDifference {
    /// The table.
    pub table: String,
    /// Rows that only the old one has.
    pub only_old: u64,
    /// Rows that only the new one has.
    pub only_new: u64,
    /// Some of them, as text.
    pub examples: Vec<String>,
}

impl TableDifference {
    /// Whether both hold the same rows.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.only_old == 0 && self.only_new == 0
    }
}

/// Why a rebuild cannot go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// There is no such consumer, or no new version of it.
    #[error("{0}")]
    Missing(String),
    /// The new version has not handled all that the old one has.
    #[error(
        "the new version of `{name}` is at position {next}, the old one at {old}; let it catch up, \
         then switch"
    )]
    Behind {
        /// Which consumer.
        name: String,
        /// How far the old version is.
        old: Position,
        /// How far the new one is.
        next: Position,
    },
    /// The new version has other columns, so that rows cannot be compared.
    #[error(
        "the new version of table `{table}` has other columns, so its rows cannot be compared: new \
         are [{}], gone are [{}]; compare what both have by queries of your own, then switch",
        new.join(", "), gone.join(", ")
    )]
    Columns {
        /// Which table.
        table: String,
        /// Columns that only the old version has.
        gone: Vec<String>,
        /// Columns that only the new version has.
        new: Vec<String>,
    },
    /// Some keys of the new version are parked.
    #[error(
        "the new version of `{name}` has {keys} parked keys, whose events are missing in its tables; \
         retry or skip them (`anabranch parked list {name}.next`), then switch"
    )]
    Parked {
        /// Which consumer.
        name: String,
        /// How many.
        keys: usize,
    },
    /// The database could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Rebuild {
    /// The rebuild of a projection that writes these tables by [`Tx::table`](crate::Tx::table).
    #[must_use]
    pub fn of(log: &Log, name: &str, tables: &[&str]) -> Self {
        let own = tables.iter().map(|table| {
            let table = (*table).to_owned();
            (table.clone(), table + NEXT.1)
        });
        Self::new(log, name, own.collect())
    }

    /// The rebuild of a view.
    #[must_use]
    pub fn of_view(log: &Log, name: &str) -> Self {
        let database = log.store().database();
        let table = |suffix| database.dialect().table(format_args!("view_{name}{suffix}"));
        Self::new(log, name, vec![(table(""), table(NEXT.1))])
    }

    fn new(log: &Log, name: &str, own: Vec<(String, String)>) -> Self {
        let tables = Tables::of(log.store().database());
        Self { log: log.clone(), tables, name: name.to_owned(), own }
    }

    fn next_name(&self) -> String {
        format!("{}{}", self.name, NEXT.0)
    }

    /// Compares the tables as sets of rows. Both versions may go on meanwhile: what one of them has not
    /// handled yet shows as a difference. Rows that stand several times in a table without a key count
    /// once, and on PostgreSQL a column of type `json` cannot be compared (`jsonb` can).
    pub async fn compare(&self) -> Result<Vec<TableDifference>, RebuildError> {
        let mut differences = Vec::new();
        for (old, next) in &self.own {
            let columns = self.columns_of(old, next).await?;
            let only = |a: &str, b: &str| {
                let rows = format!("SELECT {columns} FROM {a} EXCEPT SELECT {columns} FROM {b}");
                let count = format!("SELECT count(*) AS rows FROM ({rows}) AS difference");
                let some = format!("{rows} LIMIT {EXAMPLES}");
                [Statement::query(count, vec![]), Statement::query(some, vec![])]
            };
            // One transaction is not one snapshot on PostgreSQL; see above.
            let statements = only(old, next).into_iter().chain(only(next, old)).collect();
            let answers = self.tables.commit(statements).await?;
            let [old_count, old_rows, new_count, new_rows] = answers.as_slice() else {
                return Err(self.tables.corrupt("a comparison without rows".to_owned()).into());
            };
            let count = |rows: &[Row]| match rows.first() {
                Some(row) => self.tables.column::<u64>(row, "rows"),
                None => Ok(0),
            };
            let show = |sign: char, rows: &[Row]| -> Vec<String> {
                rows.iter().map(|row| format!("{sign} {}", text(row))).collect()
            };
            differences.push(TableDifference {
                table: old.clone(),
                only_old: count(&old_count.rows)?,
                only_new: count(&new_count.rows)?,
                examples: [show('-', &old_rows.rows), show('+', &new_rows.rows)].concat(),
            });
        }
        Ok(differences)
    }

    /// The columns of both tables, which must be the same; but for the one that says whose row it is,
    /// which a row that the last version wrote does not.
    async fn columns_of(&self, old: &str, next: &str) -> Result<String, RebuildError> {
        let mut columns = Vec::new();
        for table in [old, next] {
            // A row without values, also of a table without rows.
            let look = format!("SELECT t.* FROM (SELECT 1) AS one LEFT JOIN {table} AS t ON 1 = 0");
            let rows = self.look_anew(Statement::query(look, vec![])).await?;
            let names = rows.iter().flat_map(|row| row.iter().map(|(name, _)| name.to_owned()));
            columns.push(names.filter(|name| name != SLOT).collect::<Vec<_>>());
        }
        let missing = |from: &[String], others: &[String]| -> Vec<String> {
            from.iter().filter(|name| !others.contains(name)).cloned().collect()
        };
        let (gone, new) = (missing(&columns[0], &columns[1]), missing(&columns[1], &columns[0]));
        if !gone.is_empty() || !new.is_empty() {
            let table = old.to_owned();
            return Err(RebuildError::Columns { table, gone, new });
        }
        Ok(columns[0].iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "))
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

    /// Puts the new version in the place of the old one, in one transaction. The old tables are kept
    /// under names that end in `_old`, until the next switch.
    pub async fn switch(&self) -> Result<(), RebuildError> {
        self.tables.database.require_newest_schema()?;
        let next_name = self.next_name();
        for name in [self.name.as_str(), &next_name] {
            if self.tables.registered(Some(name)).await?.is_empty() {
                return Err(RebuildError::Missing(format!(
                    "there is no consumer `{name}`; run the new version by ReplicaSet::rebuild first"
                )));
            }
        }
        let watched = row_watch::removal(&next_name, &self.tables).await?;
        let watched = [watched, row_watch::removal(&self.name, &self.tables).await?].concat();
        let mut session = self.tables.database.begin();
        // The tables first: that waits for handlers at work, who hold no cursor yet. The other way
        // round they would wait for each other.
        let dialect = self.tables.database.dialect();
        let mut renames = watched;
        for (table, next_table) in &self.own {
            let kept = format!("{table}_old");
            renames.push(Statement::new(format!("DROP TABLE IF EXISTS {kept}"), vec![]));
            renames.push(rename(dialect, table, &kept));
            renames.push(rename(dialect, next_table, table));
        }
        let renamed = session.run(renames, End::Open { idle: IDLE }).await;
        renamed.map_err(|failed| self.tables.error(failed))?;
        let old = self.tables.lock(session.as_mut(), &self.name).await?;
        let next = self.tables.lock(session.as_mut(), &next_name).await?;
        let (old_at, next_at) = (furthest(&old.cursors), nearest(&next.cursors));
        let parked = self.tables.parked_in(session.as_mut(), &next_name).await?;
        if parked > 0 {
            return Err(RebuildError::Parked { name: self.name.clone(), keys: parked });
        }
        if next_at < old_at {
            let (name, old, next) = (self.name.clone(), old_at, next_at);
            return Err(RebuildError::Behind { name, old, next });
        }
        let mut statements = self.tables.forget(&self.name);
        statements.extend(self.tables.rename(&next_name, &self.name));
        // Its workers run it under the old name: their cursors are gone from under them.
        statements.extend(self.tables.fence_all(&self.name));
        statements.push(Statement::signal(Topic::Workers));
        let done = session.run(statements, End::Commit).await;
        done.map_err(|failed| self.tables.error(failed))?;
        tracing::info!(consumer = self.name, at = self.log.at(), "switched to the new version");
        Ok(())
    }
}

fn furthest(cursors: &[Cursor]) -> Position {
    cursors.iter().map(|cursor| cursor.position).max().unwrap_or_default()
}

fn nearest(cursors: &[Cursor]) -> Position {
    cursors.iter().map(|cursor| cursor.position).min().unwrap_or_default()
}

fn rename(dialect: &Dialect, from: &str, to: &str) -> Statement {
    // PostgreSQL wants the new name without its schema.
    let to = match dialect.kind {
        Kind::Postgres => to.rsplit('.').next().unwrap_or(to),
        _ => to,
    };
    Statement::new(format!("ALTER TABLE {from} RENAME TO {to}"), vec![])
}

fn text(row: &Row) -> String {
    let part =
        |(name, value): (&str, &anabranch_store::Value)| format!("{name}={}", value.to_json());
    row.iter().map(part).collect::<Vec<_>>().join(" ")
}
