//! Jobs of batch records: who runs them, and rows that have failed.

use crate::client::Server;
use crate::filled::SECRET;
use crate::on_both;
use crate::support::{Db, query};
use anabranch::batch::{Batch, Record, RowHandler, Source};
use anabranch::prelude::*;
use anabranch::{Log, params};
use anabranch_server::Scope;
use serde_json::{Value, json};

on_both!(
    jobs_are_shown_with_who_runs_them,
    failed_rows_come_page_by_page,
    a_page_is_short_where_failed_rows_are_few,
    a_mask_hides_queries_and_what_handlers_said,
    names_of_tables_are_taken_strictly,
    a_table_that_is_no_log_has_no_jobs,
    jobs_come_page_by_page,
);

/// Refuses even numbers.
struct Odd;

impl RowHandler for Odd {
    async fn handle(&self, record: &Record, _: &mut Tx) -> HandlerResult {
        match record.key().parse::<u64>()? % 2 {
            1 => Ok(()),
            _ => Err(format!("{SECRET} of {}", record.key()).into()),
        }
    }
}

/// A log with the jobs `mails`, of a table with the rows 1 to 7, and `some`, of a query for three of them. Its name.
pub async fn handled(db: &Db, log: &Log) -> String {
    let (rows, table) = (db.table("rows"), db.table("plog"));
    query(log, &format!("CREATE TABLE {rows} (id BIGINT NOT NULL PRIMARY KEY)"), vec![]).await;
    for id in 1..=7 {
        query(log, &format!("INSERT INTO {rows} VALUES ($1)"), params![id]).await;
    }
    let mails = Batch::new("mails", Source::table(&rows, "id")).log_table(&table);
    let summary = mails.run(log, Odd).await.unwrap();
    assert_eq!((summary.succeeded, summary.failed), (4, 3));
    let some = format!("SELECT id FROM {rows} WHERE id < 4 AND '{SECRET}' <> ''");
    let some = Batch::new("some", Source::query(some, "id")).assume_unique().log_table(&table);
    some.run(log, Odd).await.unwrap();
    table
}

async fn get(server: &Server, path: &str) -> Value {
    server.ask("GET", path, &[], "").await.good()
}

fn names<'a>(list: &'a Value, name: &str) -> Vec<&'a str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item[name].as_str().unwrap()).collect()
}

/// A session whose lease is over so many microseconds from now.
async fn begin(log: &Log, table: &str, id: &str, lease: i64) {
    let database = log.database();
    let now = database.dialect().now_us();
    let insert = format!(
        "INSERT INTO {table}_sessions (id, job, part, host, pid, started_us, lease_us) \
         VALUES ($1, 'mails', '0 of 2', 'there', 7, {now}, {now} + $2)"
    );
    query(log, &insert, params![id, lease]).await;
}

