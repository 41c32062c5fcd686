//! Sessions serve one transaction after the other: nothing of one is there in the next.

use crate::gates::never;
use crate::on_postgres;
use crate::support::{Db, fill, number, query, start, status, until};
use anabranch::prelude::*;
use std::borrow::Cow;

on_postgres! {
    what_a_handler_does_to_its_session_ends_with_its_transaction,
    a_failed_handler_leaves_no_lock_behind,
    what_a_query_does_to_its_session_ends_with_it,
    what_would_outlive_its_transaction_is_refused,
    a_handler_with_another_role_moves_its_cursor,
}

/// What is to be seen of a session that somebody used before. The table is looked up by its bare name.
fn look(table: &str) -> String {
    format!(
        "SELECT pg_backend_pid() || ' path ' || current_setting('search_path') \
         || ' zone ' || current_setting('timezone') || ' role ' || current_setting('role') \
         || ' tenant ' || coalesce(current_setting('shop.tenant', true), '') \
         || ' locks ' || (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) \
         || ' cursors ' || (SELECT count(*) FROM pg_cursors WHERE is_holdable) \
         || ' temporary ' || (SELECT relpersistence = 't' FROM pg_class WHERE oid = '{table}'::regclass)"
    )
}

/// Runs statements with its first event, and notes down how it finds its session with every one.
struct Tenant {
    name: &'static str,
    notes: String,
    statements: Vec<Cow<'static, str>>,
}

impl Projection for Tenant {
    fn name(&self) -> &str {
        self.name
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        never()
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let number: u64 = event.data()?;
        let found: String = tx.query(look(&self.notes), vec![]).await?[0].get(0)?;
        let note = format!("INSERT INTO public.{} VALUES ($1, $2, $3)", self.notes);
        tx.execute(note, params![self.name, number, found]).await?;
        if number == 1 {
            for statement in &self.statements {
                tx.execute(statement.clone(), vec![]).await?;
            }
        }
        Ok(())
    }
}

/// A log with one session for handlers, and a table of notes.
async fn log_with_notes(db: &mut Db) -> (Log, String) {
    db.options.sessions = 1;
    let (log, notes) = (db.log().await, db.table("notes"));
    let create = format!("CREATE TABLE {notes} (consumer TEXT, number BIGINT, found TEXT)");
    query(&log, &create, vec![]).await;
    (log, notes)
}

async fn noted(log: &Log, notes: &str, consumer: &str, number: u64) -> String {
    let select = format!("SELECT found FROM {notes} WHERE consumer = $1 AND number = $2");
    until("a note", async || {
        let rows = query(log, &select, params![consumer, number]).await;
        rows.first().map(|row| row.get(0).unwrap())
    })
    .await
}

async fn what_a_handler_does_to_its_session_ends_with_its_transaction(mut db: Db) {
    let (log, notes) = log_with_notes(&mut db).await;
    let statements = vec![
        "SELECT set_config('search_path', 'pg_catalog', false)".into(),
        // What no reading of the text can find.
        "DO $$ BEGIN PERFORM set_config('time' || 'zone', 'Asia/Tokyo', false); END $$".into(),
        "SELECT set_config('shop.tenant', '7', false)".into(),
        "SELECT set_config('role', 'pg_monitor', false)".into(),
        "SELECT set_config('statement_timeout', '5000', false)".into(),
        "SELECT pg_advisory_lock(42)".into(),
        "DECLARE kept CURSOR WITH HOLD FOR SELECT 1".into(),
        format!("CREATE TEMP TABLE {notes} (a BIGINT)").into(),
    ];
    let tenant = Tenant { name: "tenant", notes: notes.clone(), statements };
    let other = Tenant { name: "other", notes: notes.clone(), statements: vec![] };
    let running = start(&log, ReplicaSet::new("s").projection(tenant).projection(other).lanes(1));
    fill(&log, 0..1, 1..=1).await;
    let (first, _) =
        (noted(&log, &notes, "tenant", 1).await, noted(&log, &notes, "other", 1).await);
    assert!(first.ends_with("role none tenant  locks 0 cursors 0 temporary false"), "{first}");
    fill(&log, 0..1, 2..=2).await;
    for consumer in ["tenant", "other"] {
        assert_eq!(noted(&log, &notes, consumer, 2).await, first);
    }
    running.stop().await;
}

