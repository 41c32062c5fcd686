//! Two versions of a projection, compared over HTTP.

use crate::client::Server;
use crate::described;
use crate::on_both;
use crate::support::{Db, fill};
use anabranch::prelude::*;
use anabranch_server::{NewToken, Scope};
use serde_json::json;

on_both!(both_versions_are_compared_row_by_row);

/// Sums by order, and by another factor in another version.
#[derive(Clone)]
struct Sums {
    table: &'static str,
    version: u32,
}

impl Projection for Sums {
    fn name(&self) -> &str {
        "sums"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        Settings::default().version(self.version)
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        // One order comes out otherwise.
        let factor = if event.stream_id() == "2" { i64::from(self.version) } else { 1 };
        let table = tx.table(self.table);
        let upsert = format!(
            "INSERT INTO {table} (id, sum) VALUES ($1, $2) \
             ON CONFLICT (id) DO UPDATE SET sum = {table}.sum + excluded.sum"
        );
        tx.execute(upsert, params![event.stream_id(), event.data::<i64>()? * factor]).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let table = tx.table(self.table);
        tx.execute(format!("CREATE TABLE {table} (id TEXT PRIMARY KEY, sum BIGINT)"), vec![]).await
    }
}

async fn both_versions_are_compared_row_by_row(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=3).await;
    let table: &'static str = Box::leak(db.table("sums").into_boxed_str());
    let old = Sums { table, version: 1 };
    ReplicaSet::new("s").projection(old.clone()).catch_up(&log).await.unwrap();
    let server = Server::start(&log).await;
    let (read, masked) =
        (server.token(&[Scope::Read]).await, server.token(&[Scope::ReadMasked]).await);
    let path = format!("/v1/consumers/sums/rebuild?table={table}");
    server.get(&path, &read).await.problem(404, "no_rebuild");
    ReplicaSet::new("s").rebuild(Sums { version: 2, ..old }).catch_up(&log).await.unwrap();

    let document = server.ask("GET", "/v1/openapi.json", &[], "").await.good();
    let operation = &document["paths"]["/v1/consumers/{name}/rebuild"]["get"];
    for token in [&read, &masked] {
        let answer = server.get(&path, token).await;
        described::compare(&document, operation, &answer).unwrap();
    }
    let compared = server.get(&path, &read).await.good();
    let first = &compared["tables"][0];
    assert_eq!((&compared["is_same"], &first["table"]), (&json!(false), &json!(table)));
    assert_eq!((&first["only_old"], &first["only_new"]), (&json!(1), &json!(1)));
    assert_eq!(first["examples"], json!(["- id=\"2\" sum=6", "+ id=\"2\" sum=12"]));
    let hidden = server.get(&path, &masked).await.good();
    assert_eq!(
        (&hidden["tables"][0]["only_old"], &hidden["tables"][0]["examples"]),
        (&json!(1), &json!([]))
    );

    let of = |table: &str| format!("/v1/consumers/sums/rebuild?table={table}");
    server.get(&of("none"), &read).await.problem(404, "no_such_table");
    for wrong in ["a;b", "a%20b", "\"a\"", "", "1a"] {
        let wrong = wrong.replace('"', "%22");
        server.get(&of(&wrong), &read).await.problem(400, "invalid_input");
    }
    let mut limited = NewToken::new("limited", [Scope::Read]);
    limited.consumers = Some(["sums".to_owned()].into());
    let (_, limited) = server.make(limited).await;
    server.get(&path, &limited).await.problem(403, "not_allowed");
}
