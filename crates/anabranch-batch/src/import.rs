//! Rows that were finished before: taken over from a log of somebody else, so that they are not handled again.
//!
//! It is all or nothing. Entries of this job that are not imported ones are never touched: if a key of the other
//! log has one, both have worked on that row, and somebody has to look.

use crate::batch::{Batch, column, rows_of};
use crate::columns;
use crate::error::BatchError;
use crate::identity;
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_store::database::{End, quoted, quoted_part};
use anabranch_store::{Database, Log};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// How many keys are named.
const EXAMPLES: usize = 10;
/// How often it begins anew because instances claim rows of it at that moment, or stood in its way.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// Rows of a table that say that rows of the source are finished.
///
/// ```
/// use anabranch_batch::Finished;
/// let finished = Finished::new("old_log", "application_id", "state = 'done'");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    pub(crate) name: String,
    pub(crate) from: String,
    pub(crate) key_name: String,
    pub(crate) key: String,
    pub(crate) condition: String,
}

impl Finished {
    /// The rows of a table that fulfil a condition of SQL, and the column that holds the key of the source.
    #[must_use]
    pub fn new(
        table: impl Into<String>,
        key: impl Into<String>,
        condition: impl Into<String>,
    ) -> Self {
        let (name, key_name, condition) = (table.into(), key.into(), condition.into());
        Self { from: quoted(&name), key: quoted_part(&key_name), name, key_name, condition }
    }
}

/// What came of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Rows of the other log that fulfil the condition.
    pub rows: u64,
    /// Keys that they have; a log may note one several times.
    pub keys: u64,
    /// Keys that are finished here from now on.
    pub imported: u64,
    /// Keys that were imported before.
    pub already: u64,
    /// Of all these keys, those that no row of the source has. They are imported too.
    pub gone: u64,
    /// The session that the entries bear.
    pub session: String,
}

impl Batch {
    /// Takes over rows that are finished in a log of somebody else: they count as handled well, by a session
    /// of their own, and no run handles them. It may be repeated. It is refused, and nothing is taken over, if
    /// the job has another entry for one of them.
    ///
    /// ```
    /// # use anabranch_batch::{Batch, BatchError, Finished, Source};
    /// # async fn f(log: anabranch_store::Log) -> Result<(), BatchError> {
    /// let batch = Batch::new("convert", Source::table("applications", "id"));
    /// let done = Finished::new("old_log", "application_id", "state = 'done'");
    /// let imported = batch.import(&log, &done).await?;
    /// println!("{} taken over, {} before", imported.imported, imported.already);
    /// # Ok(()) }
    /// ```
    pub async fn import(&self, log: &Log, finished: &Finished) -> Result<Imported, BatchError> {
        let (database, tables) = self.prepare(log)?;
        rows_of(&database, tables.any_key()).await?;
        let looked = self.look(&database, &tables, finished).await?;
        self.create(&database, &tables).await?;
        identity::store(self, &database, &tables).await?;
        let mut away = None;
        for _ in 0..TRIES {
            self.refuse_others(&database, &tables, finished).await?;
            let session = uuid::Uuid::now_v7().to_string();
            let import = tables.import(finished, &session, &anabranch_runtime::host());
            match database.begin().run(import, End::Commit).await {
                Ok(answers) => {
                    let imported = answers.get(Tables::IMPORTS).map_or(0, |answer| answer.changed);
                    let already = looked.keys.saturating_sub(imported);
                    return Ok(Imported { imported, already, session, ..looked });
                }
                // Somebody has claimed one of them since.
                Err(failed) if failed.is_unmatched() => {}
                // They and it have waited for each other, for instance.
                Err(failed) if failed.is_transient() => {
                    away = Some(failed.into_store_error(database.at()));
                    tokio::time::sleep(PAUSE).await;
                }
                Err(failed) => return Err(failed.into_store_error(database.at()).into()),
            }
        }
        if let Some(error) = away {
            return Err(error.into());
        }
        Err(BatchError::refused(
            &self.job,
            "others claim its rows meanwhile; import while none runs",
        ))
    }

    /// Counts what is to be imported, and refuses what cannot be.
    async fn look(
        &self,
        database: &Arc<dyn Database>,
        tables: &Tables,
        finished: &Finished,
    ) -> Result<Imported, BatchError> {
        let refuse = |problem: String| Err(BatchError::refused(&self.job, problem));
        let Finished { name, from, key_name, condition, .. } = finished;
        let unreadable = |what: &str, error: StoreError| match error.is_transient() {
            true => BatchError::from(error),
            false => BatchError::refused(&self.job, format!("cannot read {name}{what}: {error}")),
        };
        let has = columns::of(database, from).await.map_err(|error| unreadable("", error))?;
        let is_there = |column: &String| column.eq_ignore_ascii_case(key_name);
        if !has.iter().any(is_there) {
            let lacks = columns::lacks(name, key_name, &has);
            return refuse(format!("{lacks}. Name the one that holds the key with --from-key"));
        }
        let by = format!(" with --where `{condition}`");
        let counted = rows_of(database, tables.finished(finished)).await;
        let counted = counted.map_err(|error| unreadable(&by, error))?;
        let get = |column_name: &str| -> Result<u64, StoreError> {
            counted.first().map_or(Ok(0), |row| column(database.at(), row, column_name))
        };
        let (rows, keys, gone) = (get("finished_rows")?, get("finished_keys")?, get("gone")?);
        match get("without_key")? {
            0 => {}
            1 => {
                return refuse(format!(
                    "{name}: 1 of its rows has no key; leave it out by --where"
                ));
            }
            n => {
                return refuse(format!(
                    "{name}: {n} of its rows have no key; leave them out by --where"
                ));
            }
        }
        if rows == 0 {
            return refuse(format!("no row of {name} fulfils --where `{condition}`"));
        }
        if keys == gone {
            return refuse(format!(
                "{name} has {keys} such keys, and none of them is a key of {}. Name the column that holds its \
                 `{}` with --from-key",
                self.source.name, self.source.key_name
            ));
        }
        Ok(Imported { rows, keys, gone, ..Imported::default() })
    }

    /// Refuses keys that the job has another entry for than an imported one.
    async fn refuse_others(
        &self,
        database: &Arc<dyn Database>,
        tables: &Tables,
        finished: &Finished,
    ) -> Result<(), BatchError> {
        let (at, mut named) = (database.at(), Vec::new());
        let others = rows_of(database, tables.others(finished, EXAMPLES)).await?;
        let Some(first) = others.first() else { return Ok(()) };
        let count: u64 = column(at, first, "n")?;
        for row in &others {
            let get = |name: &str| column::<String>(at, row, name);
            named.push(format!("{} ({}, session {})", get("key")?, get("state")?, get("session")?));
        }
        Err(BatchError::refused(
            &self.job,
            format!(
                "{}: {count} of its keys have an entry of this job already, so both have worked on these rows: \
                 {}. Find out which of the two is right; then leave them out by --where, or delete these entries \
                 while nothing runs",
                finished.name,
                named.join(", ")
            ),
        ))
    }
}
