//! What a consumer may choose beside its name and its partition strategy.

use crate::scope::Scope;
use anabranch_core::Retry;

/// The version of a consumer that says nothing else.
pub(crate) const FIRST_VERSION: u32 = 1;

/// Choices of a consumer. The defaults suit most.
///
/// ```
/// use anabranch_core::{Failure, Retry};
/// use anabranch_runtime::{Scope, Settings};
/// let settings = Settings::default()
///     .scope(Scope::types(["OrderPlaced", "OrderPaid"]).tenants(["acme"]))
///     .retry(Retry::default().attempts(3).then(Failure::Skip))
///     .batch_size(200);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Settings {
    pub(crate) scope: Scope,
    pub(crate) retry: Option<Retry>,
    pub(crate) batch_size: Option<usize>,
    pub(crate) version: u32,
    pub(crate) start: Start,
    pub(crate) code: Option<String>,
    pub(crate) audit: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scope: Scope::all(),
            retry: None,
            batch_size: None,
            version: FIRST_VERSION,
            start: Start::Beginning,
            code: None,
            audit: false,
        }
    }
}

impl Settings {
    /// Only these events.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// How often a failing event is tried, and what happens then. Default: [`Retry::default`] for
    /// projections, views and rollups, whose effects are in the database, and [`Retry::outside`] for
    /// subscribers.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// The most events of one transaction. A batch is as large as what has arrived, up to this:
    /// 1,000 for projections, 100 for subscribers, 16,384 for views.
    pub fn batch_size(mut self, events: usize) -> Self {
        self.batch_size = Some(events.max(1));
        self
    }

    /// The version of the tables that it writes. Default 1. A program with another version than the
    /// stored one is refused; see [`Rebuild`](crate::Rebuild) for the way from one to the next.
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Which code it has: any text that changes with what the handler does, such as a hash of it. Default: nothing is
    /// said about it.
    ///
    /// One code of a consumer is accepted at a time: the first that comes, until
    /// [`Consumers::accept_code`](crate::Consumers::accept_code) says that another one is meant. A worker with another
    /// code runs nothing of the consumer and says so, goes on with its others, and begins when its code is accepted. So
    /// in a rolling deploy no two codes write the same tables. `anabranch run FILE` makes it of what a file says.
    ///
    /// ```
    /// use anabranch_runtime::Settings;
    /// let settings = Settings::default().code("totals in cents, 2");
    /// # drop(settings);
    /// ```
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Audits it: each commit also records what its handler received, so that `anabranch audit` can prove that it was
    /// every event once and in order ([`Consumers::audit`](crate::Consumers::audit)). Default: `false`, which leaves
    /// an audit as it is that somebody has [started](crate::Consumers::start_audit).
    ///
    /// ```
    /// use anabranch_runtime::Settings;
    /// let settings = Settings::default().audit(true);
    /// # drop(settings);
    /// ```
    pub fn audit(mut self, audit: bool) -> Self {
        self.audit = audit;
        self
    }

    /// Where it begins the first time that it runs. Default: with the first event of the log.
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }
}

/// Where a new consumer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the first event that the log has. Where earlier ones were deleted, the worker says so once.
    Beginning,
    /// With what is appended from now on.
    Head,
}
