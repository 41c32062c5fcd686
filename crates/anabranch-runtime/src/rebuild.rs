//! Blue/green: a new version of a projection is built beside the old one, compared, and switched to.
//!
//! | module | subject |
//! |---|---|
//! | `columns` | the columns of the two versions of a table |
//! | `compare` | the rows of the two versions, compared |
//! | `switch` | the new version takes the place of the old one |
//! | `preview` | what a switch would do |

mod columns;
mod compare;
mod preview;
mod switch;

use crate::consumer::NEXT;
use crate::fold;
use crate::operate_error::OperateError;
use crate::tables::Tables;
use anabranch_core::{ErrorCode, ErrorKind, Position, StoreError, debug_with_code};
use anabranch_store::Log;
use anabranch_store::database::Statement;
use thiserror::Error;

pub use columns::{ChangedColumn, ColumnDifference, TableColumn};
pub use compare::TableDifference;
pub use preview::{SwitchPreview, VersionState};

/// The rebuild of a projection or view under the same name.
///
/// 1. The new version is run by [`ReplicaSet::rebuild`](crate::ReplicaSet::rebuild) with a higher
///    [`version`](crate::Settings::version). It has cursors of its own and writes the tables that
///    [`Tx::table`](crate::Tx::table) names, which end in `_next`; the old version goes on.
/// 2. [`compare`](Self::compare) reports how the tables differ.
/// 3. [`switch`](Self::switch) puts the new tables and cursors in the place of the old ones, in one
///    transaction. The workers that built the new version serve it from then on; those of the old
///    version are fenced, and refused for this consumer.
///
/// `docs/changing-a-projection.md` tells the whole story.
///
/// ```
/// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::RebuildError> {
/// use anabranch_runtime::Rebuild;
/// let rebuild = Rebuild::new(&log, "order_summary", &["order_summary"]);
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
    /// Each table, and that of the new version.
    own: Vec<(String, String)>,
    /// What is run in the transaction of the switch, before and after it.
    around: (Vec<Statement>, Vec<Statement>),
}

/// Why a rebuild cannot go on.
#[derive(Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// No new version of the consumer is built, or being built.
    #[error(
        "no rebuild of `{name}` is under way: it is version {version}, and no newer one is being built; a \
         program that runs a newer version by ReplicaSet::rebuild begins one"
    )]
    NotUnderWay {
        /// Which consumer.
        name: String,
        /// Its version.
        version: u32,
    },
    /// There is no such table.
    #[error(
        "there is no table `{table}`; name the tables that the projection writes, as it gives them to \
         Tx::table"
    )]
    NoTable {
        /// Its name.
        table: String,
    },
    /// A version of the consumer is not there any more.
    #[error("`{name}` was forgotten or switched to meanwhile; look again")]
    Gone {
        /// The name of that version.
        name: String,
    },
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
    /// Some keys of the new version are parked.
    #[error(
        "{keys} keys of the new version of `{name}` have failed, and their events are missing in its tables; \
         `anabranch parked list {name}.next` says why. Those that are tried again by themselves need a \
         handler that works, others `parked retry` or `skip`; then switch"
    )]
    Parked {
        /// Which consumer.
        name: String,
        /// How many.
        keys: usize,
    },
    /// It writes tables that were not named.
    #[error(
        "the new version of `{name}` also writes {}; name every table that it writes: one that is left \
         out would keep the rows of the old version",
        tables.join(", ")
    )]
    Tables {
        /// Which consumer.
        name: String,
        /// The tables.
        tables: Vec<String>,
    },
    /// There is no such consumer, or the database could not do it.
    #[error(transparent)]
    Operate(#[from] OperateError),
}

debug_with_code!(RebuildError);

impl From<StoreError> for RebuildError {
    fn from(error: StoreError) -> Self {
        Self::Operate(error.into())
    }
}

impl RebuildError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotUnderWay { .. } | Self::Gone { .. } => ErrorCode::NoRebuild,
            Self::NoTable { .. } => ErrorCode::NoSuchTable,
            Self::Behind { .. } => ErrorCode::RebuildBehind,
            Self::Parked { .. } => ErrorCode::RebuildParked,
            Self::Tables { .. } => ErrorCode::RebuildTables,
            Self::Operate(error) => error.code(),
        }
    }

    /// Which kind of error it is: what an API answers.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.code().kind()
    }
}

impl Rebuild {
    /// The rebuild of a projection that writes these tables by [`Tx::table`](crate::Tx::table).
    #[must_use]
    pub fn new(log: &Log, name: &str, tables: &[&str]) -> Self {
        let own = tables.iter().map(|table| {
            let table = (*table).to_owned();
            (table.clone(), table + NEXT.1)
        });
        Self::with_tables(log, name, own.collect())
    }

    /// The rebuild of a view or rollup.
    #[must_use]
    pub fn for_view(log: &Log, name: &str) -> Self {
        let database = log.database();
        let table = |suffix| fold::table(database.dialect(), name, suffix);
        Self::with_tables(log, name, vec![(table(""), table(NEXT.1))])
    }

    fn with_tables(log: &Log, name: &str, own: Vec<(String, String)>) -> Self {
        let tables = Tables::of(log.database());
        Self { log: log.clone(), tables, name: name.to_owned(), own, around: Default::default() }
    }

    /// The same, with statements that are run in the transaction of the switch, before and after its own: for the journal
    /// of operations.
    #[doc(hidden)]
    #[must_use]
    pub fn in_transaction_with(self, before: Vec<Statement>, after: Vec<Statement>) -> Self {
        Self { around: (before, after), ..self }
    }

    /// Refuses unless there is a new version, built or being built.
    pub async fn must_be_under_way(&self) -> Result<(), RebuildError> {
        let name = &self.name;
        if !self.tables.registered(Some(&self.next_name())).await?.is_empty() {
            return Ok(());
        }
        Err(match self.tables.registered(Some(name)).await?.first() {
            Some(stored) => {
                RebuildError::NotUnderWay { name: name.clone(), version: stored.version }
            }
            None => self.tables.no_such_consumer(name).await.into(),
        })
    }

    /// Refuses to leave out a table that the new version is known to write.
    async fn must_name_all(&self) -> Result<(), RebuildError> {
        let mut tables = self.tables.own_tables(&self.next_name()).await?;
        let is_named =
            |table: &str| self.own.iter().any(|(own, _)| own.eq_ignore_ascii_case(table));
        tables.retain(|table| !is_named(table));
        tables.dedup();
        match tables.is_empty() {
            true => Ok(()),
            false => Err(RebuildError::Tables { name: self.name.clone(), tables }),
        }
    }

    fn next_name(&self) -> String {
        format!("{}{}", self.name, NEXT.0)
    }
}
