//! Which events are asked for, and which of these the caller may see.

use crate::caller::Caller;
use anabranch::{Event, Query};

/// Which events are wanted: those that match the query and have one of the categories and one of the tenants, if any are
/// named, that belong together as it is asked for, and that the caller may see.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) query: Query,
    pub(crate) categories: Vec<String>,
    pub(crate) tenants: Vec<String>,
    /// Only events with this causation.
    pub(crate) causation: Option<String>,
    /// Only events with this correlation.
    pub(crate) correlation: Option<String>,
    /// The caller, who may be limited to tenants.
    pub(crate) caller: Caller,
}

impl Wanted {
    /// All events that a caller may see.
    pub(crate) fn all(caller: Caller) -> Self {
        let (query, categories, tenants) = (Query::all(), Vec::new(), Vec::new());
        Self { query, categories, tenants, causation: None, correlation: None, caller }
    }

    /// Whether an event is wanted.
    pub(crate) fn passes(&self, event: &Event) -> bool {
        self.passes_beside_query(event) && self.query.matches(event.event_type(), event.tags())
    }

    /// The same for an event that was read by the query.
    pub(crate) fn passes_beside_query(&self, event: &Event) -> bool {
        let one_of = |names: &[String], name: &str| names.iter().any(|wanted| wanted == name);
        let is =
            |wanted: &Option<String>, is: Option<&str>| wanted.is_none() || wanted.as_deref() == is;
        let tenant = event.tenant();
        (self.categories.is_empty() || one_of(&self.categories, event.category()))
            && is(&self.causation, event.causation())
            && is(&self.correlation, event.correlation())
            && (self.tenants.is_empty() || tenant.is_some_and(|name| one_of(&self.tenants, name)))
            && self.caller.sees_tenant(tenant)
    }
}
