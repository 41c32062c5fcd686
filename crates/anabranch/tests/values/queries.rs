//! Reading one's own tables through the log.

use crate::support::{Db, fill, proof};
use crate::{on_both, on_postgres};
use anabranch::backend::database::{End, Statement};
use anabranch::prelude::*;
use std::time::Duration;

on_both! {
    what_a_projection_wrote_is_read_through_the_log,
    a_query_waits_for_nobody_who_writes,
}

on_postgres! {
    what_writes_inside_a_query_is_refused,
}

async fn what_a_projection_wrote_is_read_through_the_log(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=3).await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    ReplicaSet::new("s").projection(recorder).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await.handled, 15);
    let count = format!("SELECT count(*) AS n FROM {table} WHERE position > $1");
    let row = log.query_first(&count, params![Position::new(5)]).await.unwrap().unwrap();
    assert_eq!(row.get("n"), Ok(10));
}

async fn a_query_waits_for_nobody_who_writes(db: Db) {
    let (log, name) = (db.log().await, db.table("t"));
    let run = |sql: String| Statement::new(sql, vec![]);
    let set_up = vec![run(format!("CREATE TABLE {name} (id BIGINT)"))];
    log.store().database().begin().run(set_up, End::Commit).await.unwrap();
    let mut open = log.store().database().begin();
    let end = End::Open { idle: Duration::from_secs(30) };
    open.run(vec![run(format!("INSERT INTO {name} VALUES (1)"))], end).await.unwrap();
    let count = &format!("SELECT count(*) FROM {name}");
    let committed = async || log.query(count, vec![]).await.unwrap()[0].get::<i64>(0).unwrap();
    assert_eq!(committed().await, 0, "nothing is committed yet");
    open.run(vec![], End::Commit).await.unwrap();
    assert_eq!(committed().await, 1);
}

/// A function may write, and the server knows.
async fn what_writes_inside_a_query_is_refused(db: Db) {
    let (log, name) = (db.log().await, db.table("numbers"));
    let create = Statement::new(format!("CREATE SEQUENCE {name}"), vec![]);
    log.store().database().begin().run(vec![create], End::Commit).await.unwrap();
    let next = format!("SELECT nextval('{name}')");
    let error = log.query(&next, vec![]).await.unwrap_err().to_string();
    assert!(error.contains("this only reads"), "{error}");
    let writes = log.query("SHOW transaction_read_only", vec![]).await.unwrap();
    assert_eq!(writes[0].get(0), Ok("on".to_owned()));
    // What was refused leaves no session behind that only reads.
    log.append(&"Order:1".parse().unwrap(), Expected::Any, [NewEvent::new("OrderPlaced", ())])
        .await
        .unwrap();
}
