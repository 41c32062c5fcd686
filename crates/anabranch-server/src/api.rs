//! Settings of the API, and the router that is made of them.

use crate::access::Access;
use crate::body::BodyLimit;
use crate::console::Console;
use crate::enqueue::{RunPools, WAITS};
use crate::folds::Folds;
use crate::gate::finish::finish;
use crate::gate::gate;
use crate::live::Lookout;
use crate::operations::{Applying, take_up};
use crate::problem::Problem;
use crate::routes::{self, Room, Route};
use crate::state::{Settings, Shared, State};
use crate::tail::{Hub, TailLimits, Tails};
use anabranch::Log;
use anabranch::errors::ErrorCode;
use anabranch::operate::Consumers;
use anabranch::watch::Watch;
use anabranch::workflow::{Workflow, Workflows};
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::{Extension, Router};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The API of a log as a router for your own program, mounted under any path. Callers need a
/// token.
///
/// ```
/// # async fn f(log: anabranch::Log) {
/// let app: axum::Router = axum::Router::new().nest("/events", anabranch_server::router(&log));
/// # }
/// ```
pub fn router(log: &Log) -> Router {
    Api::new(log).router()
}

/// The API of a log, with its settings.
///
/// ```
/// # async fn f(log: anabranch::Log) {
/// use anabranch_server::Api;
/// let api = Api::new(&log).host("events.example.com").mounted_at("/events");
/// let app: axum::Router = axum::Router::new().nest("/events", api.router());
/// # }
/// ```
#[must_use]
pub struct Api {
    log: Log,
    watch: Option<Watch>,
    settings: Settings,
    tails: Tails,
    tail_limits: TailLimits,
    folds: Folds,
    /// How many connections the server has, if that is known.
    connections: Option<usize>,
}

impl Api {
    /// The API of a log. Callers need a token.
    pub fn new(log: &Log) -> Self {
        Self {
            log: log.clone(),
            watch: None,
            settings: Settings::default(),
            tails: Tails::default(),
            tail_limits: TailLimits::default(),
            folds: Folds::default(),
            connections: None,
        }
    }

    /// Anybody may do anything until the first token is made: for a server that only this machine reaches.
    pub fn open_until_first_token(mut self) -> Self {
        self.settings.is_open = true;
        self
    }

    /// Whether `/metrics` is open to callers without a token. Not by default.
    pub fn open_metrics(mut self, is_open: bool) -> Self {
        self.settings.shows_metrics = is_open;
        self
    }

