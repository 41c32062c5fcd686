//! What a session keeps, and how it reads statements.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;

use anabranch_postgres::Postgres;
use anabranch_store::database::Statement;
use anabranch_store::{Log, Options};
use server::{namespace, open, url};

/// Programs that write values into their statements have a new one for each event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_are_not_used_again_do_not_stay_prepared() {
    let log = open(&namespace()).await;
    let query = async |sql: String| {
        log.database().rows(Statement::query(sql, Vec::new())).await.unwrap().remove(0)
    };
    for number in 0..700 {
        query(format!("SELECT {number} AS n")).await;
    }
    let kept = query("SELECT count(*) AS n FROM pg_prepared_statements".to_owned()).await;
    let kept: i64 = kept.get("n").unwrap();
    assert!((100..=510).contains(&kept), "{kept} are kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strings_are_read_as_the_standard_says_whatever_the_servers_default() {
    let other = "options=-c%20standard_conforming_strings%3Doff";
    let url = url();
    let mark = if url.contains('?') { '&' } else { '?' };
    let options = Options { namespace: namespace(), ..Options::default() };
    let postgres = Postgres::connect(&format!("{url}{mark}{other}"), &options).await.unwrap();
    let log = Log::new(postgres);
    let query = Statement::query(r"SELECT 'it\' AS a", Vec::new());
    let found = log.database().rows(query).await.unwrap().remove(0);
    assert_eq!(found.get::<String>("a").unwrap(), r"it\");
}
