//! The limit: what the driver alone can do, on the same schema and with the same durability. It
//! checks nothing, coalesces nothing and promises nothing.

use super::bare_postgres::BarePostgres;
use super::bare_sqlite::BareSqlite;
use anabranch::Namespace;
use std::time::Duration;

/// A plain connection to a log's tables.
pub(crate) enum Bare {
    Sqlite(BareSqlite),
    Postgres(BarePostgres),
}

/// A row, as the limit writes it.
#[derive(Clone, Debug)]
pub(crate) struct BareRow {
    pub(crate) stream: String,
    pub(crate) version: i64,
    pub(crate) data: String,
    pub(crate) customer: String,
    pub(crate) tag: Option<String>,
}

impl Bare {
    /// Connects to the log that is there already.
    pub(crate) async fn connect(url: &str, namespace: &Namespace) -> anyhow::Result<Self> {
        Ok(match url.strip_prefix("sqlite:") {
            Some(path) => Self::Sqlite(BareSqlite::open(path, namespace)?),
            None => Self::Postgres(BarePostgres::connect(url, namespace).await?),
        })
    }

    /// Writes batches of rows, one commit each, for as long as it is told; returns how many rows.
    pub(crate) async fn write(
        &mut self,
        batch: impl FnMut() -> Vec<BareRow>,
        time: Duration,
    ) -> anyhow::Result<u64> {
        match self {
            Self::Sqlite(bare) => bare.write(batch, time),
            Self::Postgres(bare) => bare.write(batch, time).await,
        }
    }

    /// Writes rows in one commit.
    pub(crate) async fn insert(&mut self, rows: &[BareRow]) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(bare) => bare.insert(rows),
            Self::Postgres(bare) => bare.insert(rows).await,
        }
    }

    /// For as long as it is told: reads the events of scopes, and writes as many rows; returns how many rows.
    pub(crate) async fn read_and_write(
        &mut self,
        batch: impl FnMut() -> Vec<BareRow>,
        time: Duration,
    ) -> anyhow::Result<u64> {
        match self {
            Self::Sqlite(bare) => bare.read_and_write(batch, time),
            Self::Postgres(bare) => bare.read_and_write(batch, time).await,
        }
    }

    /// How many events there are, and how many tags they have together.
    pub(crate) async fn counts(&mut self) -> anyhow::Result<(u64, u64)> {
        match self {
            Self::Sqlite(bare) => bare.counts(),
            Self::Postgres(bare) => bare.counts().await,
        }
    }

    /// Reads every column of every row, in order; returns how many rows.
    pub(crate) async fn read(&mut self) -> anyhow::Result<u64> {
        match self {
            Self::Sqlite(bare) => bare.read(),
            Self::Postgres(bare) => bare.read().await,
        }
    }

    /// The number of events and the total that a table of totals adds up to.
    pub(crate) async fn sums(&mut self, table: &str) -> anyhow::Result<(u64, f64)> {
        match self {
            Self::Sqlite(bare) => bare.sums(table),
            Self::Postgres(bare) => bare.sums(table).await,
        }
    }

    /// Removes the log, and the tables that were put beside its own.
    pub(crate) async fn drop_log(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(bare) => bare.drop_log(),
            Self::Postgres(bare) => bare.drop_log().await,
        }
    }
}