async fn jobs_are_shown_with_who_runs_them(db: Db) {
    let log = db.log().await;
    let table = handled(&db, &log).await;
    let server = Server::start(&log).await;
    let path = format!("/v1/batches?table={table}");
    let jobs = get(&server, &path).await;
    assert_eq!((names(&jobs, "job"), &jobs["next"]), (vec!["mails", "some"], &Value::Null));
    let of = |job: usize| &jobs["items"][job]["of"];
    let is_of_rows = of(0)["source"].as_str().unwrap().ends_with(&db.table("rows"));
    assert!(is_of_rows && of(0)["kind"] == "table" && of(0)["key_column"] == "id", "{}", of(0));
    assert!(of(1)["source"].as_str().unwrap().starts_with("SELECT") && of(1)["kind"] == "query");
    // Whoever has ended has no lease.
    let session = &jobs["items"][0]["sessions"][0];
    assert_eq!((&session["is_alive"], &session["lease_until"]), (&json!(false), &Value::Null));
    assert_eq!(
        (&session["part"], &session["pid"]),
        (&json!("elastic"), &std::process::id().into())
    );

    // Those that are alive come first, though others are newer.
    begin(&log, &table, "00-alive", 600_000_000).await;
    begin(&log, &table, "ff-died", -1_000_000).await;
    let job = get(&server, &path).await["items"][0].clone();
    let ids: Vec<_> = job["sessions"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!((ids[0], ids[1], ids.len()), (&json!("00-alive"), &json!("ff-died"), 3));
    assert_eq!((&job["sessions"][0]["is_alive"], &job["session_count"]), (&json!(true), &json!(3)));
    let died = &job["sessions"][1];
    assert!(died["is_alive"] == false && died["lease_until"].is_string(), "{died}");

    // There may be any number of those that have ended.
    for id in 0..60 {
        begin(&log, &table, &format!("0-{id}"), -1_000_000).await;
    }
    let job = get(&server, &path).await["items"][0].clone();
    assert_eq!(job["sessions"].as_array().unwrap().len(), 50);
    assert_eq!(
        (&job["sessions"][0]["id"], &job["session_count"]),
        (&json!("00-alive"), &json!(63))
    );

    // A job from before its source was stored has sessions only.
    query(&log, &format!("DELETE FROM {table}_jobs WHERE job = 'mails'"), vec![]).await;
    let job = get(&server, &path).await["items"][0].clone();
    assert_eq!((&job["job"], &job["of"]), (&json!("mails"), &Value::Null));
    get(&server, &format!("/v1/batches/mails/failed?table={table}")).await;
}

async fn failed_rows_come_page_by_page(db: Db) {
    let log = db.log().await;
    let table = handled(&db, &log).await;
    let server = Server::start(&log).await;
    let path = format!("/v1/batches/mails/failed?table={table}");
    let all = get(&server, &path).await;
    assert_eq!((names(&all, "key"), &all["next"]), (vec!["2", "4", "6"], &Value::Null));
    let first = &all["items"][0];
    assert_eq!(
        (&first["error"], &first["attempts"]),
        (&json!(format!("{SECRET} of 2")), &json!(1))
    );
    let mut keys = Vec::new();
    let mut after = String::new();
    loop {
        let page = get(&server, &format!("{path}&limit=2{after}")).await;
        keys.extend(names(&page, "key").into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(keys, ["2", "4", "6"]);
    // Another job has rows of its own, and none is 404.
    let some = get(&server, &format!("/v1/batches/some/failed?table={table}")).await;
    assert_eq!(names(&some, "key"), ["2"]);
    for job in ["none", "mails'", "mails%27%20OR%20%271%27=%271", "%25"] {
        let path = format!("/v1/batches/{job}/failed?table={table}");
        server.ask("GET", &path, &[], "").await.problem(404, "no_such_job");
    }
    // What is searched for is a value, whatever it holds.
    let after = get(&server, &format!("{path}&after=3%27%20OR%201=1%20--")).await;
    assert_eq!(names(&after, "key"), ["4", "6"]);
}

async fn a_page_is_short_where_failed_rows_are_few(db: Db) {
    let log = db.log().await;
    let table = handled(&db, &log).await;
    let many = format!(
        "INSERT INTO {table} (job, key, state, session, part, attempts, error, claimed_us, finished_us) \
         WITH RECURSIVE r (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n < 50010) \
         SELECT CASE WHEN n % 2 = 0 THEN 'mails' ELSE 'other' END, \
         'k' || CAST(100000 + n AS text), CASE WHEN n = 50004 THEN 'failed' ELSE 'success' END, \
         's', 'elastic', 1, NULL, 1, 1 FROM r"
    );
    query(&log, &many, vec![]).await;
    let server = Server::start(&log).await;
    let path = format!("/v1/batches/mails/failed?table={table}");
    let first = get(&server, &path).await;
    assert_eq!(names(&first, "key"), ["2", "4", "6"]);
    let next = first["next"].as_str().unwrap();
    let second = get(&server, &format!("{path}&after={next}")).await;
    assert_eq!((names(&second, "key"), &second["next"]), (vec!["k150004"], &Value::Null));
}

async fn a_mask_hides_queries_and_what_handlers_said(db: Db) {
    let log = db.log().await;
    let table = handled(&db, &log).await;
    let server = Server::start(&log).await;
    let (read, masked) =
        (server.token(&[Scope::Read]).await, server.token(&[Scope::ReadMasked]).await);
    for path in ["/v1/batches", "/v1/batches/mails/failed"] {
        let path = format!("{path}?table={table}");
        assert!(server.get(&path, &read).await.text.contains(SECRET), "{path}");
        let hidden = server.get(&path, &masked).await;
        assert!(hidden.status == 200 && !hidden.text.contains(SECRET), "{path}: {}", hidden.text);
    }
    let hidden = server.get(&format!("/v1/batches?table={table}"), &masked).await.good();
    assert!(hidden["items"][0]["of"]["source"].as_str().unwrap().contains("rows"), "{hidden}");
    let append = server.token(&[Scope::Append]).await;
    server.get("/v1/batches", &append).await.problem(403, "not_allowed");
}

async fn names_of_tables_are_taken_strictly(db: Db) {
    let log = db.log().await;
    let table = handled(&db, &log).await;
    let server = Server::start(&log).await;
    for wrong in [
        "",
        ".",
        "a.b.c",
        "a%20b",
        "a%22",
        "a%22;%20DROP%20TABLE%20a;%20--",
        "a%27%20OR%20%271%27=%271",
        "(SELECT%201)",
        "a--",
        "a/*",
        "x&table=y",
    ] {
        for path in ["/v1/batches", "/v1/batches/mails/failed"] {
            let path = format!("{path}?table={wrong}");
            server.ask("GET", &path, &[], "").await.problem(400, "invalid_input");
        }
    }
    for wrong in ["limit=0", "limit=1001", "limit=x", "tables=x"] {
        for path in ["/v1/batches", "/v1/batches/mails/failed"] {
            let path = format!("{path}?{wrong}");
            server.ask("GET", &path, &[], "").await.problem(400, "invalid_input");
        }
    }
    // A schema is said before a dot.
    let rows =
        query(&log, &format!("SELECT source FROM {table}_jobs WHERE job = 'mails'"), vec![]).await;
    let source: String = rows[0].get("source").unwrap();
    let schema = source.split('.').next().unwrap();
    let jobs = get(&server, &format!("/v1/batches?table={schema}.{table}")).await;
    assert_eq!(names(&jobs, "job"), ["mails", "some"]);
}

async fn a_table_that_is_no_log_has_no_jobs(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let none = |table: String| {
        let server = &server;
        async move {
            let jobs = get(server, &format!("/v1/batches?table={table}")).await;
            assert_eq!(jobs, json!({"items": [], "next": null}), "{table}");
            let failed = format!("/v1/batches/mails/failed?table={table}");
            server.ask("GET", &failed, &[], "").await.problem(404, "no_such_job");
        }
    };
    none("nowhere.at_all".to_owned()).await;
    none(db.table("nothing")).await;
    // Somebody else's tables with the names.
    let table = db.table("theirs");
    for name in ["", "_history", "_sessions", "_jobs"] {
        query(&log, &format!("CREATE TABLE {table}{name} (job TEXT, secret TEXT)"), vec![]).await;
    }
    none(table).await;
    // Nothing was made by looking.
    let made = db.table("made");
    none(made.clone()).await;
    query(&log, &format!("CREATE TABLE {made}_jobs (id BIGINT)"), vec![]).await;
    none(made).await;
}

async fn jobs_come_page_by_page(db: Db) {
    let log = db.log().await;
    let table = handled(&db, &log).await;
    let server = Server::start(&log).await;
    let first = get(&server, &format!("/v1/batches?table={table}&limit=1")).await;
    assert_eq!((names(&first, "job"), &first["next"]), (vec!["mails"], &json!("mails")));
    assert_eq!(first["items"][0]["session_count"], 1);
    let next = get(&server, &format!("/v1/batches?table={table}&limit=1&after=mails")).await;
    assert_eq!((names(&next, "job"), &next["next"]), (vec!["some"], &Value::Null));
}
