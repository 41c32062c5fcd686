//! What a log can be opened with.

use anabranch_core::{HashRule, InputError, InputProblem, Limits};
use std::fmt;

/// Options of a connection. The defaults suit most.
///
/// ```
/// use anabranch_store::{Durability, Namespace, Options};
/// let options = Options::new()
///     .with_namespace(Namespace::new("billing")?)
///     .with_durability(Durability::Relaxed);
/// assert_eq!(options.namespace.as_str(), "billing");
/// // The same:
/// let options = Options {
///     namespace: Namespace::new("billing")?,
///     durability: Durability::Relaxed,
///     ..Options::default()
/// };
/// # Ok::<(), anabranch_core::InputError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Which log of the database: a schema of PostgreSQL, a prefix of SQLite's tables. Default
    /// `anabranch`.
    pub namespace: Namespace,
    /// What an append may hold.
    pub limits: Limits,
    /// When an append counts as stored.
    pub durability: Durability,
    /// The hash rule of a log that does not exist yet. `None` means FNV-1a for a new log, and
    /// whatever it has for an old one; anything else must agree with an old log.
    pub hash_rule: Option<HashRule>,
    /// Whether connecting creates the log or brings its schema up to date. Default `true`.
    pub migrate: bool,
    /// Whether a log with a slightly older schema ([`Migrations::reads_from`]) is taken as it is, where
    /// `migrate` is off: to look at it and to operate it while workers of the last version run. Consumers
    /// do not run on it. Default `false`: the schema must be the newest.
    ///
    /// [`Migrations::reads_from`]: crate::migration::Migrations::reads_from
    pub take_older: bool,
    /// How many reads run at the same time, each on a connection of its own. Default 4. On PostgreSQL the
    /// process opens more than one for reads and appends together only while half of the server's
    /// connections are free; otherwise they take turns.
    pub readers: usize,
    /// How many transactions of a replica set run at the same time, each on a connection of its own
    /// (PostgreSQL; SQLite has one writer). Lanes beyond that take turns, so 1 will do. Default 8. A
    /// connection is opened when a lane needs it, and closed when it has been idle for a few seconds.
    ///
    /// A process takes one connection for each lane at work and four more, however many sets and logs it
    /// has: see `docs/postgresql-connections.md`.
    pub sessions: usize,
    /// Whether what happens is written to the program's log, by [`tracing`](https://docs.rs/tracing). Default `true`.
    /// Without it only [observers](crate::Observer) learn of it.
    pub tracing: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: Namespace::default(),
            limits: Limits::default(),
            durability: Durability::default(),
            hash_rule: None,
            migrate: true,
            take_older: false,
            readers: 4,
            sessions: 8,
            tracing: true,
        }
    }
}

/// Makes the methods that set one option each.
macro_rules! with {
    ($($(#[$doc:meta])* $method:ident $option:ident: $type:ty => $value:expr;)*) => {
        impl Options {
            $($(#[$doc])*
            #[must_use]
            pub fn $method(mut self, $option: $type) -> Self {
                self.$option = $value;
                self
            })*
        }
    };
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

with! {
    /// Sets [`namespace`](Self::namespace).
    with_namespace namespace: Namespace => namespace;
    /// Sets [`limits`](Self::limits).
    with_limits limits: Limits => limits;
    /// Sets [`durability`](Self::durability).
    with_durability durability: Durability => durability;
    /// Sets [`hash_rule`](Self::hash_rule).
    with_hash_rule hash_rule: HashRule => Some(hash_rule);
    /// Sets [`migrate`](Self::migrate).
    with_migrate migrate: bool => migrate;
    /// Sets [`take_older`](Self::take_older).
    with_take_older take_older: bool => take_older;
    /// Sets [`readers`](Self::readers).
    with_readers readers: usize => readers;
    /// Sets [`sessions`](Self::sessions).
    with_sessions sessions: usize => sessions;
}

/// When an append counts as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// On disk: `synchronous=FULL` on SQLite, `synchronous_commit=on` on PostgreSQL.
    #[default]
    Full,
    /// Soon on disk: a crash of the machine (or of the PostgreSQL server) may lose the last appends,
    /// though never some of one append or any before it. Readers that had seen them already may then
    /// miss what is stored at their positions later.
    Relaxed,
}

/// The name of a log inside a database: a plain identifier, so that it never needs escaping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(String);

impl Namespace {
    const MAX_BYTES: usize = 40;

    /// A namespace of lower-case letters, digits and underscores that begins with a letter, though
    /// not with `pg_` or `sqlite`, which the databases keep for themselves.
    pub fn new(name: impl Into<String>) -> Result<Self, InputError> {
        let name = name.into();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let reserved = name.starts_with("pg_") || name.starts_with("sqlite");
        let begins = name.starts_with(|c: char| c.is_ascii_lowercase()) && !reserved;
        if begins && name.chars().all(plain) && name.len() <= Self::MAX_BYTES {
            return Ok(Self(name));
        }
        let subject = format!("namespace `{}`", name.escape_debug());
        Err(InputError::new(subject, InputProblem::NotAnIdentifier))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self("anabranch".to_owned())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_never_need_escaping() {
        for good in ["a", "billing_2"] {
            assert_eq!(Namespace::new(good).unwrap().as_str(), good);
        }
        for bad in
            ["", "2x", "_x", "Billing", "a-b", "a\"b", "ä", "pg_log", "sqlite", &"x".repeat(41)]
        {
            let error = Namespace::new(bad).unwrap_err().to_string();
            assert!(error.contains("is not a plain identifier"), "{error}");
        }
    }
}
