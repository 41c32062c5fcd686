//! Migrations, settings and statements of a log.

use crate::error::Failure;
use crate::keys::Classes;
use crate::session::Connection;
use anabranch_core::Happening;
use anabranch_core::{HashRule, StoreError};
use anabranch_store::Emitter;
use anabranch_store::migration::{Migration, Migrations, Schema, since};
use anabranch_store::{Namespace, Options};
use std::time::Duration;
use tokio_postgres::{Client, Error};

/// The schema of the PostgreSQL backend, step by step.
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
    keep_rule: "INSERT INTO \"{ns}\".settings VALUES ('hash_rule', '{rule}') ON CONFLICT DO NOTHING",
    reads_from: 5,
};

/// The statements of one log, with its namespace filled in.
#[derive(Debug)]
pub(crate) struct Sql {
    /// Whether there is room for the traces of events.
    pub(crate) keeps_traces: bool,
    pub(crate) admit: String,
    pub(crate) first_matches: String,
    pub(crate) try_lock: String,
    pub(crate) wait_lock: String,
    pub(crate) stream_versions: String,
    pub(crate) event_columns: String,
    pub(crate) events_by_id: String,
    pub(crate) horizon_head: String,
    pub(crate) horizon_marks: String,
    pub(crate) last_visible: String,
    pub(crate) scopes: String,
    pub(crate) events: String,
    pub(crate) look: String,
    pub(crate) tags: String,
}

impl Sql {
    /// Those for a log of this schema version.
    pub(crate) fn of(namespace: &Namespace, version: u32) -> Self {
        let keeps_traces = version >= since::TRACES;
        let column = if keeps_traces { ", trace" } else { ", CAST(NULL AS text) AS trace" };
        let fill = |text: &str| text.replace("{ns}", namespace.as_str()).replace(", trace", column);
        Self {
            keeps_traces,
            admit: fill("\"{ns}\".admit"),
            first_matches: fill(include_str!("../queries/first_matches.sql")),
            try_lock: fill(include_str!("../queries/try_lock.sql")),
            wait_lock: fill(include_str!("../queries/wait_lock.sql")),
            stream_versions: fill(include_str!("../queries/stream_versions.sql")),
            events_by_id: fill(concat!(
                include_str!("../queries/event_columns.sql"),
                "WHERE id = ANY ($1)"
            )),
            event_columns: fill(include_str!("../queries/event_columns.sql")),
            horizon_head: fill(include_str!("../queries/horizon_head.sql")),
            horizon_marks: fill(include_str!("../queries/horizon_marks.sql")),
            last_visible: fill(include_str!("../queries/last_visible.sql")),
            scopes: fill(concat!(
                "SELECT * FROM (",
                include_str!("../queries/event_columns.sql"),
                ") AS event\n",
                include_str!("../queries/scopes.sql")
            )),
            events: fill("\"{ns}\".events"),
            look: fill(include_str!("../queries/look.sql")),
            tags: fill("\"{ns}\".event_tags"),
        }
    }
}

/// Brings the log up to date, or checks that it need not be, as the options say; returns its hash rule
/// and its schema.
pub(crate) async fn prepare(
    at: &str,
    session: &Connection,
    options: &Options,
    events: &Emitter,
) -> Result<(HashRule, Schema), StoreError> {
    let namespace = &options.namespace;
    let failed = |error| Failure::from(error).at(at);
    let encoding: String =
        session.query_one("SHOW server_encoding", &[]).await.map_err(failed)?.get(0);
    if encoding != "UTF8" {
        let what = format!("the encoding {encoding}, where Anabranch needs UTF8");
        return Err(StoreError::Corrupt { at: at.to_owned(), what });
    }
    let mut found = schema(session, namespace).await.map_err(failed)?;
    if MIGRATIONS.needed(at, options, found)? {
        found = migrate(at, session, options, events).await?;
    }
    let rule = format!("SELECT value FROM \"{namespace}\".settings WHERE name = 'hash_rule'");
    let stored: String = session.query_one(&rule, &[]).await.map_err(failed)?.get(0);
    Ok((MIGRATIONS.rule(at, namespace, &stored, options.hash_rule)?, found))
}

/// Whether a batch may be admitted in one statement: the function is there, it is of this log, and this role may call it.
/// Where functions are nobody's by default, only their owner may; and the function of a schema that was renamed names
/// the tables of another.
pub(crate) async fn may_admit(session: &Connection, namespace: &Namespace) -> Result<bool, Error> {
    let values = "integer, integer[], boolean[], integer, text[], text[], bigint[], uuid[], text[], bigint[]";
    let name = format!("\"{namespace}\".admit({values})");
    let events = format!("\"{namespace}\".events ");
    let may = "SELECT coalesce(bool_and(has_function_privilege(oid, 'execute') \
                                        AND strpos(prosrc, $2) > 0), false) \
               FROM pg_catalog.pg_proc WHERE oid = to_regprocedure($1)";
    Ok(session.query_one(may, &[&name, &events]).await?.get(0))
}

