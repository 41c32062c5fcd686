//! Versioned SQL: embedded, applied in order, printable.

use crate::options::Namespace;
use anabranch_core::StoreError;

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
pub struct Migrations(pub &'static [Migration]);

impl Migrations {
    /// The newest version that this program knows.
    #[must_use]
    pub fn newest(&self) -> u32 {
        self.0.last().map_or(0, |migration| migration.version)
    }

    /// The steps after a version.
    pub fn after(&self, version: u32) -> impl Iterator<Item = &Migration> {
        self.0
            .iter()
            .filter(move |migration| migration.version > version)
    }

    /// Refuses a log that is newer than this program; else says whether there are steps to apply.
    pub fn needed(&self, at: &str, namespace: &Namespace, found: u32) -> Result<bool, StoreError> {
        let known = self.newest();
        if found > known {
            let (at, namespace) = (at.to_owned(), namespace.to_string());
            return Err(StoreError::SchemaTooNew {
                at,
                namespace,
                found,
                known,
            });
        }
        Ok(found < known)
    }

    /// The error for a log that is older than this program, where automatic migration is off.
    #[must_use]
    pub fn too_old(&self, at: &str, namespace: &Namespace, found: u32) -> StoreError {
        let (at, namespace) = (at.to_owned(), namespace.to_string());
        StoreError::SchemaTooOld {
            at,
            namespace,
            found,
            known: self.newest(),
        }
    }

    /// All steps as one script, for people who apply their own.
    #[must_use]
    pub fn script(&self, namespace: &Namespace) -> String {
        let step = |migration: &Migration| {
            let (version, name) = (migration.version, migration.name);
            format!(
                "-- migration {version}: {name}\n{}\n",
                migration.sql_for(namespace)
            )
        };
        self.0.iter().map(step).collect::<Vec<_>>().join("\n")
    }
}

impl Migration {
    /// Its SQL for a namespace.
    #[must_use]
    pub fn sql_for(&self, namespace: &Namespace) -> String {
        self.sql.replace("{ns}", namespace.as_str())
    }
}
