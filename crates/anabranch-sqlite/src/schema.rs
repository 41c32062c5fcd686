//! Migrations and settings of a log.

use crate::connection::Place;
use crate::error::store_error;
use anabranch_core::Happening;
use anabranch_core::{HashRule, StoreError};
use anabranch_store::Emitter;
use anabranch_store::database::Topic;
use anabranch_store::migration::{Migration, Migrations, Schema, since};
use anabranch_store::{Namespace, Options};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

/// The schema of the SQLite backend, step by step.
pub const MIGRATIONS: Migrations = Migrations {
    steps: &[
        Migration {
            version: 1,
            name: "log",
            sql: include_str!("../migrations/0001_log.sql"),
            admits: 1,
        },
        Migration {
            version: 2,
            name: "consumers",
            sql: include_str!("../migrations/0002_consumers.sql"),
            admits: 2,
        },
        Migration {
            version: 3,
            name: "replica sets",
            sql: include_str!("../migrations/0003_replica_sets.sql"),
            admits: 3,
        },
        Migration {
            version: 4,
            name: "work",
            sql: include_str!("../migrations/0004_work.sql"),
            admits: 4,
        },
        Migration {
            version: 5,
            name: "identity",
            sql: include_str!("../migrations/0005_identity.sql"),
            admits: 5,
        },
        Migration {
            version: 6,
            name: "fleet",
            sql: include_str!("../migrations/0006_fleet.sql"),
            admits: 5,
        },
        Migration {
            version: 7,
            name: "permits",
            sql: include_str!("../migrations/0007_permits.sql"),
            admits: 5,
        },
        Migration {
            version: 8,
            name: "anchors",
            sql: include_str!("../migrations/0008_anchors.sql"),
            admits: 5,
        },
        Migration {
            version: 9,
            name: "admission",
            sql: include_str!("../migrations/0009_admission.sql"),
            admits: 5,
        },
        Migration {
            version: 10,
            name: "deliveries",
            sql: include_str!("../migrations/0010_deliveries.sql"),
            admits: 5,
        },
        Migration {
            version: 11,
            name: "traces",
            sql: include_str!("../migrations/0011_traces.sql"),
            admits: 5,
        },
        Migration {
            version: 12,
            name: "audit",
            sql: include_str!("../migrations/0012_audit.sql"),
            admits: 5,
        },
        Migration {
            version: 13,
            name: "watching",
            sql: include_str!("../migrations/0013_watching.sql"),
            admits: 5,
        },
        Migration {
            version: 14,
            name: "operations",
            sql: include_str!("../migrations/0014_operations.sql"),
            admits: 5,
        },
    ],
    keep_rule: "INSERT OR IGNORE INTO {ns}_settings VALUES ('hash_rule', '{rule}')",
    reads_from: 5,
};

/// The statements of one log, with its namespace filled in.
///
/// In a condition each placeholder has a sign. SQLite may choose another plan for another value of a bare one, and takes a
/// statement that comes back from the driver's cache, its values cleared, for one that has got others: it planned each
/// such statement anew for each use, which took longer than to run it.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) insert_event: String,
    pub(crate) insert_tag: String,
    pub(crate) version: String,
    pub(crate) event_columns: String,
    pub(crate) events: String,
    pub(crate) identity: String,
    pub(crate) tags: String,
    pub(crate) last_drawn: String,
}

impl Sql {
    /// Those for a log of this schema version.
    pub(crate) fn of(namespace: &Namespace, version: u32) -> Self {
        let column = if version < since::TRACES { ", NULL AS trace" } else { ", trace" };
        let fill = |text: &str| text.replace("{ns}", namespace.as_str());
        Self {
            // An older log has no room for a trace; the value goes nowhere.
            insert_event: match version < since::TRACES {
                false => fill(include_str!("../queries/insert_event.sql")),
                true => fill(include_str!("../queries/insert_event.sql"))
                    .replace(", trace", "")
                    .replace("?18, ?19)", "?18 + 0 * coalesce(length(?19), 0))"),
            },
            insert_tag: format!("INSERT INTO {namespace}_event_tags VALUES (?1, ?2)"),
            version: format!(
                "SELECT max(version) FROM {namespace}_events WHERE category = +?1 AND stream_id = +?2"
            ),
            event_columns: fill(include_str!("../queries/event_columns.sql"))
                .replace(", trace", column),
            events: format!("{namespace}_events"),
            identity: format!("SELECT value FROM {namespace}_settings WHERE name = 'identity'"),
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
        Topic::Permits => "permits",
    }
}

/// Brings the log up to date, or checks that it need not be, as the options say; returns its hash rule
/// and its schema.
pub(crate) fn prepare(
    connection: &mut Connection,
    place: &Place,
    options: &Options,
    events: &Emitter,
) -> Result<(HashRule, Schema), StoreError> {
    let (at, namespace) = (place.at.as_str(), &options.namespace);
    let failed = |error| store_error(at, error);
    let mut found = schema(connection, namespace).map_err(failed)?;
    let is_needed = MIGRATIONS.needed(at, options, found)?;
    // From here on it is a log, or becomes one: a file that is not stays as it is.
    place.prepare_writer(connection)?;
    if is_needed {
        found = migrate(connection, at, options, events)?;
    }
    let rule = format!("SELECT value FROM {namespace}_settings WHERE name = 'hash_rule'");
    let stored: String = connection.query_row(&rule, (), |row| row.get(0)).map_err(failed)?;
    Ok((MIGRATIONS.rule(at, namespace, &stored, options.hash_rule)?, found))
}

/// Applies what is missing. Processes that start together wait for one another's write lock, and all
/// but the first find nothing left to do.
fn migrate(
    connection: &mut Connection,
    at: &str,
    options: &Options,
    events: &Emitter,
) -> Result<Schema, StoreError> {
    let (namespace, rule) = (&options.namespace, options.hash_rule.unwrap_or_default());
    let failed = |error| store_error(at, error);
    let tx =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let found = schema(&tx, namespace).map_err(failed)?;
    // A newer program may have been the first.
    MIGRATIONS.needed(at, options, found)?;
    for migration in MIGRATIONS.after(found.version) {
        tx.execute_batch(&migration.sql_for(namespace)).map_err(failed)?;
        let (at, namespace) = (at.to_owned(), namespace.to_string());
        events.emit(Happening::migration_applied(at, namespace, migration.version));
    }
    tx.execute(&MIGRATIONS.keep_rule(namespace, rule), ()).map_err(failed)?;
    let found = schema(&tx, namespace).map_err(failed)?;
    tx.commit().map_err(failed)?;
    Ok(found)
}

/// The log's schema; version 0 when there is no log.
fn schema(connection: &Connection, namespace: &Namespace) -> rusqlite::Result<Schema> {
    let table = format!("{namespace}_migrations");
    let exists = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    let exists: Option<i64> =
        connection.query_row(exists, [&table], |row| row.get(0)).optional()?;
    if exists.is_none() {
        return Ok(Schema { version: 0, admits: 0 });
    }
    let newest = format!("SELECT coalesce(max(version), 0) FROM {table}");
    let version = connection.query_row(&newest, (), |row| row.get(0))?;
    if version <= MIGRATIONS.newest() {
        // Older ones have no such column, and it matters to older programs only.
        return Ok(Schema { version, admits: version });
    }
    let admits = format!("SELECT max(coalesce(admits, version)) FROM {table}");
    let admits = connection.query_row(&admits, (), |row| row.get(0))?;
    Ok(Schema { version, admits })
}
