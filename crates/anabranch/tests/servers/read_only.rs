//! A role, a database or a server that cannot write for a while: appends say so, workers wait, and all go on by
//! themselves, though sessions of that time may stay as they were made.

use crate::fleet::Fleet;
use crate::records::Records;
use crate::server::Server;
use crate::support::{Db, fill, proof, until};
use anabranch::RunError;
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

/// Whoever waits for the end of a catch-up is told, and can grant it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catch_up_without_rights_says_so() {
    let (server, db) = with_role();
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let catch_up = async || ReplicaSet::new("s").projection(recorder.clone()).catch_up(&log).await;
    catch_up().await.unwrap();
    fill(&log, 0..3, 1..=2).await;
    server.ask(&format!("REVOKE INSERT ON {} FROM app", recorder.table));
    let error = catch_up().await.unwrap_err();
    assert!(matches!(error, RunError::Store(StoreError::Denied { .. })), "{error}");
    assert!(error.to_string().contains(&recorder.table), "{error}");
    server.ask(&format!("GRANT INSERT ON {} TO app", recorder.table));
    catch_up().await.unwrap();
    assert_eq!(proof(&log, &recorder.table).await.handled, 6);
}

/// Rows of a batch are handled once, though its database could not be written to in the middle of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_waits_for_a_role_that_may_not_write_for_a_while() {
    let (server, db) = with_role();
    let (server, log) = (Arc::new(server), db.log().await);
    let (is_frozen, freezer) = (Arc::new(AtomicBool::new(false)), Arc::clone(&server));
    let froze = Arc::clone(&is_frozen);
    let records = Records::new(&db, &log, 1..=500).await.hook(move |record| {
        if record.key() == "100" && !froze.swap(true, Ordering::SeqCst) {
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
    let refused = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'";
    until("sessions of that time", async || {
        let is_there = is_frozen.load(Ordering::SeqCst) && server.ask(refused) != "0";
        assert!(!running.is_finished());
        is_there.then_some(())
    })
    .await;
    server.ask("ALTER ROLE app SET default_transaction_read_only = off");
    let summary = running.await.unwrap().unwrap();
    assert_eq!((summary.failed, summary.lost), (0, 0));
    assert_eq!(records.copied(&log).await, (500, 0));
    assert!(batch.verify(&log).await.unwrap().violations(true).is_empty());
}
