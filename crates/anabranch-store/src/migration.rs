//! Versioned SQL: embedded, applied in order, printable.

use crate::options::Namespace;
use anabranch_core::{HashRule, StoreError};

/// One step of a backend's schema. Steps are never changed once released, only added.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number, counted from 1 without holes.
    pub version: u32,
    /// What it does, in a word or two.
    pub name: &'static str,
    /// Its SQL, with `{ns}` where the namespace goes.
    pub sql: &'static str,
}

/// The steps of one backend, in order.
#[derive(Clone, Copy, Debug)]
pub struct Migrations {
    /// The steps.
    pub steps: &'static [Migration],
    /// How the hash rule is kept, with `{ns}` and `{rule}` to fill in.
    pub keep_rule: &'static str,
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

    /// Refuses a log that is newer than this program; else says whether there are steps to apply.
    pub fn needed(&self, at: &str, namespace: &Namespace, found: u32) -> Result<bool, StoreError> {
        let known = self.newest();
        if found > known {
            let (at, namespace) = (at.to_owned(), namespace.to_string());
            return Err(StoreError::SchemaTooNew { at, namespace, found, known });
        }
        Ok(found < known)
    }

    /// The hash rule of a log, as it is stored; refused if the caller asks for another one.
    pub fn rule(
        &self,
        at: &str,
        namespace: &Namespace,
        stored: &str,
        asked: Option<HashRule>,
    ) -> Result<HashRule, StoreError> {
        let corrupt = |what| StoreError::Corrupt { at: at.to_owned(), what };
        let found = stored.parse().map_err(corrupt)?;
        match asked {
            Some(asked) if asked != found => {
                let (at, namespace) = (at.to_owned(), namespace.to_string());
                Err(StoreError::OtherRule { at, namespace, found, asked })
            }
            _ => Ok(found),
        }
    }

    /// The error for a log that is older than this program, where automatic migration is off.
    #[must_use]
    pub fn too_old(&self, at: &str, namespace: &Namespace, found: u32) -> StoreError {
        let (at, namespace) = (at.to_owned(), namespace.to_string());
        StoreError::SchemaTooOld { at, namespace, found, known: self.newest() }
    }

    /// All steps as one script, with the settings of a new log, for people who apply their own.
    #[must_use]
    pub fn script(&self, namespace: &Namespace, rule: HashRule) -> String {
        let step = |migration: &Migration| {
            let (version, name) = (migration.version, migration.name);
            format!("-- migration {version}: {name}\n{}\n", migration.sql_for(namespace))
        };
        let steps: String = self.steps.iter().map(step).collect();
        let keep = self.keep_rule(namespace, rule);
        format!("{steps}-- the hash rule of a new log\n{keep};\n")
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
