//! Scope keys: the name of a dynamic consistency boundary.

use crate::error::{InputError, InputProblem};
use crate::limits::{MAX_NAME_BYTES, check_name};
use crate::{NewEvent, Query};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The name of a consistency boundary: `tenant:T:type:id`. Decisions on one scope are serialised;
/// decisions on different scopes have nothing to do with each other.
///
/// ```
/// use anabranch_core::ScopeKey;
/// let scope = ScopeKey::new("acme", "reservation", "res-456")?;
/// assert_eq!(scope.to_string(), "tenant:acme:reservation:res-456");
/// assert_eq!("tenant:acme:reservation:res-456".parse::<ScopeKey>()?, scope);
/// assert_eq!(scope.partition_key(), "dcb:tenant:acme:reservation:res-456");
/// # Ok::<(), anabranch_core::InputError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScopeKey {
    tenant: String,
    kind: String,
    id: String,
}

impl ScopeKey {
    /// The scope of one thing of a tenant. The tenant and the type hold no `:`, which separates them.
    pub fn new(
        tenant: impl Into<String>,
        kind: impl Into<String>,
        id: impl Into<String>,
    ) -> Result<Self, InputError> {
        let scope = Self { tenant: tenant.into(), kind: kind.into(), id: id.into() };
        let whose =
            |part: &str| format!("{part} of scope key `{}`", scope.to_string().escape_debug());
        for (part, name) in [("tenant", &scope.tenant), ("type", &scope.kind), ("id", &scope.id)] {
            check_name(name, MAX_NAME_BYTES, || whose(part))?;
            if part != "id" && name.contains(':') {
                return Err(InputError { subject: whose(part), problem: InputProblem::Colon });
            }
        }
        check_name(&scope.partition_key(), MAX_NAME_BYTES, || "scope key".to_owned())?;
        Ok(scope)
    }

    /// The tenant.
    #[must_use]
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The type of the thing.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The id of the thing.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The key of its events for a consumer that is partitioned by
    /// [`Partition::dcb`](crate::Partition::dcb).
    #[must_use]
    pub fn partition_key(&self) -> String {
        format!("dcb:{self}")
    }

    /// The tags of its events: `tenant:T` and `type:id`.
    #[must_use]
    pub fn tags(&self) -> [String; 2] {
        [format!("tenant:{}", self.tenant), format!("{}:{}", self.kind, self.id)]
    }

    /// The events of the scope: those that have its tags. The one that few events have comes first, since that is the one
    /// which is looked up and locked (see [`QueryItem::leading_tag`](crate::QueryItem::leading_tag)).
    #[must_use]
    pub fn query(&self) -> Query {
        let [tenant, own] = self.tags();
        Query::tags([own, tenant])
    }

    /// Makes an event one of the scope: with its tenant and its tags.
    #[must_use]
    pub fn mark(&self, event: NewEvent) -> NewEvent {
        event.with_tenant(&self.tenant).with_tags(self.tags())
    }
}

impl fmt::Display for ScopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tenant:{}:{}:{}", self.tenant, self.kind, self.id)
    }
}

impl FromStr for ScopeKey {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let mut parts = text.splitn(4, ':');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("tenant"), Some(tenant), Some(kind), Some(id)) => Self::new(tenant, kind, id),
            _ => {
                let subject = format!("scope key `{}`", text.escape_debug());
                Err(InputError { subject, problem: InputProblem::NotScopeKey })
            }
        }
    }
}

impl TryFrom<String> for ScopeKey {
    type Error = InputError;

    fn try_from(text: String) -> Result<Self, InputError> {
        text.parse()
    }
}

impl From<ScopeKey> for String {
    fn from(scope: ScopeKey) -> Self {
        scope.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tenant has many events, and all its decisions would wait for each other.
    #[test]
    fn its_query_is_led_by_the_tag_that_few_events_have() {
        let scope: ScopeKey = "tenant:acme:reservation:res-456".parse().unwrap();
        assert_eq!(scope.query().items()[0].leading_tag(), Some("reservation:res-456"));
    }

    #[test]
    fn what_is_no_scope_key_is_refused_by_name() {
        let refused = |text: &str| text.parse::<ScopeKey>().unwrap_err().to_string();
        for text in ["", "tenant:acme", "tenant:acme:seat", "acme:seat:12a", "Tenant:acme:seat:12a"]
        {
            let message = refused(text);
            assert!(message.contains("tenant:T:type:id") && message.contains(text), "{message}");
        }
        assert!(refused("tenant::seat:12a").starts_with("tenant of scope key"));
        assert!(refused("tenant:acme::12a").starts_with("type of scope key"));
        assert!(refused("tenant:acme:seat:").starts_with("id of scope key"));
        assert!(refused("tenant:acme:seat:1\n2").contains("id of scope key"));
        let error = ScopeKey::new("a:b", "seat", "1").unwrap_err();
        assert_eq!(error.problem, InputProblem::Colon);
        let long = "x".repeat(MAX_NAME_BYTES - 5);
        assert!(ScopeKey::new("acme", "seat", long).is_err());
    }

    #[test]
    fn an_event_of_the_scope_has_its_partition_key() {
        let scope = ScopeKey::new("acme", "reservation", "res:456").unwrap();
        let event = scope.mark(NewEvent::new("Reserved", ()));
        assert_eq!(event.tags(), ["tenant:acme", "reservation:res:456"]);
        assert_eq!(event.tenant(), Some("acme"));
        assert!(scope.query().matches("Reserved", event.tags().iter().map(String::as_str)));
        let json = serde_json::to_string(&scope).unwrap();
        assert_eq!(serde_json::from_str::<ScopeKey>(&json).unwrap(), scope);
        assert!(serde_json::from_str::<ScopeKey>("\"tenant:acme\"").is_err());
    }

    proptest! {
        #[test]
        fn a_scope_key_comes_back_from_its_text(
            tenant in "[^:\\pC]{1,20}", kind in "[^:\\pC]{1,20}", id in "[^\\pC]{1,40}",
        ) {
            let scope = ScopeKey::new(tenant, kind, id).unwrap();
            prop_assert_eq!(scope.to_string().parse::<ScopeKey>().unwrap(), scope);
        }
    }
}
