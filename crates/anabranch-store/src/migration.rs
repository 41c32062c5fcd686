//! Versioned SQL: embedded, applied in order, printable; and which programs may work on which version.
//!
//! Steps only add, so workers that run when a step is applied go on. Whether an older program may still
//! *start* is what each step states as `admits`, and what the log keeps beside its version.

use crate::options::{Namespace, Options};
use anabranch_core::{HashRule, StoreError, UnknownName};

/// The schema versions in which something came that a program may miss in a log which it
/// [takes as it is](crate::Options::take_older). Both backends count alike.
pub mod since {
    /// Outages, who runs what, tasks that were compensated.
    pub const FLEET: u32 = 6;
    /// Limits over all processes.
    pub const PERMITS: u32 = 7;
    /// The identity of a log, and anchors of cursors.
    pub const ANCHORS: u32 = 8;
    /// The code of a consumer that is accepted.
    pub const CODE: u32 = 10;
    /// Deliveries of webhooks.
    pub const DELIVERIES: u32 = 10;
    /// The trace contexts of events and tasks.
    pub const TRACES: u32 = 11;
    /// The record of audited consumers.
    pub const AUDIT: u32 = 12;
    /// The view `lag`, and counters of tasks.
    pub const WATCHING: u32 = 13;
    /// Plans, the journal of operations, and tokens of the API.
    pub const OPERATIONS: u32 = 14;
}

/// One step of a backend's schema. Steps are never changed once released, only added, and they only
/// add to what is there.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number, counted from 1 without holes.
    pub version: u32,
    /// What it does, in a word or two.
    pub name: &'static str,
    /// Its SQL, with `{ns}` where the namespace goes.
    pub sql: &'static str,
    /// The oldest version whose programs may still start on a log with this step. From version 5 on the
    /// SQL writes it beside the version.
    pub admits: u32,
}

/// The steps of one backend, in order.
#[derive(Clone, Copy, Debug)]
pub struct Migrations {
    /// The steps.
    pub steps: &'static [Migration],
    /// How the hash rule is kept, with `{ns}` and `{rule}` to fill in.
    pub keep_rule: &'static str,
    /// The oldest version that this program can look at and operate without bringing it up to date.
    pub reads_from: u32,
}

/// The schema of a log, as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Its version; 0 when there is no log.
    pub version: u32,
    /// The oldest version whose programs may start on it. A step that does not say admits its own.
    pub admits: u32,
}

impl Migrations {
    /// The newest version that this program knows.
    #[must_use]
    pub fn newest(&self) -> u32 {
        self.steps.last().map_or(0, |migration| migration.version)
    }

    /// The steps after a version.
    pub fn after(&self, version: u32) -> impl Iterator<Item = &Migration> {
        self.steps.iter().filter(move |migration| migration.version > version)
    }

    /// Says whether there are steps to apply; refuses a log that this program must not open as it is.
    pub fn needed(&self, at: &str, options: &Options, found: Schema) -> Result<bool, StoreError> {
        let (known, version) = (self.newest(), found.version);
        let (at, namespace) = (at.to_owned(), options.namespace.to_string());
        if version > known && found.admits > known {
            let admits = found.admits;
            return Err(StoreError::SchemaTooNew { at, namespace, found: version, admits, known });
        }
        let is_taken = options.take_older && version >= self.reads_from;
        match version {
            _ if version >= known => Ok(false),
            _ if options.migrate => Ok(true),
            0 => Err(StoreError::NoLog { at, namespace }),
            _ if is_taken => Ok(false),
            found => Err(StoreError::SchemaTooOld { at, namespace, found, known }),
        }
    }

    /// Refuses a log that was taken as it is although it is older: for what that has no room for.
    pub fn require_newest(
        &self,
        at: &str,
        namespace: &Namespace,
        found: Schema,
    ) -> Result<(), StoreError> {
        let options =
            Options { namespace: namespace.clone(), migrate: false, ..Options::default() };
        self.needed(at, &options, found).map(drop)
    }

