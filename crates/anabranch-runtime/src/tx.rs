//! The transaction that a handler writes in.

mod appends;
mod raw;

pub(crate) use appends::Origin;
pub use raw::{Mark, RawTx};

use crate::handler::{HandlerError, HandlerResult};
use anabranch_store::control::transaction_control;
use anabranch_store::database::{
    Answer, Dialect, End, Failed, InsertRows, Reason, Session, Statement, Who, Work,
};
use anabranch_store::{Database, Row, Sql, Value};
use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How much is queued before it is sent without waiting for the end of the batch.
const MAX_QUEUED_BYTES: usize = 8 << 20;
const MAX_QUEUED: usize = 20_000;
/// How long a hook may think between two statements of an open transaction.
const HOOK_IDLE: Duration = Duration::from_secs(2);

const GIVEN_UP: &str = "a statement was given up half-way (by a timeout or a select!), so nobody knows \
                        what it did; await it to its end";

const UNCHECKED: &str = "appends of a handler go through Tx::append or Tx::append_all: those check them, and give \
                         their events ids that a replay finds again";

/// The transaction of a batch: what is written in it commits together with the cursor, or not at
/// all.
///
/// Statements are the same on SQLite and PostgreSQL: values stand as `$1`, `$2`, …. Writes are
/// queued and sent together when the batch commits or the handler reads, so one upsert for each
/// event does not cost one round trip each. An error that the database reports late is attributed to the
/// event whose statement it was.
pub struct Tx {
    database: Arc<dyn Database>,
    session: Box<dyn Session>,
    queued: Vec<Statement>,
    /// The event of each queued statement.
    blame: Vec<Option<usize>>,
    queued_bytes: usize,
    appends: appends::Appends,
    traces: appends::Traces,
    /// The event that is being handled, by its place in the batch.
    current: Option<usize>,
    failure: Option<Failure>,
    /// Since when the transaction is open on the database without a statement.
    open_since: Option<Instant>,
    /// The event whose statements are on their way: if they still are when the next ones come, the
    /// handler has given them up.
    on_their_way: Option<Option<usize>>,
    /// How many events the handler took, if not all.
    cut: Option<usize>,
    /// The place in the batch of what the handler takes for its first event.
    counted_from: usize,
    /// How often statements were sent.
    sent: u64,
    suffix: &'static str,
    idle: Duration,
    /// The tables whose names were asked for.
    named: Mutex<Vec<&'static str>>,
    /// The constant text that was last seen not to end the transaction, by its place.
    checked: Option<(usize, usize)>,
}

/// A failed statement, and the event to blame.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) event: Option<usize>,
    pub(crate) failed: Failed,
}

/// How a transaction ended.
pub(crate) enum Ended {
    Committed,
    /// The fence did not match: somebody else owns the cursor now.
    Fenced,
    /// A statement that is not the handler's was refused.
    Broken(Failed),
    Failed(Failure),
}

impl Tx {
    /// A transaction for a hook.
    pub(crate) fn begin(database: &Arc<dyn Database>, suffix: &'static str) -> Self {
        Self::begin_as(database, suffix, HOOK_IDLE, &Who::hook())
    }

    /// A transaction that may be open for so long without a statement. For a handler that is less than
    /// its worker's lease: on SQLite it would keep the heartbeat out, and anywhere the heir.
    pub(crate) fn begin_as(
        database: &Arc<dyn Database>,
        suffix: &'static str,
        idle: Duration,
        who: &Who,
    ) -> Self {
        Self {
            idle,
            session: database.begin_as(who),
            database: Arc::clone(database),
            queued: Vec::new(),
            blame: Vec::new(),
            queued_bytes: 0,
            appends: appends::Appends::default(),
            traces: appends::Traces::default(),
            current: None,
            failure: None,
            open_since: None,
            on_their_way: None,
            cut: None,
            counted_from: 0,
            sent: 0,
            suffix,
            named: Mutex::default(),
            checked: None,
        }
    }

    /// Writes. The statement may be sent later, together with others; it is the same on every
    /// database, with `$1`, `$2`, … for its values.
    ///
    /// ```
    /// # use anabranch_core::Event;
    /// # use anabranch_runtime::{HandlerResult, Tx};
    /// # use anabranch_store::params;
    /// async fn handle(event: &Event, tx: &mut Tx) -> HandlerResult {
    ///     tx.execute(
    ///         "INSERT INTO order_summary (id, events) VALUES ($1, 1) \
    ///          ON CONFLICT (id) DO UPDATE SET events = order_summary.events + 1",
    ///         params![event.stream_id()],
    ///     )
    ///     .await
    /// }
    /// ```
    pub async fn execute(&mut self, sql: impl Sql, values: Vec<Value>) -> HandlerResult {
        self.push(Statement::new(sql, values)).await
    }

