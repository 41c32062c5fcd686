//! Migrations, settings and statements of a log.

use crate::error::Failure;
use crate::keys::Classes;
use anabranch_core::{HashRule, StoreError};
use anabranch_store::migration::{Migration, Migrations};
use anabranch_store::{Namespace, Options};
use deadpool_postgres::Object;
use tokio_postgres::{Client, Error, IsolationLevel};

/// The schema of the PostgreSQL backend, step by step.
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
    keep_rule: "INSERT INTO \"{ns}\".settings VALUES ('hash_rule', '{rule}') ON CONFLICT DO NOTHING",
};

/// The statements of one log, with its namespace filled in.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) lock_or_fail: String,
    pub(crate) versions_or_fail: String,
    pub(crate) try_lock: String,
    pub(crate) wait_lock: String,
    pub(crate) stream_versions: String,
    pub(crate) event_columns: String,
    pub(crate) events_by_id: String,
    pub(crate) horizon_head: String,
    pub(crate) horizon_marks: String,
    pub(crate) events: String,
    pub(crate) tags: String,
}

impl Sql {
    pub(crate) fn of(namespace: &Namespace) -> Self {
        let fill = |text: &str| text.replace("{ns}", namespace.as_str());
        Self {
            lock_or_fail: fill(include_str!("../queries/lock_or_fail.sql")),
            versions_or_fail: fill(include_str!("../queries/versions_or_fail.sql")),
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
            events: fill("\"{ns}\".events"),
            tags: fill("\"{ns}\".event_tags"),
        }
    }
}

/// Brings the log up to date, or checks that it is, and returns its hash rule.
pub(crate) async fn prepare(
    at: &str,
    session: &mut Object,
    options: &Options,
) -> Result<HashRule, StoreError> {
    let namespace = &options.namespace;
    let failed = |error| Failure::from(error).at(at);
    let encoding: String =
        session.query_one("SHOW server_encoding", &[]).await.map_err(failed)?.get(0);
    if encoding != "UTF8" {
        let what = format!("the encoding {encoding}, where Anabranch needs UTF8");
        return Err(StoreError::Corrupt { at: at.to_owned(), what });
    }
    let found = version(session, namespace).await.map_err(failed)?;
    if MIGRATIONS.needed(at, namespace, found)? {
        if !options.migrate {
            return Err(MIGRATIONS.too_old(at, namespace, found));
        }
        let rule = options.hash_rule.unwrap_or_default();
        migrate(session, namespace, rule).await.map_err(failed)?;
    }
    let rule = format!("SELECT value FROM \"{namespace}\".settings WHERE name = 'hash_rule'");
    let stored: String = session.query_one(&rule, &[]).await.map_err(failed)?.get(0);
    MIGRATIONS.rule(at, namespace, &stored, options.hash_rule)
}

/// Applies what is missing, in one transaction. Processes that start together wait for one
/// another's lock, and all but the first find nothing left to do.
async fn migrate(session: &mut Object, namespace: &Namespace, rule: HashRule) -> Result<(), Error> {
    // Each statement must see what was committed before it, whatever the user's default is.
    let read_committed = session.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
    let tx = read_committed.start().await?;
    let class = Classes::of(namespace).migration;
    tx.execute("SELECT pg_advisory_xact_lock($1, 0)", &[&class]).await?;
    let found = version(tx.client(), namespace).await?;
    for migration in MIGRATIONS.after(found) {
        tx.batch_execute(&migration.sql_for(namespace)).await?;
        tracing::info!(%namespace, version = migration.version, "applied a migration");
    }
    tx.batch_execute(&MIGRATIONS.keep_rule(namespace, rule)).await?;
    tx.commit().await
}

/// The version of the log's schema; 0 when there is no log.
///
/// The catalogue is asked by a query and not by `to_regclass`: after waiting for the migration of
/// another process, that function may still answer from before it.
async fn version(client: &Client, namespace: &Namespace) -> Result<u32, Error> {
    let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c \
                  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
                  WHERE n.nspname = $1 AND c.relname = 'migrations')";
    if !client.query_one(exists, &[&namespace.as_str()]).await?.get::<_, bool>(0) {
        return Ok(0);
    }
    let newest = format!("SELECT coalesce(max(version), 0) FROM \"{namespace}\".migrations");
    let newest: i32 = client.query_one(&newest, &[]).await?.get(0);
    Ok(newest.unsigned_abs())
}