    /// The hash rule of a log, as it is stored; refused if the caller asks for another one.
    pub fn rule(
        &self,
        at: &str,
        namespace: &Namespace,
        stored: &str,
        asked: Option<HashRule>,
    ) -> Result<HashRule, StoreError> {
        let corrupt =
            |error: UnknownName| StoreError::Corrupt { at: at.to_owned(), what: error.to_string() };
        let found = stored.parse().map_err(corrupt)?;
        match asked {
            Some(asked) if asked != found => {
                let (at, namespace) = (at.to_owned(), namespace.to_string());
                Err(StoreError::OtherRule { at, namespace, found, asked })
            }
            _ => Ok(found),
        }
    }

    /// All steps as one script, with the settings of a new log, for people who apply their own. It is one transaction: all
    /// of it is applied, or nothing.
    #[must_use]
    pub fn script(&self, namespace: &Namespace, rule: HashRule) -> String {
        let step = |migration: &Migration| {
            let (version, name) = (migration.version, migration.name);
            format!("-- migration {version}: {name}\n{}\n", migration.sql_for(namespace))
        };
        let steps: String = self.steps.iter().map(step).collect();
        let keep = self.keep_rule(namespace, rule);
        format!("BEGIN;\n{steps}-- the hash rule of a new log\n{keep};\nCOMMIT;\n")
    }

    /// The statement that keeps the hash rule of a new log and leaves that of an old one alone.
    #[must_use]
    pub fn keep_rule(&self, namespace: &Namespace, rule: HashRule) -> String {
        self.keep_rule.replace("{ns}", namespace.as_str()).replace("{rule}", rule.name())
    }
}

impl Migration {
    /// Its SQL for a namespace.
    #[must_use]
    pub fn sql_for(&self, namespace: &Namespace) -> String {
        self.sql.replace("{ns}", namespace.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn step(version: u32) -> Migration {
        Migration { version, name: "step", sql: "", admits: version }
    }

    const FIVE: Migrations = Migrations {
        steps: &[step(1), step(2), step(3), step(4), step(5)],
        keep_rule: "",
        reads_from: 4,
    };

    fn needed(migrate: bool, take_older: bool, version: u32, admits: u32) -> String {
        let options = Options { migrate, take_older, ..Options::default() };
        match FIVE.needed("here", &options, Schema { version, admits }) {
            Ok(true) => "migrate".to_owned(),
            Ok(false) => "open".to_owned(),
            Err(StoreError::NoLog { .. }) => "no log".to_owned(),
            Err(StoreError::SchemaTooOld { found, known, .. }) => format!("{found} < {known}"),
            Err(StoreError::SchemaTooNew { found, admits, known, .. }) => {
                format!("{found} admits {admits} > {known}")
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_older_log_is_migrated_taken_as_it_is_or_refused() {
        for (version, migrates, takes_older, needs_newest) in [
            (0, "migrate", "no log", "no log"),
            (3, "migrate", "3 < 5", "3 < 5"),
            (4, "migrate", "open", "4 < 5"),
            (5, "open", "open", "open"),
        ] {
            assert_eq!(needed(true, false, version, version), migrates);
            assert_eq!(needed(true, true, version, version), migrates);
            assert_eq!(needed(false, true, version, version), takes_older);
            assert_eq!(needed(false, false, version, version), needs_newest);
        }
    }

    #[test]
    fn a_newer_log_is_opened_if_it_admits_this_program() {
        for (migrate, take_older) in [(true, false), (false, true), (false, false)] {
            assert_eq!(needed(migrate, take_older, 6, 4), "open");
            assert_eq!(needed(migrate, take_older, 6, 5), "open");
            assert_eq!(needed(migrate, take_older, 7, 6), "7 admits 6 > 5");
            assert_eq!(needed(migrate, take_older, 7, 7), "7 admits 7 > 5");
        }
    }
}
