//! Which events somebody asks for, and which of them they may see.

use anabranch::{Event, Query};
use std::sync::Arc;

/// Which events are wanted: those that match the query and have one of the categories and one of the tenants, if any are
/// named, and that the caller may see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) query: Query,
    pub(crate) categories: Vec<String>,
    pub(crate) tenants: Vec<String>,
    /// The only tenants whose events the caller may see, if it is limited. Events without a tenant are nobody's then.
    pub(crate) allowed: Option<Arc<[String]>>,
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
            && self.may_see(event)
    }

    /// Whether the caller may see it.
    pub(crate) fn may_see(&self, event: &Event) -> bool {
        let Some(allowed) = &self.allowed else { return true };
        event.tenant().is_some_and(|name| allowed.iter().any(|one| one == name))
    }
}
