//! The statements of the API: tokens, sessions, and rows that the library has no reader for. They run on every database.
//!
//! | module | subject |
//! |---|---|
//! | `tokens` | tokens and the sessions of browsers |
//! | `kept` | replica sets, and snapshots of workflows |

mod kept;
mod tokens;

use anabranch::backend::Database;
use anabranch::backend::database::{End, Statement, column};
use anabranch::value::FromValue;
use anabranch::{Log, Row, StoreError};
use std::sync::Arc;

pub(crate) use tokens::Granted;

#[derive(Clone)]
pub(crate) struct Tables {
    database: Arc<dyn Database>,
    tokens: String,
    sessions: String,
    now: &'static str,
}

impl Tables {
    pub(crate) fn of(log: &Log) -> Self {
        let database = log.database();
        let dialect = database.dialect();
        let (tokens, sessions) = (dialect.table("tokens"), dialect.table("sessions"));
        let now = dialect.now_us();
        Self { database, tokens, sessions, now }
    }

    /// Where they are, as errors name it.
    pub(crate) fn at(&self) -> &str {
        self.database.at()
    }

    /// The rows of a query.
    async fn rows(&self, query: Statement) -> Result<Vec<Row>, StoreError> {
        self.database.rows(query).await
    }

    /// Runs statements in one transaction; how many rows each of them changed.
    async fn run(&self, statements: Vec<Statement>) -> Result<Vec<u64>, StoreError> {
        let ran = self.database.control().run(statements, End::Commit).await;
        let answers = ran.map_err(|failed| failed.into_store_error(self.database.at()))?;
        Ok(answers.iter().map(|answer| answer.changed).collect())
    }

    fn column<T: FromValue>(&self, row: &Row, name: &str) -> Result<T, StoreError> {
        column(self.database.at(), row, name)
    }
}
