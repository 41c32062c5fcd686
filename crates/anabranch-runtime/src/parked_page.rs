//! Keys that are set aside, many at a time: by what a filter says, evaluated at the database, never by a page of a list.

use crate::consumers::{Consumers, KeyState, Parked};
use crate::operate_error::OperateError;
use crate::tables::parked::Asked;
use crate::tables::parked_filter::Meant;
use anabranch_core::Position;
use anabranch_store::database::{End, Statement, Topic};
use serde::{Deserialize, Serialize};

/// How many keys are named where all are counted.
const NAMED: usize = 10;

/// Which keys that are set aside are meant: those that pass everything that is set.
///
/// ```
/// use anabranch_runtime::{KeyState, ParkedFilter};
/// let timed_out = ParkedFilter {
///     error_contains: Some("timed out".to_owned()),
///     state: Some(KeyState::Parked),
///     ..ParkedFilter::default()
/// };
/// assert!(!timed_out.is_of_one_key());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ParkedFilter {
    /// This key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Keys with this text in them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_contains: Option<String>,
    /// Keys whose last error has this text in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_contains: Option<String>,
    /// Keys that wait for somebody, or those that are tried again by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<KeyState>,
}

impl ParkedFilter {
    /// This key alone.
    #[must_use]
    pub fn of_key(key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..Self::default() }
    }

    /// Whether one key is named.
    #[must_use]
    pub fn is_of_one_key(&self) -> bool {
        self.key.is_some()
    }
}

/// What is wanted of keys that are set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParkedAction {
    /// Try them again, now.
    Retry,
    /// Leave out the first event of each, and try the others.
    Skip,
    /// Leave out all events that wait.
    SkipAll,
}

impl ParkedAction {
    fn asked(self) -> Asked {
        match self {
            Self::Retry => Asked::Retry,
            Self::Skip => Asked::Skip,
            Self::SkipAll => Asked::SkipAll,
        }
    }
}

/// What a filter finds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ParkedFound {
    /// How many keys.
    pub keys: u64,
    /// How many events wait behind them.
    pub events: u64,
    /// The first of the keys.
    pub first: Vec<String>,
    /// The time by the database's clock, in microseconds since 1970: what is set aside later was not counted.
    pub at_us: i64,
    /// The last of these events: what comes behind the keys later was not counted.
    pub up_to: Position,
}

/// Some of the keys that a filter finds.
#[derive(Clone, Copy, Debug)]
pub struct ParkedPage<'a> {
    /// Of this consumer.
    pub consumer: &'a str,
    /// Which.
    pub filter: &'a ParkedFilter,
    /// Only what was set aside up to this time, in microseconds since 1970 by the database's clock.
    pub up_to_us: i64,
    /// Only events up to this one are skipped.
    pub up_to: Position,
    /// After this key.
    pub after: Option<&'a str>,
    /// So many at most.
    pub limit: usize,
    /// What is wanted of them.
    pub action: ParkedAction,
}

impl Consumers {
    /// How many keys a filter finds, and the first of them.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
    /// use anabranch_runtime::{Consumers, ParkedFilter};
    /// let all = Consumers::new(&log).count_parked("order_summary", &ParkedFilter::default()).await?;
    /// println!("{} keys hold back {} events", all.keys, all.events);
    /// # Ok(()) }
    /// ```
    pub async fn count_parked(
        &self,
        consumer: &str,
        filter: &ParkedFilter,
    ) -> Result<ParkedFound, OperateError> {
        self.must_exist(consumer).await?;
        let at_us = self.tables.now_us().await?;
        let meant = Meant { consumer, filter, up_to_us: at_us, up_to: Position::END };
        let (keys, events, up_to) = self.tables.count_parked(meant).await?;
        let mut session = self.tables.database.control();
        let first = self.tables.meant_keys(session.as_mut(), meant, None, NAMED).await?;
        Ok(ParkedFound { keys, events, first, at_us, up_to })
    }

    /// The next keys that are set aside after one, in the order of their names.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
    /// use anabranch_runtime::Consumers;
    /// let page = Consumers::new(&log).parked_page("order_summary", None, 100).await?;
    /// let next = page.last().map(|parked| parked.key.clone());
    /// # let _ = next; Ok(()) }
    /// ```
    pub async fn parked_page(
        &self,
        consumer: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Parked>, OperateError> {
        self.must_exist(consumer).await?;
        let found = self.tables.parked_after(consumer, after, None, limit).await?;
        Ok(found.into_iter().map(Into::into).collect())
    }

    /// One key, if it is set aside.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
    /// use anabranch_runtime::Consumers;
    /// if let Some(parked) = Consumers::new(&log).parked_key("order_summary", "Order:ord-123").await? {
    ///     println!("{}", parked.error);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn parked_key(
        &self,
        consumer: &str,
        key: &str,
    ) -> Result<Option<Parked>, OperateError> {
        self.must_exist(consumer).await?;
        // The empty key is looked for among all; there are few as short.
        let only = Some(key).filter(|key| !key.is_empty());
        let found = self.tables.parked_after(consumer, None, only, 1).await?;
        Ok(found.into_iter().map(Parked::from).find(|parked| parked.key == key))
    }

    /// Asks something of a page of the keys that a filter finds, together with the statements of `then`, which receives
    /// how many keys there were and the last of them. None if there are no more keys; `then` is not called then.
    #[doc(hidden)]
    pub async fn ask_page(
        &self,
        page: &ParkedPage<'_>,
        then: impl Fn(u64, &str) -> Vec<Statement> + Send,
    ) -> Result<Option<(u64, String)>, OperateError> {
        let ParkedPage { consumer, filter, up_to_us, up_to, after, limit, action } = *page;
        let meant = Meant { consumer, filter, up_to_us, up_to };
        let mut session = self.tables.database.control();
        let keys = self.tables.meant_keys(session.as_mut(), meant, after, limit).await?;
        let Some(last) = keys.last() else { return Ok(None) };
        let asked = self.tables.ask_meant(session.as_mut(), meant, &keys, action.asked()).await?;
        let mut statements = then(asked, last);
        statements.push(Statement::signal(Topic::Workers));
        let done = session.run(statements, End::Commit).await;
        done.map_err(|failed| self.tables.error(failed))?;
        Ok(Some((asked, last.clone())))
    }
}