/// How long a migration waits for a lock before it lets go of those that it has. It is shorter than the server's
/// `deadlock_timeout`, so that the migration gives way, and not a worker.
const LOCK_WAIT: Duration = Duration::from_millis(500);
/// How long those go first for whom it gave way.
const GIVE_WAY: Duration = Duration::from_millis(100);

/// Applies what is missing, in one transaction. Processes that start together wait for one
/// another's lock, and all but the first find nothing left to do.
///
/// Those who work on the log meanwhile use its tables in any order, so they may wait for the migration while it waits
/// for them. It then rolls back and begins anew, for as long as that happens.
async fn migrate(
    at: &str,
    session: &Connection,
    options: &Options,
    events: &Emitter,
) -> Result<Schema, StoreError> {
    let (before, found) = loop {
        match apply(at, session, options).await {
            Ok(applied) => break applied,
            Err(Stopped::InTheWay) => {
                let failed = |error| Failure::from(error).at(at);
                session.batch_execute("ROLLBACK").await.map_err(failed)?;
                tokio::time::sleep(GIVE_WAY).await;
            }
            // The session is given up, and the server rolls back.
            Err(Stopped::Failed(error)) => return Err(error),
        }
    };
    for migration in MIGRATIONS.after(before.version) {
        let (at, namespace) = (at.to_owned(), options.namespace.to_string());
        events.emit(Happening::migration_applied(at, namespace, migration.version));
    }
    Ok(found)
}

/// Why a migration was not applied.
enum Stopped {
    /// It waited for those who may wait for it.
    InTheWay,
    Failed(StoreError),
}

/// Returns the schema as it was and as it is.
async fn apply(
    at: &str,
    session: &Connection,
    options: &Options,
) -> Result<(Schema, Schema), Stopped> {
    let (namespace, rule) = (&options.namespace, options.hash_rule.unwrap_or_default());
    let failed = |error| Stopped::Failed(Failure::from(error).at(at));
    // Each statement must see what was committed before it, whatever the user's default is.
    session.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(failed)?;
    let class = Classes::of(namespace).migration;
    session.execute("SELECT pg_advisory_xact_lock($1, 0)", &[&class]).await.map_err(failed)?;
    let found = schema(session, namespace).await.map_err(failed)?;
    // A newer program may have been the first.
    MIGRATIONS.needed(at, options, found).map_err(Stopped::Failed)?;
    let failed = |error| {
        let failure = Failure::from(error);
        match failure.is_lock_timeout() || failure.is_deadlock() {
            true => Stopped::InTheWay,
            false => Stopped::Failed(failure.at(at)),
        }
    };
    let wait = format!("SET LOCAL lock_timeout = {}", LOCK_WAIT.as_millis());
    session.batch_execute(&wait).await.map_err(failed)?;
    if found.version > 0 && found.version < MIGRATIONS.newest() {
        // Everybody uses this table. A step that locks it for writers, before one that locks it for all, would meet a
        // reader who goes on to write each time.
        let lock = format!("LOCK TABLE \"{namespace}\".events IN ACCESS EXCLUSIVE MODE");
        session.batch_execute(&lock).await.map_err(failed)?;
    }
    for migration in MIGRATIONS.after(found.version) {
        session.batch_execute(&migration.sql_for(namespace)).await.map_err(failed)?;
    }
    session.batch_execute(&MIGRATIONS.keep_rule(namespace, rule)).await.map_err(failed)?;
    let now = schema(session, namespace).await.map_err(failed)?;
    session.batch_execute("COMMIT").await.map_err(failed)?;
    Ok((found, now))
}

/// The log's schema; version 0 when there is no log.
///
/// The catalogue is asked by a query and not by `to_regclass`: after waiting for the migration of
/// another process, that function may still answer from before it.
async fn schema(client: &Client, namespace: &Namespace) -> Result<Schema, Error> {
    let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c \
                  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
                  WHERE n.nspname = $1 AND c.relname = 'migrations')";
    if !client.query_one(exists, &[&namespace.as_str()]).await?.get::<_, bool>(0) {
        return Ok(Schema { version: 0, admits: 0 });
    }
    let highest = async |what: &str| {
        let highest = format!("SELECT coalesce(max({what}), 0) FROM \"{namespace}\".migrations");
        Ok::<_, Error>(client.query_one(&highest, &[]).await?.get::<_, i32>(0).unsigned_abs())
    };
    let version = highest("version").await?;
    if version <= MIGRATIONS.newest() {
        // Older ones have no such column, and it matters to older programs only.
        return Ok(Schema { version, admits: version });
    }
    Ok(Schema { version, admits: highest("coalesce(admits, version)").await? })
}
