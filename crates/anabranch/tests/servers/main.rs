//! Servers that change under a fleet, each test with servers of its own: too few connections, read-only for a
//! while, promoted, behind a pooler.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod budget;
mod crashed;
#[path = "../replica_sets/crew.rs"]
mod crew;
mod crowds;
mod encryption;
mod fail_over;
mod fleet;
mod locks;
mod poolers;
mod read_only;
#[path = "../batches/records.rs"]
mod records;
#[path = "../consumers/said.rs"]
mod said;
mod server;
mod small;
mod stopped;
#[path = "../consumers/support.rs"]
mod support;

use server::Server;

#[test]
fn a_server_of_its_own_has_its_settings_and_ends_with_its_test() {
    let server = Server::start(&["max_connections=7"]);
    assert_eq!(server.ask("SHOW max_connections"), "7");
    let (home, port) = (server.home().to_owned(), server.port());
    drop(server);
    assert!(!home.exists());
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}
