//! A role, a database or a server that cannot write for a while: appends say so, workers wait, and all go on by
//! themselves, though sessions of that time may stay as they were made.

use crate::fleet::Fleet;
use crate::records::Records;
use crate::server::Server;
use crate::support::{Db, fill, left_by, proof, until};
use anabranch::Retry;
use anabranch::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server with an application's role, and a fleet that connects as that.
async fn fleet() -> (Server, Fleet) {
    let (server, db) = with_role();
    let url = db.url.clone();
    let fleet = Fleet::start(db, [&url, &url], &url).await;
    (server, fleet)
}

fn with_role() -> (Server, Db) {
    let server = Server::start(&[]);
    server.ask("CREATE ROLE app LOGIN PASSWORD 'x'");
    server.ask("GRANT CREATE ON DATABASE postgres TO app");
    server.ask("GRANT ALL ON SCHEMA public TO app");
    let db = Db::at(server.url_of("app", "x"));
    (server, db)
}

/// Ends all sessions of the application: it opens new ones, with the defaults of now.
fn cut(server: &Server) {
    server
        .ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'app'");
}

/// A way in that may write while others may not.
fn way_in(server: &Server) -> String {
    format!("{}?options=-c%20default_transaction_read_only%3Doff", server.url())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_not_write_for_a_while_is_waited_for() {
    let (server, mut fleet) = fleet().await;
    server.ask("ALTER ROLE app SET default_transaction_read_only = on");
    cut(&server);
    fleet.until_refused("is read-only", &way_in(&server)).await;
    // Sessions that were opened meanwhile keep what they began with.
    server.ask("ALTER ROLE app SET default_transaction_read_only = off");
    fleet.end(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_read_only_for_a_while_is_waited_for() {
    let (server, mut fleet) = fleet().await;
    server.ask("ALTER DATABASE postgres SET default_transaction_read_only = on");
    cut(&server);
    fleet.until_refused("is read-only", &way_in(&server)).await;
    server.ask(
        "BEGIN READ WRITE; ALTER DATABASE postgres RESET default_transaction_read_only; COMMIT",
    );
    fleet.end(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_read_only_for_a_while_is_waited_for() {
    let (server, mut fleet) = fleet().await;
    server.ask("ALTER SYSTEM SET default_transaction_read_only = on");
    server.ask("SELECT pg_reload_conf()");
    fleet.until_refused("is read-only", &way_in(&server)).await;
    server.ask("ALTER SYSTEM RESET default_transaction_read_only");
    server.ask("SELECT pg_reload_conf()");
    fleet.end(&server.url()).await;
}

/// The role stays, and loses its rights for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_rights_is_waited_for_and_parks_nothing() {
    let (server, mut fleet) = fleet().await;
    let all = |change: &str| {
        let change = format!(
            "DO $$ DECLARE schema text; BEGIN FOR schema IN SELECT nspname FROM pg_namespace \
             WHERE nspname = 'public' OR nspname LIKE 't\\_%' LOOP EXECUTE format('{change}', schema); \
             END LOOP; END $$"
        );
        server.ask(&change);
    };
    all("REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I FROM app");
    fleet.until_refused("denied permission", &way_in(&server)).await;
    all("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I TO app");
    fleet.end(&server.url()).await;
}

/// The caller of a catch-up gets the error, and can grant it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catch_up_without_rights_says_so() {
    let (server, db) = with_role();
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let catch_up = async || ReplicaSet::new("s").projection(recorder.clone()).catch_up(&log).await;
    catch_up().await.unwrap();
    fill(&log, 0..3, 1..=2).await;
    server.ask(&format!("REVOKE INSERT ON {} FROM app", recorder.table));
    let error = catch_up().await.unwrap_err().to_string();
    assert!(error.contains("denied permission") && error.contains(&recorder.table), "{error}");
    server.ask(&format!("GRANT INSERT ON {} TO app", recorder.table));
    catch_up().await.unwrap();
    assert_eq!(proof(&log, &recorder.table).await.handled, 6);
}

/// A policy that lets some rows pass and others not: that lies in the event, and its key alone waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_a_policy_refuses_is_the_failure_of_its_key() {
    let (server, db) = with_role();
    let log = db.log().await;
    let settings = Settings::default().retry(Retry::never());
    let recorder = db.recorder("orders").settings(settings);
    let set = || ReplicaSet::new("s").projection(recorder.clone());
    set().catch_up(&log).await.unwrap();
    let table = &recorder.table;
    server.ask(&format!("ALTER TABLE {table} OWNER TO postgres; GRANT ALL ON {table} TO app"));
    server.ask(&format!("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"));
    server
        .ask(&format!("CREATE POLICY most ON {table} USING (true) WITH CHECK (key NOT LIKE '%1')"));
    fill(&log, 0..3, 1..=2).await;
    let left = left_by(set(), &log).await;
    assert_eq!((left.parked_keys, left.parked_events), (1, 2));
    assert_eq!(proof(&log, table).await.handled, 4);
}

/// Rows of a batch are handled once, though its database could not be written to in the middle of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_waits_for_a_role_that_may_not_write_for_a_while() {
    let (server, db) = with_role();
    let (server, log) = (Arc::new(server), db.log().await);
    let (is_frozen, freezer) = (AtomicBool::new(false), Arc::clone(&server));
    let records = Records::new(&db, &log, 1..=500).await.hook(move |record| {
        if record.key() == "100" && !is_frozen.swap(true, Ordering::SeqCst) {
            freezer.ask("ALTER ROLE app SET default_transaction_read_only = on");
            cut(&freezer);
        }
        Ok(())
    });
    let (batch, copier) = (records.batch().batch_size(50), records.clone());
    let running = {
        let (batch, log) = (batch.clone(), log.clone());
        tokio::spawn(async move { batch.run(&log, copier).await })
    };
    until("a statement that was refused", async || {
        let said = std::fs::read_to_string(server.home().join("server.log")).unwrap();
        assert!(!running.is_finished());
        said.contains("in a read-only transaction").then_some(())
    })
    .await;
    server.ask("ALTER ROLE app SET default_transaction_read_only = off");
    let summary = running.await.unwrap().unwrap();
    assert_eq!((summary.failed, summary.lost), (0, 0));
    assert_eq!(records.copied(&log).await, (500, 0));
    assert!(batch.verify(&log).await.unwrap().violations(true).is_empty());
}
