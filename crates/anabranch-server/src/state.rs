//! What all requests share.

use crate::access::Access;
use crate::console::Console;
use crate::enqueue::RunPools;
use crate::folds::Folds;
use crate::operations::Applying;
use crate::tail::Hub;
use anabranch::Log;
use anabranch::operate::Consumers;
use anabranch::watch::Watch;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// What handlers get as `State<Shared>`.
pub(crate) type Shared = Arc<State>;

pub(crate) struct State {
    pub(crate) log: Log,
    pub(crate) consumers: Consumers,
    pub(crate) access: Access,
    pub(crate) watch: Option<Watch>,
    pub(crate) settings: Settings,
    /// All tails.
    pub(crate) hub: Arc<Hub>,
    /// Places for requests that wait for a task.
    pub(crate) waits: Semaphore,
    /// Plans that are carried out here step by step.
    pub(crate) applying: Arc<Applying>,
    /// Pools that workers have run.
    pub(crate) run_pools: RunPools,
    /// Workflows whose code is here.
    pub(crate) folds: Folds,
    /// The turn at comparing tables, which reads all of their rows.
    pub(crate) comparing: Arc<Semaphore>,
    /// The files for browsers, unless they are left out.
    pub(crate) console: Option<Console>,
}

/// What [`Api`](crate::Api) sets.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Whether anybody may do anything until the first token is made.
    pub(crate) is_open: bool,
    /// Whether `/metrics` needs no token.
    pub(crate) shows_metrics: bool,
    /// Whether cookies are for encrypted connections only.
    pub(crate) is_encrypted: bool,
    /// Whether it serves the console.
    pub(crate) has_console: bool,
    /// Where the router is mounted: the path of cookies, and where the console finds its parts.
    pub(crate) mount: String,
    /// Host names that it serves, besides IP addresses and `localhost`.
    pub(crate) hosts: BTreeSet<String>,
    /// How many bytes the body of a request may have.
    pub(crate) body_bytes: usize,
    /// The same for appends.
    pub(crate) append_bytes: usize,
    /// How long a request may take.
    pub(crate) time: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            is_open: false,
            shows_metrics: false,
            is_encrypted: false,
            has_console: true,
            mount: "/".to_owned(),
            hosts: BTreeSet::new(),
            body_bytes: 1024 * 1024,
            append_bytes: 8 * 1024 * 1024,
            time: Duration::from_secs(30),
        }
    }
}
