//! The one table of routes: what there is, who may use it, and what it takes.
//!
//! Whatever the table does not mention is refused: an unknown parameter, or a token whose limits the handler does not
//! enforce.

use crate::scope::Scope;
use crate::state::Shared;
use crate::{
    console, enqueue, events, health, live, openapi, operations, resources, sessions, tail, tokens,
};
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};

/// The whole table.
pub(crate) fn all() -> Vec<Route> {
    let mut all = Vec::new();
    all.extend(console::routes());
    all.extend(openapi::routes());
    all.extend(health::routes());
    all.extend(resources::routes());
    all.extend(events::routes());
    all.extend(tail::routes());
    all.extend(live::routes());
    all.extend(enqueue::routes());
    all.extend(operations::routes());
    all.extend(sessions::routes());
    all.extend(tokens::routes());
    all
}

/// What a caller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing at all.
    Nothing,
    /// Nothing where metrics are open, else the scope `read-masked`.
    Metrics,
    /// Any token.
    Token,
    /// A token with the scope.
    Scope(Scope),
}

/// How large a body may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Usual,
    Append,
}

/// A method of a path.
pub(crate) struct Route {
    /// In capitals: the description is compared with it.
    #[cfg_attr(not(test), expect(dead_code, reason = "the handler knows its method"))]
    pub(crate) method: &'static str,
    /// As axum takes it: `/v1/consumers/{name}`.
    pub(crate) path: &'static str,
    pub(crate) handler: MethodRouter<Shared>,
    pub(crate) rules: Rules,
    /// Whether it is a file of the console and no part of the API: the description leaves it out.
    pub(crate) is_page: bool,
    /// Whether a live stream may watch it.
    pub(crate) is_watched: bool,
}

/// What the gate checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) needs: Needs,
    /// The parameters of the query.
    pub(crate) params: &'static [&'static str],
    /// Whether the handler enforces the limits of a token that is limited to consumers.
    pub(crate) keeps_consumers: bool,
    /// Whether the handler enforces the limits of a token that is limited to tenants.
    pub(crate) keeps_tenants: bool,
    /// Whether it may take longer than others, because it waits for something or never ends.
    pub(crate) is_long: bool,
    /// Whether it is for probes, which know no host name and send no token. This matters on servers that other machines
    /// can reach.
    pub(crate) is_probe: bool,
    pub(crate) room: Room,
}

impl Route {
    fn new<H, T>(
        method: &'static str,
        filter: MethodFilter,
        path: &'static str,
        needs: Needs,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        let rules = Rules {
            needs,
            params: &[],
            keeps_consumers: false,
            keeps_tenants: false,
            is_long: false,
            is_probe: false,
            room: Room::Usual,
        };
        let handler = on(filter, handler);
        Self { method, path, handler, rules, is_page: false, is_watched: false }
    }

    /// A route that reads.
    pub(crate) fn get<H, T>(path: &'static str, needs: Needs, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        Self::new("GET", MethodFilter::GET, path, needs, handler)
    }

    /// A route that changes something, or reads by what its body says.
    pub(crate) fn post<H, T>(path: &'static str, needs: Needs, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        Self::new("POST", MethodFilter::POST, path, needs, handler)
    }

    /// A route that takes something away.
    pub(crate) fn delete<H, T>(path: &'static str, needs: Needs, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        Self::new("DELETE", MethodFilter::DELETE, path, needs, handler)
    }

    /// With these parameters in its query.
    pub(crate) fn takes(mut self, params: &'static [&'static str]) -> Self {
        self.rules.params = params;
        self
    }

    /// Its handler enforces limits to consumers.
    pub(crate) fn keeps_consumers(mut self) -> Self {
        self.rules.keeps_consumers = true;
        self
    }

    /// Its handler enforces limits to tenants.
    pub(crate) fn keeps_tenants(mut self) -> Self {
        self.rules.keeps_tenants = true;
        self
    }

    /// It waits for something, or never ends.
    pub(crate) fn long(mut self) -> Self {
        self.rules.is_long = true;
        self
    }

    /// It is a file of the console.
    pub(crate) fn page(mut self) -> Self {
        self.is_page = true;
        self
    }

    /// A live stream may watch it: its answer follows from its address and from what its caller may see.
    pub(crate) fn watched(mut self) -> Self {
        self.is_watched = true;
        self
    }

    /// It is for probes.
    pub(crate) fn for_probes(mut self) -> Self {
        self.rules.is_probe = true;
        self
    }

    /// Its body may be as large as an append may be.
    pub(crate) fn with_room(mut self) -> Self {
        self.rules.room = Room::Append;
        self
    }
}
