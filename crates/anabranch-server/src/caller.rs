//! Who is calling, and what they may do.

use crate::problem::Problem;
use crate::scope::Scope;
use anabranch::Timestamp;
use anabranch::errors::ErrorCode;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The caller. A handler takes it as an argument; the gate has identified them and checked that they have the scope of
/// the route.
#[derive(Clone, Debug)]
pub struct Caller(pub(crate) Arc<Known>);

/// What is known about a caller.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// The name of the token, or what stands for it while the server is open.
    pub(crate) name: String,
    /// The id of the token; none while the server is open.
    pub(crate) token: Option<String>,
    pub(crate) scopes: Vec<Scope>,
    /// The only consumers that exist for this caller; none: all.
    pub(crate) consumers: Option<BTreeSet<String>>,
    /// The only tenants; none: all, and what has no tenant.
    pub(crate) tenants: Option<BTreeSet<String>>,
    /// When their token expires, if it does.
    pub(crate) until: Option<Timestamp>,
}

impl Caller {
    /// A caller who may do anything: the server is open.
    pub(crate) fn anybody() -> Self {
        Self(Arc::new(Known {
            name: "anybody on this machine".to_owned(),
            token: None,
            scopes: vec![Scope::Read, Scope::Operate, Scope::Append],
            consumers: None,
            tenants: None,
            until: None,
        }))
    }

    /// The name of their token, which is what is written down about who did something.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether they have a token, or a session that was begun with one.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.0.token.is_some()
    }

    /// Whether they have a scope.
    #[must_use]
    pub fn may(&self, needed: Scope) -> bool {
        self.0.scopes.iter().any(|scope| scope.includes(needed))
    }

    /// Refuses callers who do not have a scope.
    pub fn require(&self, needed: Scope) -> Result<(), Problem> {
        if self.may(needed) {
            return Ok(());
        }
        let has = self.0.scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(", ");
        let said = format!("this takes the scope `{needed}`, and the token has {has}");
        Err(Problem::new(ErrorCode::NotAllowed, said).with("needed", needed))
    }

    /// Whether bodies of events, payloads and results are hidden from them.
    #[must_use]
    pub fn is_masked(&self) -> bool {
        !self.may(Scope::Read)
    }

    /// The only consumers that exist for them, if they are limited to some.
    #[must_use]
    pub fn consumers(&self) -> Option<&BTreeSet<String>> {
        self.0.consumers.as_ref()
    }

    /// The only tenants whose events exist for them, if they are limited to some. Events without a tenant do not exist for
    /// them either then.
    #[must_use]
    pub fn tenants(&self) -> Option<&BTreeSet<String>> {
        self.0.tenants.as_ref()
    }

    /// Whether a consumer exists for them.
    #[must_use]
    pub fn sees_consumer(&self, name: &str) -> bool {
        self.consumers().is_none_or(|only| only.contains(name))
    }

    /// Whether events of a tenant, or without one, exist for them.
    #[must_use]
    pub fn sees_tenant(&self, tenant: Option<&str>) -> bool {
        self.tenants().is_none_or(|only| tenant.is_some_and(|tenant| only.contains(tenant)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let known = parts.extensions.get::<Self>().cloned();
        known.ok_or_else(|| Problem::new(ErrorCode::ServerPanicked, "a route without a gate"))
    }
}
