//! A session of the server: its driver, its prepared statements, and what it is set up for.

use crate::error::Failure;
use crate::recent::Recent;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_postgres::{Client, Error, Statement};

/// A query with more names than this is not kept prepared: there are too many shapes of such.
const MAX_KEPT_PLACEHOLDERS: usize = 20;
/// How many statements stay prepared. Ours are far fewer; a program that writes values into its statements has a new one
/// each time, and they would fill the memory here and at the server.
const MOST_KEPT: usize = 500;

/// The statements of an append are few and simple: one plan serves all values, while making one for
/// each batch took a sixth of the time of a single append. It is made when the log may still be empty, and kept when it
/// has grown: so it must not read a table from end to end because that is small.
///
/// An append without a BEGIN must see what was committed before each of its statements, whatever the user's default is.
const APPENDING: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
                         SET jit = off; \
                         SET default_transaction_isolation = 'read committed'";
/// A page of a filtered read is a range of positions, whatever the filter: the primary key finds it, and
/// anything else reads the whole log for each page. The planner cannot know how many rows pass the
/// filter, so it is not asked. What is switched off looks so costly that it would be compiled first
/// (`jit`), which takes longer than the rest.
const SCANNING: &str = "SET plan_cache_mode = force_generic_plan; SET enable_sort = off; \
                        SET enable_bitmapscan = off; SET enable_seqscan = off; SET jit = off";

/// The events of a tag are a range of its index, and each is found by its position. The planner would look for
/// something better as long as it takes the log for a small one, and keep that when the log has grown.
const SCOPES: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
                      SET enable_bitmapscan = off; SET enable_hashjoin = off; \
                      SET enable_mergejoin = off; SET jit = off";

/// Takes back whatever a statement may have done to its session that outlives the transaction. Statements of
/// ours stay prepared; so would those of others, which are refused (`anabranch_store::control`).
const CLEAR: &str = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; CLOSE ALL; UNLISTEN *; \
                     SELECT pg_advisory_unlock_all(); DISCARD TEMP";

/// What a session is set up for. A session changes its purpose when it is lent to another use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Statements of users among others: what they did to it is taken back when they end.
    Effects,
    Read,
    Scan,
    /// Small reads of several scopes at once.
    Scopes,
    Append,
}

impl Purpose {
    fn settings(self) -> &'static str {
        match self {
            Self::Effects | Self::Read => "",
            Self::Scan => SCANNING,
            Self::Scopes => SCOPES,
            Self::Append => APPENDING,
        }
    }
}

/// A connection, and the task that drives it.
pub(crate) struct Bare {
    pub(crate) client: Client,
    pub(crate) driver: AbortHandle,
    pub(crate) closed: watch::Receiver<bool>,
}

/// What a session says of itself when it begins.
pub(crate) struct Begun {
    pub(crate) pid: i32,
    pub(crate) role: String,
    pub(crate) started: i64,
}

/// A session of the server.
pub(crate) struct Connection {
    client: Client,
    driver: AbortHandle,
    closed: watch::Receiver<bool>,
    statements: Mutex<Recent<Statement>>,
    purpose: Mutex<Purpose>,
    /// What every session begins with.
    settings: &'static str,
    /// The server's process, as it was when the session began.
    pub(crate) pid: i32,
    /// The role that it began with.
    pub(crate) role: String,
    /// When the server was started, in microseconds: another server, or another start of it.
    pub(crate) started: i64,
}