async fn a_failed_handler_leaves_no_lock_behind(mut db: Db) {
    let (log, notes) = log_with_notes(&mut db).await;
    let statements = vec!["SELECT pg_advisory_lock(43)".into(), "SELECT 1 / 0".into()];
    let tenant = Tenant { name: "tenant", notes: notes.clone(), statements };
    fill(&log, 0..1, 1..=1).await;
    fill(&log, 1..2, 2..=2).await;
    let running = start(&log, ReplicaSet::new("s").projection(tenant).lanes(1));
    let found = noted(&log, &notes, "tenant", 2).await;
    assert!(found.contains("locks 0"), "{found}");
    until("its end", async || (status(&log, "tenant").await.parked_keys == 1).then_some(())).await;
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 43";
    until("no lock", async || (number(&log, locks).await == 0).then_some(())).await;
    running.stop().await;
}

async fn what_a_query_does_to_its_session_ends_with_it(mut db: Db) {
    db.options.readers = 1;
    let (log, notes) = log_with_notes(&mut db).await;
    let found = async |log: &Log| -> String {
        log.query(look(&notes), vec![]).await.unwrap()[0].get(0).unwrap()
    };
    let before = found(&log).await;
    for change in [
        "SELECT set_config('search_path', 'pg_catalog', false)",
        "SELECT set_config('timezone', 'Asia/Tokyo', false)",
        "SELECT pg_advisory_lock(44)",
    ] {
        let _: Vec<_> = log.query(change, vec![]).await.unwrap();
        assert_eq!(found(&log).await, before, "after {change}");
    }
    // One that fails keeps its lock as well.
    log.query("SELECT pg_advisory_lock(45), 1 / (length($1) - 1)", params!["a"]).await.unwrap_err();
    assert_eq!(found(&log).await, before);
}

async fn what_would_outlive_its_transaction_is_refused(mut db: Db) {
    let (log, notes) = log_with_notes(&mut db).await;
    let statements = ["PREPARE a AS SELECT 1", "DEALLOCATE ALL", "LISTEN a", "UNLISTEN *"];
    let local = ["SET LOCAL SESSION AUTHORIZATION pg_monitor"];
    fill(&log, 0..1, 1..=1).await;
    for statement in statements.into_iter().chain(local) {
        let tenant = Tenant { name: "t", notes: notes.clone(), statements: vec![statement.into()] };
        let error = ReplicaSet::new("s").projection(tenant).catch_up(&log).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains("a handler must not use"), "after {statement}: {error}");
        anabranch::operate::Consumers::new(&log).forget("t").await.unwrap();
    }
}

async fn a_handler_with_another_role_moves_its_cursor(mut db: Db) {
    let (log, notes) = log_with_notes(&mut db).await;
    let role = format!("tenant_{}", db.own);
    for sql in [format!("CREATE ROLE {role}"), format!("GRANT INSERT ON {notes} TO {role}")] {
        query(&log, &sql, vec![]).await;
    }
    let statements = vec![
        format!("SET LOCAL ROLE {role}").into(),
        format!("INSERT INTO {notes} VALUES (current_user, 0, '')").into(),
    ];
    let tenant = Tenant { name: "tenant", notes: notes.clone(), statements };
    fill(&log, 0..1, 1..=1).await;
    let done = ReplicaSet::new("s").projection(tenant).catch_up(&log).await;
    let of_role =
        number(&log, &format!("SELECT count(*) FROM {notes} WHERE consumer = '{role}'")).await;
    query(&log, &format!("DROP OWNED BY {role}"), vec![]).await;
    query(&log, &format!("DROP ROLE {role}"), vec![]).await;
    done.unwrap();
    assert_eq!(of_role, 1);
    assert_eq!(status(&log, "tenant").await.lag, 0);
}
