//! Which events are asked for, and which of these the caller may see.

use crate::caller::Caller;
use anabranch::{Event, Query};

/// Which events are wanted: those that match the query and have one of the categories and one of the tenants, if any are
/// named, and that the caller may see.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) query: Query,
    pub(crate) categories: Vec<String>,
    pub(crate) tenants: Vec<String>,
    /// The caller, who may be limited to tenants.
    pub(crate) caller: Caller,
}

impl Wanted {
    /// Whether an event is wanted.
    pub(crate) fn passes(&self, event: &Event) -> bool {
        self.passes_beside_query(event) && self.query.matches(event.event_type(), event.tags())
    }

    /// The same for an event that was read by the query.
    pub(crate) fn passes_beside_query(&self, event: &Event) -> bool {
        let one_of = |names: &[String], name: &str| names.iter().any(|wanted| wanted == name);
        let tenant = event.tenant();
        (self.categories.is_empty() || one_of(&self.categories, event.category()))
            && (self.tenants.is_empty() || tenant.is_some_and(|name| one_of(&self.tenants, name)))
            && self.caller.sees_tenant(tenant)
    }
}