    /// With `/metrics`, `/livez` and `/readyz` of what is watched.
    pub fn watch(mut self, watch: Watch) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Answers for this name as well. Addresses in numbers and `localhost` need not be named; other names are refused,
    /// since a page of another site could reach the server by one (DNS rebinding).
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.settings.hosts.insert(name.into().to_ascii_lowercase());
        self
    }

    /// Where the router is mounted: the path of browser cookies, and where the console finds its parts. `/` by default.
    /// The console is at that path without a slash at its end, as axum nests routers.
    pub fn mounted_at(mut self, path: impl Into<String>) -> Self {
        self.settings.mount = path.into();
        self
    }

    /// Whether it serves the console, at `/` and below `/console/`. It does by default; leave it out where only the API is
    /// wanted, or where a page of your own is at the root that the router is merged into.
    pub fn console(mut self, has_console: bool) -> Self {
        self.settings.has_console = has_console;
        self
    }

    /// Browsers reach it by `https` only: its cookies are not sent otherwise.
    pub fn encrypted(mut self) -> Self {
        self.settings.is_encrypted = true;
        self
    }

    /// How many bytes the body of an append may have; 8 MiB by default.
    pub fn append_limit(mut self, bytes: usize) -> Self {
        self.settings.append_bytes = bytes;
        self
    }

    /// How long a request may take, except those that wait for something; 30 seconds by default.
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.settings.time = time;
        self
    }

    /// With a handle to its tails.
    pub fn tails(mut self, tails: &Tails) -> Self {
        self.tails = tails.clone();
        self
    }

    /// The limits of its tails and live streams.
    pub fn tail_limits(mut self, limits: TailLimits) -> Self {
        self.tail_limits = limits;
        self
    }

    /// With the code of a workflow of this log: the states of its instances are folded from their events. Of workflows
    /// whose code is not here only the snapshots are shown that a program with the code has kept.
    ///
    /// ```
    /// # use anabranch::workflow::{Workflow, Workflows};
    /// # fn f<W: Workflow>(log: anabranch::Log, orders: W) {
    /// use anabranch_server::Api;
    /// let api = Api::new(&log).workflow(Workflows::new(&log, orders));
    /// # }
    /// ```
    pub fn workflow<W: Workflow>(mut self, workflows: Workflows<W>) -> Self {
        self.folds.add(workflows);
        self
    }

    /// How many connections the server has. Tails then take at most half of them, live streams a quarter, and requests that
    /// wait for a task an eighth, whatever their own limits are: of eight connections or more some are left for others,
    /// such as probes.
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = Some(count);
        self
    }

    /// The router. While it is there, it goes on with plans that a server has begun to carry out and left.
    ///
    /// # Panics
    /// Outside a tokio runtime, which runs what goes on behind it.
    pub fn router(self) -> Router {
        let consumers = Consumers::new(&self.log);
        let Self { log, watch, settings, tails, mut tail_limits, folds, connections } = self;
        let mut waits = WAITS;
        if let Some(connections) = connections {
            // With a single connection, even a tail gets it.
            tail_limits.tails = tail_limits.tails.min((connections / 2).max(1));
            tail_limits.live = tail_limits.live.min((connections / 4).max(1));
            waits = waits.min((connections / 8).max(1));
        }
        let hub = Arc::new(Hub::new(&log, tail_limits, &tails));
        let (waits, applying) = (Semaphore::new(waits), Applying::new());
        let access = Access::new(&log);
        let console = settings.has_console.then(|| Console::new(&settings.mount));
        let state: Shared = Arc::new(State {
            log,
            consumers,
            access,
            watch,
            settings,
            hub,
            waits,
            applying,
            run_pools: RunPools::default(),
            folds,
            comparing: Arc::new(Semaphore::new(1)),
            console,
        });
        tokio::spawn(take_up(Arc::downgrade(&state)));
        let (mut all, mut watched, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        for route in routes::all() {
            if route.is_watched {
                paths.push(route.path);
                watched.push(route);
            } else if !route.is_page || state.settings.has_console {
                all.push(route);
            }
        }
        let watched = with_gates(watched, &state);
        // Live streams look through a router of their own, which leads to nothing but what can be watched.
        let looks = watched.clone().layer(from_fn(finish)).with_state(Arc::clone(&state));
        let lookout = Arc::new(Lookout::new(looks, paths, tail_limits, &tails));
        let router = with_gates(all, &state).merge(watched).layer(Extension(lookout));
        let router = router.fallback(no_such_route).method_not_allowed_fallback(no_such_method);
        router.layer(from_fn(finish)).with_state(state)
    }
}

/// Routes, each behind its gate.
fn with_gates(routes: Vec<Route>, state: &Shared) -> Router<Shared> {
    routes.into_iter().fold(Router::new(), |router, route| {
        let bytes = match route.rules.room {
            Room::Usual => state.settings.body_bytes,
            Room::Append => state.settings.append_bytes,
        };
        let pass = from_fn_with_state((Arc::clone(state), route.rules), gate);
        let handler = route.handler.route_layer(DefaultBodyLimit::max(bytes));
        let handler = handler.route_layer(Extension(BodyLimit(bytes))).route_layer(pass);
        router.route(route.path, handler)
    })
}

async fn no_such_route(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    let said = format!("there is no {}; /v1/openapi.json lists all there is", path.escape_debug());
    Problem::new(ErrorCode::NoSuchRoute, said)
}

async fn no_such_method(method: Method) -> Problem {
    let said =
        format!("this address has no method {method}; the header `allow` names those it has");
    Problem::new(ErrorCode::MethodNotAllowed, said)
}
