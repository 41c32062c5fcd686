//! What databases write differently.

use crate::options::Namespace;
use std::fmt;

/// Which database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

/// How a database writes what differs.
#[derive(Clone, Debug)]
pub struct Dialect {
    /// Which database.
    pub kind: Kind,
    /// Which log in it.
    pub namespace: Namespace,
}

impl Dialect {
    /// A table of the log, as statements write it.
    #[must_use]
    pub fn table(&self, name: impl fmt::Display) -> String {
        match self.kind {
            Kind::Sqlite => format!("{}_{name}", self.namespace),
            Kind::Postgres => format!("\"{}\".{name}", self.namespace),
        }
    }

    /// The database's own clock, in microseconds since 1970: leases are told by no other.
    #[must_use]
    pub fn now_us(&self) -> &'static str {
        match self.kind {
            Kind::Sqlite => "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
            Kind::Postgres => "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
        }
    }

    /// What keeps rows that are read from being changed before the transaction ends. SQLite's one
    /// write lock does that for all rows.
    #[must_use]
    pub fn for_update(&self) -> &'static str {
        match self.kind {
            Kind::Sqlite => "",
            Kind::Postgres => " FOR UPDATE",
        }
    }
}
