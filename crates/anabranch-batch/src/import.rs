//! Rows that were finished before: taken over from a log of somebody else, so that they are not handled again.
//!
//! It is all or nothing. Entries of this job that are not imported ones are never touched: if a key of the other
//! log has one, both have worked on that row, and somebody has to look.

use crate::batch::{Batch, keys_of};
use crate::columns;
use crate::error::BatchError;
use crate::identity;
use crate::source::Source;
use crate::spelling::Spelling;
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_store::database::{End, column, quoted, quoted_part};
use anabranch_store::{Database, Log};
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// How many entries are named that are in the way.
const EXAMPLES: usize = 10;
/// How many keys are named.
const KEYS: usize = 5;
/// How many keys are in memory at a time.
const PAGE: usize = 100_000;
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
#[non_exhaustive]
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
    /// The first few of them.
    pub gone_keys: Vec<String>,
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
        database.rows(tables.any_key()).await?;
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
        let counted = database.rows(tables.finished(finished)).await;
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
        let gone_keys = match gone {
            0 => Vec::new(),
            _ => self.look_at_gone(database, tables, finished).await?,
        };
        if keys == gone {
            let Source { name: source, key_name, .. } = &self.source;
            let theirs = gone_keys.first().map_or("", String::as_str);
            let such =
                if keys == 1 { "1 such key".to_owned() } else { format!("{keys} such keys") };
            let ours = keys_of(database, tables.any_key_text()).await?;
            return refuse(match ours.first() {
                Some(ours) => format!(
                    "{name} has {such}, such as `{theirs}`, and none of them is a key of {source}, such as \
                     `{ours}`. Name the column that holds its `{key_name}` with --from-key"
                ),
                None => format!(
                    "{name} has {such}, such as `{theirs}`, and none of them is a key of {source}, which is empty"
                ),
            });
        }
        Ok(Imported { rows, keys, gone, gone_keys, ..Imported::default() })
    }

    /// Looks at keys that are not in the source, and names the first; refuses those that mean a row of it in
    /// another spelling.
    async fn look_at_gone(
        &self,
        database: &Arc<dyn Database>,
        tables: &Tables,
        finished: &Finished,
    ) -> Result<Vec<String>, BatchError> {
        let kinds = database.catalogue().kinds(&self.source.from, &self.source.key).await?;
        let spelling = Spelling::of(&kinds);
        let (mut gone, mut misspelt, mut count) = (Vec::new(), Vec::new(), 0);
        let mut after: Option<String> = None;
        loop {
            let page = tables.gone(finished, after.as_deref(), PAGE);
            let page = keys_of(database, page).await?;
            let room = KEYS - gone.len();
            gone.extend(page.iter().take(room).cloned());
            let Some(spelling) = spelling else { break };
            let meant: Vec<(&str, String)> = page
                .iter()
                .filter_map(|key| Some((key.as_str(), spelling.otherwise(key)?)))
                .collect();
            if !meant.is_empty() {
                let keys: Vec<&str> = meant.iter().map(|(_, key)| key.as_str()).collect();
                let there = keys_of(database, tables.in_source(&keys)).await?;
                let there: HashSet<String> = there.into_iter().collect();
                for (key, means) in meant.iter().filter(|(_, means)| there.contains(means)) {
                    count += 1;
                    misspelt.push(format!("`{key}` is {means}"));
                    misspelt.truncate(KEYS);
                }
            }
            after = page.last().cloned();
            if page.len() < PAGE {
                break;
            }
        }
        match spelling {
            Some(spelling) if count > 0 => {
                Err(self.refuse_misspelt(finished, spelling, count, &misspelt))
            }
            _ => Ok(gone),
        }
    }

    fn refuse_misspelt(
        &self,
        finished: &Finished,
        spelling: Spelling,
        count: u64,
        misspelt: &[String],
    ) -> BatchError {
        let (Finished { name, from, key, .. }, source) = (finished, &self.source.name);
        let (view, cast) = (quoted(&format!("{name}_cast")), spelling.cast(key));
        let are = if count == 1 { "is" } else { "are" };
        let more = if misspelt.len() < count as usize { ", …" } else { "" };
        BatchError::refused(
            &self.job,
            format!(
                "{name}: {count} of its keys {are} spelled otherwise than in {source}: {}{more}. These rows would be \
                 handled again. Import from a view that has them as {source} has: CREATE VIEW {view} AS SELECT *, \
                 {cast} AS cast_key FROM {from}, and --from {name}_cast --from-key cast_key",
                misspelt.join(", ")
            ),
        )
    }

    /// Refuses keys that the job has another entry for than an imported one.
    async fn refuse_others(
        &self,
        database: &Arc<dyn Database>,
        tables: &Tables,
        finished: &Finished,
    ) -> Result<(), BatchError> {
        let (at, mut named) = (database.at(), Vec::new());
        let others = database.rows(tables.others(finished, EXAMPLES)).await?;
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
