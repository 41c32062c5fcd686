//! Which log a command works on.

use anabranch::operate::Consumers;
use anabranch::{HashRule, Log, Namespace, Options, StoreError};
use anabranch_terminal::say;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

const URL: &str = "ANABRANCH_URL";
const EVENTS_URL: &str = "ANABRANCH_EVENTS_URL";
const DEFAULT_URL: &str = "sqlite:anabranch.db";

/// The log.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// The database: sqlite:FILE, sqlite::memory: or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(
        long,
        env = URL,
        hide_env_values = true,
        default_value = DEFAULT_URL,
        hide_default_value = false
    )]
    pub(crate) url: String,

    /// Which log in it: a schema of PostgreSQL, a prefix of SQLite's tables
    #[arg(long, env = "ANABRANCH_NAMESPACE", default_value = "anabranch", value_parser = namespace)]
    pub(crate) namespace: Namespace,

    /// The database that its events are in, if that is another than the consumers'; --url is the consumers' then
    #[arg(long, env = EVENTS_URL, hide_env_values = true)]
    pub(crate) events_url: Option<String>,
}

/// The log, for a command that may do without one.
#[derive(Args, Clone, Debug)]
pub(crate) struct MaybeTarget {
    /// The database, as for the other commands
    #[arg(long)]
    pub(crate) url: Option<String>,

    /// Which log in it
    #[arg(long, env = "ANABRANCH_NAMESPACE", default_value = "anabranch", value_parser = namespace)]
    pub(crate) namespace: Namespace,
}

impl MaybeTarget {
    /// The log that is named, or the one that other commands would work on.
    pub(crate) fn or_default(&self) -> Target {
        let url = self.url.clone().or_else(|| std::env::var(URL).ok());
        let url = url.unwrap_or_else(|| {
            say_if_others_are_named();
            DEFAULT_URL.to_owned()
        });
        let events_url = std::env::var(EVENTS_URL).ok();
        Target { url, namespace: self.namespace.clone(), events_url }
    }
}

impl Target {
    /// Connects; the log is created, or brought up to date.
    pub(crate) async fn create(&self, hash_rule: Option<HashRule>) -> Result<Log, StoreError> {
        let namespace = self.namespace.clone();
        let options = Options { namespace, hash_rule, ..Options::default() };
        anabranch::connect_with(&self.url, &options).await
    }

    /// The same for events, which may be elsewhere than their consumers.
    pub(crate) async fn create_for_events(&self) -> Result<Log, StoreError> {
        let url = self.events_url.clone().unwrap_or_else(|| self.url.clone());
        Self { url, ..self.clone() }.create(None).await
    }

    /// Connects to the log as it is; it must be there. Who looks at a log or operates it does not
    /// upgrade it: the workers that run may be older than this program.
    pub(crate) async fn connect(&self) -> Result<Log, StoreError> {
        let namespace = self.namespace.clone();
        let options = Options { namespace, migrate: false, take_older: true, ..Options::default() };
        let home = anabranch::connect_with(&self.url, &options).await?;
        match &self.events_url {
            None => Ok(home),
            Some(url) => anabranch::connect_with(url, &options).await?.with_database(&home).await,
        }
    }

    /// The consumers of the log as it is; it must be there.
    pub(crate) async fn consumers(&self) -> Result<Consumers, StoreError> {
        Ok(Consumers::new(&self.connect().await?))
    }
}

/// Many programs read their database from `DATABASE_URL`, and this one does not: who has set it is told, if this command
/// takes the default because nothing else is named.
pub(crate) fn say_what_is_not_read(mut matches: &ArgMatches) {
    while let Some((_, of_subcommand)) = matches.subcommand() {
        matches = of_subcommand;
    }
    let has_url = matches.ids().any(|id| id == "url");
    if has_url && matches.value_source("url") == Some(ValueSource::DefaultValue) {
        say_if_others_are_named();
    }
}

/// Not its value: that may hold a password.
fn say_if_others_are_named() {
    if std::env::var_os("DATABASE_URL").is_some() {
        say!(
            "note: DATABASE_URL is not read; this is {DEFAULT_URL}. Name another by --url or {URL}"
        );
    }
}

fn namespace(name: &str) -> Result<Namespace, String> {
    Namespace::new(name).map_err(|error| error.problem.to_string())
}
