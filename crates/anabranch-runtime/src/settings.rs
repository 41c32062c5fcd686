//! What a consumer may choose beside its name and its partition strategy.

use anabranch_core::{Query, Retry};
use anabranch_store::Filter;

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
    pub(crate) retry: Retry,
    pub(crate) batch_size: Option<usize>,
    pub(crate) version: u32,
    pub(crate) start: Start,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scope: Scope::all(),
            retry: Retry::default(),
            batch_size: None,
            version: 1,
            start: Start::Beginning,
        }
    }
}

impl Settings {
    /// Only these events.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// How often a failing event is tried, and what happens then.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
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

/// Which events a consumer handles: those that pass every filter that is set. The database applies
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Scope {
    query: Query,
    categories: Vec<String>,
    tenants: Vec<String>,
}

impl Scope {
    /// Every event.
    pub fn all() -> Self {
        Self::default()
    }

    /// Events of one of these types.
    pub fn types<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        Self { query: Query::types(types), ..Self::default() }
    }

    /// Events that match a query by type and tag.
    pub fn matching(query: Query) -> Self {
        Self { query, ..Self::default() }
    }

    /// And only those that have all of these tags.
    pub fn tagged<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.query = self.query.tagged(tags);
        self
    }

    /// And only those of streams of one of these categories.
    pub fn categories<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.categories = names.into_iter().map(Into::into).collect();
        self
    }

    /// And only those of one of these tenants.
    pub fn tenants<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.tenants = names.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) fn query(&self) -> &Query {
        &self.query
    }

    /// The filter, narrowed to the category that the partition strategy names.
    pub(crate) fn filter(&self, category: Option<&str>) -> Filter {
        let categories = match category {
            Some(category) => vec![category.to_owned()],
            None => self.categories.clone(),
        };
        Filter { categories, tenants: self.tenants.clone(), slots: None }
    }

    /// Whether the strategy's category is one of those that are asked for.
    pub(crate) fn allows(&self, category: &str) -> bool {
        self.categories.is_empty() || self.categories.iter().any(|name| name == category)
    }
}
