//! Migrations and settings of a log.

use crate::error::store_error;
use anabranch_core::{HashRule, StoreError};
use anabranch_store::database::Topic;
use anabranch_store::migration::{Migration, Migrations};
use anabranch_store::{Namespace, Options};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

/// The schema of the SQLite backend, step by step.
pub const MIGRATIONS: Migrations = Migrations {
    steps: &[
        Migration { version: 1, name: "log", sql: include_str!("../migrations/0001_log.sql") },
        Migration {
            version: 2,
            name: "consumers",
            sql: include_str!("../migrations/0002_consumers.sql"),
        },
        Migration {
            version: 3,
            name: "replica sets",
            sql: include_str!("../migrations/0003_replica_sets.sql"),
        },
        Migration { version: 4, name: "work", sql: include_str!("../migrations/0004_work.sql") },
        Migration {
            version: 5,
            name: "identity",
            sql: include_str!("../migrations/0005_identity.sql"),
        },
    ],
    keep_rule: "INSERT OR IGNORE INTO {ns}_settings VALUES ('hash_rule', '{rule}')",
};

/// The statements of one log, with its namespace filled in.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) insert_event: String,
    pub(crate) event_columns: String,
    pub(crate) events: String,
    pub(crate) tags: String,
    pub(crate) last_drawn: String,
}

impl Sql {
    pub(crate) fn of(namespace: &Namespace) -> Self {
        let fill = |text: &str| text.replace("{ns}", namespace.as_str());
        Self {
            insert_event: fill(include_str!("../queries/insert_event.sql")),
            event_columns: fill(include_str!("../queries/event_columns.sql")),
            events: format!("{namespace}_events"),
            tags: format!("{namespace}_event_tags"),
            last_drawn: fill(include_str!("../queries/last_drawn.sql")),
        }
    }
}

/// The statement that raises the count of a topic's signals.
pub(crate) fn signal(namespace: &Namespace, topic: Topic) -> String {
    let name = counter(topic);
    format!("UPDATE {namespace}_settings SET value = value + 1 WHERE name = '{name}'")
}

/// The query for the counts of signals, in the order of the topics.
pub(crate) fn signals(namespace: &Namespace) -> String {
    let count = |topic| {
        let name = counter(topic);
        format!("(SELECT CAST(value AS INTEGER) FROM {namespace}_settings WHERE name = '{name}')")
    };
    format!("SELECT {}", Topic::ALL.map(count).join(", "))
}

fn counter(topic: Topic) -> &'static str {
    match topic {
        Topic::Workers => "signals",
        Topic::Tasks => "tasks",
    }
}

/// Brings the log up to date, or checks that it is, and returns its hash rule.
pub(crate) fn prepare(
    connection: &mut Connection,
    at: &str,
    options: &Options,
) -> Result<HashRule, StoreError> {
    let namespace = &options.namespace;
    let failed = |error| store_error(at, error);
    let found = version(connection, namespace).map_err(failed)?;
    if MIGRATIONS.needed(at, namespace, found)? {
        if !options.migrate {
            return Err(MIGRATIONS.too_old(at, namespace, found));
        }
        migrate(connection, at, namespace, options.hash_rule.unwrap_or_default())?;
    }
    let rule = format!("SELECT value FROM {namespace}_settings WHERE name = 'hash_rule'");
    let stored: String = connection.query_row(&rule, (), |row| row.get(0)).map_err(failed)?;
    MIGRATIONS.rule(at, namespace, &stored, options.hash_rule)
}

/// Applies what is missing. Processes that start together wait for one another's write lock, and all
/// but the first find nothing left to do.
fn migrate(
    connection: &mut Connection,
    at: &str,
    namespace: &Namespace,
    rule: HashRule,
) -> Result<(), StoreError> {
    let failed = |error| store_error(at, error);
    let tx =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let found = version(&tx, namespace).map_err(failed)?;
    for migration in MIGRATIONS.after(found) {
        tx.execute_batch(&migration.sql_for(namespace)).map_err(failed)?;
        tracing::info!(at, %namespace, version = migration.version, "applied a migration");
    }
    tx.execute(&MIGRATIONS.keep_rule(namespace, rule), ()).map_err(failed)?;
    tx.commit().map_err(failed)
}

/// The version of the log's schema; 0 when there is no log.
fn version(connection: &Connection, namespace: &Namespace) -> rusqlite::Result<u32> {
    let table = format!("{namespace}_migrations");
    let exists = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    let exists: Option<i64> =
        connection.query_row(exists, [&table], |row| row.get(0)).optional()?;
    if exists.is_none() {
        return Ok(0);
    }
    let newest = format!("SELECT coalesce(max(version), 0) FROM {table}");
    connection.query_row(&newest, (), |row| row.get(0))
}