    /// Writes many rows of a table in one go: `conflict` is what follows them, such as
    /// `ON CONFLICT (id) DO UPDATE SET total = excluded.total`, or nothing. A key may stand in one
    /// row only, so a batch handler sums up the events of a key first.
    pub async fn insert_rows(
        &mut self,
        table: impl Sql,
        columns: &'static [&'static str],
        rows: Vec<Vec<Value>>,
        conflict: impl Sql,
    ) -> HandlerResult {
        if let Some(row) = rows.iter().find(|row| row.len() != columns.len()) {
            let (has, wants) = (row.len(), columns.len());
            return Err(HandlerError::new(format!(
                "insert_rows: a row has {has} values for {wants} columns"
            )));
        }
        let (table, conflict) = (table.into_text(), conflict.into_text());
        let columns = Cow::Borrowed(columns);
        let insert = InsertRows { table, columns, conflict, rows };
        self.push(Statement::rows(insert)).await
    }

    /// Reads, and sees what was written before.
    ///
    /// From here on the transaction is open on the database until the batch commits: on SQLite
    /// nobody else writes meanwhile, so do nothing slow after it, and do not append to the log in
    /// between: the append would wait for this transaction. If no statement comes for half a lease
    /// (2.5 s unless you change it), the event has failed.
    pub async fn query(&mut self, sql: impl Sql, values: Vec<Value>) -> HandlerResult<Vec<Row>> {
        self.query_statement(Statement::query(sql, values)).await
    }

    /// Reads the first row, if there is one.
    pub async fn query_first(
        &mut self,
        sql: impl Sql,
        values: Vec<Value>,
    ) -> HandlerResult<Option<Row>> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    /// Runs a statement of a consumer of ours.
    #[doc(hidden)]
    pub async fn run_own(&mut self, statement: Statement) -> HandlerResult {
        self.push(statement).await
    }

    /// Runs a query of a consumer of ours.
    #[doc(hidden)]
    pub async fn query_own(&mut self, query: Statement) -> HandlerResult<Vec<Row>> {
        self.query_statement(query).await
    }

    /// How long the transaction may be open on the database without a statement, if it is open: from the first query
    /// on, or once much was written. Before that a handler may take its time.
    #[must_use]
    pub fn open_limit(&self) -> Option<Duration> {
        self.open_since.map(|_| self.idle)
    }

    /// How this database writes what differs, such as the names of tables of the log; and which one it is
    /// ([`Dialect::name`]), for a statement that cannot be the same everywhere.
    #[must_use]
    pub fn dialect(&self) -> &dyn Dialect {
        self.database.dialect()
    }

    /// The name under which a projection that can be rebuilt beside itself writes a table of its
    /// own: the name itself, or `name_next` while a new version is being built; see
    /// [`Rebuild`](crate::Rebuild).
    #[must_use]
    pub fn table(&self, name: &'static str) -> Cow<'static, str> {
        if let Ok(mut named) = self.named.lock()
            && !named.contains(&name)
        {
            named.push(name);
        }
        match self.suffix {
            "" => Cow::Borrowed(name),
            suffix => Cow::Owned(format!("{name}{suffix}")),
        }
    }

    /// The tables whose names were asked for.
    pub(crate) fn named_tables(&self) -> Vec<&'static str> {
        self.named.lock().map(|named| named.clone()).unwrap_or_default()
    }

    /// Says which event of the batch the next statements and appends belong to, by its place: what the database says
    /// of them later is attributed to it. Only a handler of whole batches
    /// ([`handle_batch`](crate::Projection::handle_batch)) has a use for it.
    pub fn for_event(&mut self, number: usize) {
        self.current = Some(self.counted_from + number);
    }

    /// The handler gets the events of the batch one by one: what it calls the first is this one.
    pub(crate) fn count_from(&mut self, event: usize) {
        self.counted_from = event;
    }

    /// Ends the batch before its events do: so many are handled.
    pub(crate) fn cut(&mut self, events: usize) {
        self.cut = Some(self.counted_from + events);
    }

    /// Whether the batch ends before its events do.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// How many of the events were handled.
    pub(crate) fn handled(&self, events: usize) -> usize {
        self.cut.unwrap_or(events)
    }

    pub(crate) fn suffix(&self) -> &'static str {
        self.suffix
    }

    /// The transaction below, for statements of our own.
    pub(crate) fn session(&mut self) -> &mut dyn Session {
        self.session.as_mut()
    }

    /// The event that was being handled.
    pub(crate) fn current(&self) -> Option<usize> {
        self.current
    }

    /// Refuses a statement that would begin or end the transaction, or append what nobody has checked. The
    /// event has failed even if its handler passes over the error: what it meant to do is not done.
    fn refuse_control(&mut self, statement: &Statement) -> HandlerResult {
        let sql = match &statement.work {
            Work::Sql(sql, _) => sql,
            Work::Appends(_) => return self.refuse(UNCHECKED.to_owned()),
            Work::Rows(_) | Work::Begun | Work::Signal(_) => return Ok(()),
        };
        // Most texts are constants, and come again with every event.
        let constant = match sql {
            Cow::Borrowed(text) => Some((text.as_ptr() as usize, text.len())),
            Cow::Owned(_) => None,
        };
        if constant.is_some() && constant == self.checked {
            return Ok(());
        }
        let Some(word) = transaction_control(sql) else {
            self.checked = constant;
            return Ok(());
        };
        let said = format!(
            "a handler must not use {word}: its effects commit together with the cursor, when the \
             batch ends, and its session is used by others after it; leave it out"
        );
        self.refuse(said)
    }

    fn refuse(&mut self, said: String) -> HandlerResult {
        let error = HandlerError::new(said.clone());
        let failed = Failed { statement: None, reason: Reason::refused(said) };
        self.failure.get_or_insert(Failure { event: self.current, failed });
        Err(error)
    }

    fn queue(&mut self, statement: Statement) {
        self.queued_bytes += match &statement.work {
            Work::Sql(_, values) => values.iter().map(Value::bytes).sum::<usize>(),
            Work::Rows(insert) => insert.rows.iter().flatten().map(Value::bytes).sum(),
            Work::Signal(_) | Work::Begun | Work::Appends(_) => 0,
        };
        self.queued.push(statement);
        self.blame.push(self.current);
    }

    /// Sends what is queued and leaves the transaction open.
    async fn flush(&mut self) -> HandlerResult<Vec<Answer>> {
        self.check();
        if let Some(failure) = &self.failure {
            let reason = &failure.failed.reason;
            return Err(HandlerError::with_code(reason.code(), reason.to_string()));
        }
        self.queued_bytes = 0;
        self.sent += 1;
        let statements = std::mem::take(&mut self.queued);
        let blame = std::mem::take(&mut self.blame);
        self.on_their_way = Some(self.current);
        let answers = self.session.run(statements, End::Open { idle: self.idle }).await;
        self.on_their_way = None;
        self.open_since = Some(Instant::now());
        match answers {
            Ok(answers) => Ok(answers),
            Err(failed) => {
                let reason = &failed.reason;
                let error = HandlerError::with_code(reason.code(), reason.to_string());
                let event = failed.statement.and_then(|number| blame.get(number).copied());
                self.failure = Some(Failure { event: event.flatten(), failed });
                Err(error)
            }
        }
    }

    /// Finds out what the handler has done to the transaction. Neither is the database's fault, so
    /// trying again would not help.
    fn check(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let (event, said) = if let Some(event) = self.on_their_way {
            (event, GIVEN_UP.to_owned())
        } else if self.open_since.is_some_and(|since| since.elapsed() > self.idle) {
            let said = format!(
                "the transaction was held open for more than {:?} without a statement; read late, and \
                 do slow things before",
                self.idle
            );
            (self.current, said)
        } else {
            return;
        };
        let reason = Reason::refused(said);
        self.failure = Some(Failure { event, failed: Failed { statement: None, reason } });
    }

    /// Whether it writes tables of the old version while a new one is built: something was written, and
    /// nobody has asked what the tables of the new version are called.
    pub(crate) fn writes_the_old_version(&self) -> bool {
        let is_written = self.sent > 0 || !self.queued.is_empty();
        !self.suffix.is_empty() && is_written && self.named_tables().is_empty()
    }

    /// What has failed before the end, if something has.
    pub(crate) fn failure(&mut self) -> Option<Failure> {
        self.check();
        self.failure.take()
    }

    /// Commits what is queued together with the statements that move the cursor.
    pub(crate) async fn commit(mut self, fence: Vec<Statement>) -> Ended {
        self.check();
        if let Some(failure) = self.failure.take() {
            // The handler has swallowed it; the database has not.
            return Ended::Failed(failure);
        }
        let own = self.queued.len();
        let mut statements = std::mem::take(&mut self.queued);
        if own > 0 || self.sent > 0 {
            // Not every statement of ours is a fence.
            statements.push(Statement::begun());
        }
        // Directly before the fence: whom their locks hold up waits for nothing else.
        let (place, mut items) = (statements.len(), Vec::new());
        if let Some((appends, of)) = self.appends.take() {
            statements.push(appends);
            items = of;
        }
        statements.extend(fence);
        match self.session.run(statements, End::Commit).await {
            Ok(_) => Ended::Committed,
            Err(failed) => {
                let number = failed.statement;
                if number == Some(place) && !items.is_empty() {
                    let event = match &failed.reason {
                        Reason::Append { number, .. } => items.get(*number).copied().flatten(),
                        _ => None,
                    };
                    return Ended::Failed(Failure { event, failed });
                }
                match failed.reason {
                    Reason::TooMuch { .. } => {
                        return Ended::Failed(Failure { event: None, failed });
                    }
                    _ if number.is_none_or(|number| number < own) => {}
                    Reason::Unmatched => return Ended::Fenced,
                    _ => return Ended::Broken(failed),
                }
                let event = number.and_then(|number| self.blame.get(number).copied()).flatten();
                Ended::Failed(Failure { event, failed })
            }
        }
    }
}

impl std::fmt::Debug for Tx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").field("queued", &self.queued.len()).finish_non_exhaustive()
    }
}