impl Connection {
    pub(crate) fn new(bare: Bare, settings: &'static str, begun: Begun) -> Self {
        let Bare { client, driver, closed } = bare;
        let statements = Mutex::new(Recent::new(MOST_KEPT));
        let purpose = Mutex::new(Purpose::Effects);
        let Begun { pid, role, started } = begun;
        Self { client, driver, closed, statements, purpose, settings, pid, role, started }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn purpose(&self) -> Purpose {
        *lock(&self.purpose)
    }

    /// Sets it up for another use. That is only sent: what is sent next comes after it, so nobody waits.
    pub(crate) async fn serve(&self, purpose: Purpose) {
        if self.purpose() == purpose {
            return;
        }
        *lock(&self.purpose) = purpose;
        let set = format!("RESET ALL; {}", self.set_up());
        let set = self.client.batch_execute(&set);
        tokio::pin!(set);
        // The first poll sends it. If it fails, the connection is gone and the next statement says so.
        let _ = futures_util::poll!(&mut set);
    }

    /// What it is set up with, for its purpose.
    fn set_up(&self) -> String {
        [self.settings, self.purpose().settings()].join(";")
    }

    /// Makes it as good as new, after a transaction with statements of users.
    pub(crate) async fn clear(&self) -> Result<(), Error> {
        self.client.batch_execute(&format!("{CLEAR}; {}", self.set_up())).await
    }

    /// Rolls back, and makes it as good as new if statements of users ran.
    pub(crate) async fn roll_back(&self, is_users: bool) -> Result<(), Error> {
        self.client.batch_execute("ROLLBACK").await?;
        match is_users {
            true => self.clear().await,
            false => Ok(()),
        }
    }

    /// A statement, kept for the next time.
    pub(crate) async fn prepare_cached(&self, sql: &str) -> Result<Statement, Error> {
        if let Some(known) = lock(&self.statements).get(sql) {
            return Ok(known);
        }
        let statement = self.client.prepare(sql).await?;
        lock(&self.statements).insert(sql, statement.clone());
        Ok(statement)
    }

    /// Waits until the connection is gone.
    pub(crate) async fn until_closed(&self) {
        let mut closed = self.closed.clone();
        // An error means that its driver is gone, and the connection with it.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    /// Ends it at once, wherever it stands in a transaction.
    pub(crate) fn abort(&self) {
        self.driver.abort();
    }
}

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// A statement, kept for the next time unless its shape is a rare one.
pub(crate) async fn prepare(session: &Connection, sql: &str) -> Result<Statement, Error> {
    if sql.matches('$').count() <= MAX_KEPT_PLACEHOLDERS {
        session.prepare_cached(sql).await
    } else {
        session.prepare(sql).await
    }
}

/// What a lock protects stays whole: nothing panics while it is held.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where sessions come from.
pub(crate) trait Lender: Send + Sync {
    /// The session has done its work, and is sound.
    fn returned(&self, loan: u64, connection: std::sync::Arc<Connection>);

    /// The session was given up: it is closed.
    fn lost(&self, loan: u64);
}

/// A session on loan. It is lent again when its work is done; one that is given up half-way may be
/// anywhere in a transaction, so the server ends that together with the connection.
pub(crate) struct Lease {
    connection: Option<std::sync::Arc<Connection>>,
    loan: u64,
    lender: std::sync::Arc<dyn Lender>,
    /// What the borrower holds beside it, until it is over.
    _permit: Option<Permit>,
}

/// What a borrower waited for.
pub(crate) enum Permit {
    /// One of so many that may use a pool at the same time.
    Turn(
        #[expect(dead_code, reason = "held until it is dropped")] tokio::sync::OwnedSemaphorePermit,
    ),
    /// The only one.
    Alone(
        #[expect(dead_code, reason = "held until it is dropped")] tokio::sync::OwnedMutexGuard<()>,
    ),
}

impl Lease {
    pub(crate) fn new(
        connection: std::sync::Arc<Connection>,
        loan: u64,
        lender: std::sync::Arc<dyn Lender>,
        permit: Option<Permit>,
    ) -> Self {
        Self { connection: Some(connection), loan, lender, _permit: permit }
    }

    pub(crate) fn session(&self) -> &Connection {
        self.connection.as_ref().expect("it is there until it is given back")
    }

    pub(crate) fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            self.lender.returned(self.loan, connection);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.abort();
            self.lender.lost(self.loan);
        }
    }
}

/// What opening or borrowing a session answers with.
pub(crate) type Lent = Result<Lease, Failure>;
