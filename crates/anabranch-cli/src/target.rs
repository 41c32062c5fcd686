//! Which log a command works on.

use anabranch::{HashRule, Log, Namespace, Options, StoreError};
use clap::Args;

/// The log.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// The database: sqlite:FILE, sqlite::memory: or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(
        long,
        env = "ANABRANCH_URL",
        hide_env_values = true,
        default_value = "sqlite:anabranch.db",
        hide_default_value = false
    )]
    pub(crate) url: String,

    /// Which log in it: a schema of PostgreSQL, a prefix of SQLite's tables
    #[arg(long, env = "ANABRANCH_NAMESPACE", default_value = "anabranch", value_parser = namespace)]
    pub(crate) namespace: Namespace,
}

impl Target {
    /// Connects; the log must be there, or is created, as `migrate` says.
    pub(crate) async fn connect(
        &self,
        migrate: bool,
        hash_rule: Option<HashRule>,
    ) -> Result<Log, StoreError> {
        let namespace = self.namespace.clone();
        let options = Options { namespace, migrate, hash_rule, ..Options::default() };
        anabranch::connect_with(&self.url, &options).await
    }
}

fn namespace(name: &str) -> Result<Namespace, String> {
    Namespace::new(name).map_err(|error| error.problem.to_string())
}
