//! A role, a database or a server that cannot write for a while: appends say so, workers wait, and all go on by
//! themselves, though sessions of that time may stay as they were made.

use crate::fleet::Fleet;
use crate::server::Server;
use crate::support::Db;

/// A server with an application's role, and a fleet that connects as that.
async fn fleet() -> (Server, Fleet) {
    let server = Server::start(&[]);
    server.ask("CREATE ROLE app LOGIN PASSWORD 'x'");
    server.ask("GRANT CREATE ON DATABASE postgres TO app");
    server.ask("GRANT ALL ON SCHEMA public TO app");
    let url = server.url_of("app", "x");
    let fleet = Fleet::start(Db::at(url.clone()), [&url, &url], &url).await;
    (server, fleet)
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
