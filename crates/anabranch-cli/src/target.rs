//! Which log a command works on.

use crate::refusal::{Refusal, refuse};
use anabranch::errors::ErrorCode;
use anabranch::operate::Consumers;
use anabranch::{HashRule, Log, Namespace, Options, StoreError};
use anabranch_terminal::say;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use std::sync::LazyLock;

const URL: &str = "ANABRANCH_URL";
/// Where many programs find their database.
const THEIR_URL: &str = "DATABASE_URL";
/// What the URLs of databases that we know begin with.
const SCHEMES: [&str; 3] = ["sqlite", "postgres", "postgresql"];
const EVENTS_URL: &str = "ANABRANCH_EVENTS_URL";
const DEFAULT_URL: &str = "sqlite:anabranch.db";

/// The log.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// The database: sqlite:FILE, sqlite::memory: or postgres://USER:PASSWORD@HOST/DATABASE [default: what
    /// DATABASE_URL says, else sqlite:anabranch.db]
    // The default is hidden: it may be a URL with a password.
    #[arg(
        long,
        env = URL,
        hide_env_values = true,
        default_value = default_url(),
        hide_default_value = true
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
    pub(crate) fn or_default(&self) -> anyhow::Result<Target> {
        let url = match &self.url {
            Some(url) => url.clone(),
            None => match from_environment() {
                Some((variable, url)) => known(variable, url)?,
                None => DEFAULT_URL.to_owned(),
            },
        };
        let events_url = std::env::var(EVENTS_URL).ok();
        Ok(Target { url, namespace: self.namespace.clone(), events_url })
    }
}

impl Target {
    /// The log of a file: what the file or the command names, else what other commands would work on.
    pub(crate) fn for_file(
        url: Option<String>,
        namespace: Option<Namespace>,
        events_url: Option<String>,
    ) -> anyhow::Result<Self> {
        let named = std::env::var("ANABRANCH_NAMESPACE").ok().map(|name| self::namespace(&name));
        let named = named.transpose().map_err(|error| {
            Refusal::new(ErrorCode::InvalidArguments, format!("ANABRANCH_NAMESPACE: {error}"))
        })?;
        let namespace = namespace.or(named).unwrap_or_default();
        let Self { url, events_url: other, .. } =
            MaybeTarget { url, namespace: namespace.clone() }.or_default()?;
        Ok(Self { url, namespace, events_url: events_url.or(other) })
    }

    /// Connects for running consumers: the log is created or brought up to date, and that of the events as well, if
    /// it is another.
    pub(crate) async fn create_for_consumers(&self) -> Result<Log, StoreError> {
        let home = self.create(None).await?;
        match &self.events_url {
            None => Ok(home),
            Some(_) => self.create_for_events().await?.with_database(&home).await,
        }
    }

    /// Connects to look at a file's statements: nothing is created. A file of SQLite that is not there is checked as
    /// an empty one; says whether that is so.
    pub(crate) async fn connect_to_check(&self) -> Result<(Log, bool), StoreError> {
        let is_missing = |error: &StoreError| {
            [ErrorCode::NoSuchLog, ErrorCode::CannotOpen].contains(&error.code())
        };
        match self.connect().await {
            Err(error)
                if is_missing(&error)
                    && self.url.starts_with("sqlite:")
                    && self.events_url.is_none() =>
            {
                let empty = Self { url: "sqlite::memory:".to_owned(), ..self.clone() };
                Ok((empty.create(None).await?, true))
            }
            connected => Ok((connected?, false)),
        }
    }

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

/// The database that the environment names, and by which variable. One that is set to nothing is not set.
fn from_environment() -> Option<(&'static str, String)> {
    let named =
        |name| std::env::var(name).ok().filter(|url| !url.is_empty()).map(|url| (name, url));
    named(URL).or_else(|| named(THEIR_URL))
}

/// What a command works on if neither --url nor our own variable names a database.
fn default_url() -> &'static str {
    static DEFAULT: LazyLock<String> = LazyLock::new(|| {
        let theirs = std::env::var(THEIR_URL).ok().filter(|url| !url.is_empty());
        theirs.unwrap_or_else(|| DEFAULT_URL.to_owned())
    });
    &DEFAULT
}

/// Refuses what names no database that we know. It is known by its variable: what that says may hold a password, so no
/// more of it is repeated than how it begins.
fn known(variable: &str, url: String) -> anyhow::Result<String> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    if scheme.is_some_and(|scheme| SCHEMES.contains(&scheme)) {
        return Ok(url);
    }
    let begins = match url.split_once("://") {
        Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            format!(" begins with {scheme}:// and")
        }
        _ => String::new(),
    };
    refuse!(
        InvalidInput,
        "{variable}{begins} names no database that we know; set it to sqlite:FILE or \
         postgres://USER:PASSWORD@HOST/DATABASE, or name the database by --url"
    )
}

/// Refuses a database of the environment that is none, before anything begins. The laboratory makes and drops what it
/// measures, and does not do that in a database that is named for others: who has set their variable is told.
pub(crate) fn check_environment(mut matches: &ArgMatches) -> anyhow::Result<()> {
    while let Some((_, of_subcommand)) = matches.subcommand() {
        matches = of_subcommand;
    }
    if !matches.ids().any(|id| id == "url") {
        return Ok(());
    }
    let url = || matches.try_get_one::<String>("url").ok().flatten().cloned().unwrap_or_default();
    match matches.value_source("url") {
        Some(ValueSource::EnvVariable) => known(URL, url()).map(drop),
        Some(ValueSource::DefaultValue) if default_url() != DEFAULT_URL => {
            if url() == default_url() {
                return known(THEIR_URL, url()).map(drop);
            }
            say!(
                "note: this command does not read {THEIR_URL}; it works on {}. Name another database by --url or {URL}",
                url()
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Other commands do not read the file, so they would work elsewhere. Not what it says: that may hold a password.
pub(crate) fn say_if_the_environment_differs(url_of_file: &str) {
    if let Some((variable, _)) = from_environment().filter(|(_, other)| other != url_of_file) {
        say!(
            "note: {variable} names another database than the file, and other commands take that one"
        );
    }
}

pub(crate) fn namespace(name: &str) -> Result<Namespace, String> {
    Namespace::new(name).map_err(|error| error.problem.to_string())
}
