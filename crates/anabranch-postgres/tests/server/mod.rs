//! A log of its own for each test, on the server that `cargo xtask test` provides.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test binary uses a part")]

use anabranch_postgres::Postgres;
use anabranch_postgres::tokio_postgres::{Client, NoTls};
use anabranch_store::contract::Harness;
use anabranch_store::{Log, Namespace, Options};

/// The server. A missing one is a failure, never a skipped test.
pub fn url() -> String {
    std::env::var("ANABRANCH_TEST_POSTGRES").expect(
        "these tests need PostgreSQL: run `cargo xtask test`, or set ANABRANCH_TEST_POSTGRES to \
         the URL of a server where they may create schemas",
    )
}

/// A namespace that no other test has.
pub fn namespace() -> Namespace {
    Namespace::new(format!("t_{:016x}", uuid::Uuid::now_v7().as_u64_pair().1)).unwrap()
}

pub fn harness() -> Harness {
    let own = namespace();
    Harness::new(true, (), move |options| {
        let namespace = if options.namespace == Namespace::default() {
            own.clone()
        } else {
            Namespace::new(format!("{own}_{}", options.namespace)).unwrap()
        };
        let options = Options { namespace, ..options };
        Box::pin(async move { Ok(Log::new(Postgres::connect(&url(), &options).await?)) })
    })
}

pub async fn open(namespace: &Namespace) -> Log {
    let options = Options { namespace: namespace.clone(), ..Options::default() };
    Log::new(Postgres::connect(&url(), &options).await.unwrap())
}

/// A plain connection, as an application's own.
pub async fn client() -> Client {
    client_of(&url()).await
}

pub async fn client_of(url: &str) -> Client {
    let (client, connection) =
        anabranch_postgres::tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
