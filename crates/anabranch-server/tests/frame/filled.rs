//! A log with something of everything that there is to look at.

use crate::support::{Db, fill};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, Tasks};
use anabranch::{Retry, params};
use uuid::Uuid;

pub const SECRET: &str = "s3cret";

pub struct Filled {
    pub log: Log,
    /// A task of the pool `mails`.
    pub task: Uuid,
}

/// `orders` has parked the key `Order:2` at its third event, and `others` has handled everything.
pub async fn filled(db: &Db) -> Filled {
    let log = db.log().await;
    fill(&log, 0..5, 1..=4).await;
    let refuses = |event: &Event| match (event.stream_id(), event.version()) {
        ("2", 3) => Err("poison".into()),
        _ => Ok(()),
    };
    let settings = Settings::default().retry(Retry::never());
    let orders = db.recorder("orders").hook(refuses).settings(settings);
    let set = ReplicaSet::new("main").projection(orders).projection(db.recorder("others"));
    let error = set.catch_up(&log).await.unwrap_err().to_string();
    assert!(error.contains("2 events of 1 key parked"), "{error}");
    Consumers::new(&log).start_audit("others").await.unwrap();
    let mails = Tasks::new(&log, "mails");
    let payload = format!(r#"{{"number": 12345678901234567890123, "to": "{SECRET}"}}"#);
    let payload: Box<serde_json::value::RawValue> = serde_json::from_str(&payload).unwrap();
    let task = mails.enqueue(NewTask::new("key", &payload)).await.unwrap().id;
    for _ in 0..3 {
        mails.enqueue(NewTask::new("other", &SECRET)).await.unwrap();
    }
    let seat = StreamId::new("seats", "12a").unwrap();
    for _ in 0..3 {
        log.append(&seat, Expected::Any, [NewEvent::new("Reserved", SECRET)]).await.unwrap();
    }
    // As the program with the code would keep it, some events ago.
    let dialect = log.database();
    let dialect = dialect.dialect();
    let snapshots = dialect.table("workflow_snapshots");
    let sql = format!(
        "INSERT INTO {snapshots} (workflow, id, version, state_version, mode, state) VALUES ($1, $2, $3, $4, $5, $6)"
    );
    let state = anabranch::Value::Json(format!(r#"{{"by": "{SECRET}"}}"#));
    let mut values = params!["seats", "12a", 2, 1, "running"];
    values.push(state);
    run(&log, sql, values).await;
    let deliveries = dialect.table("deliveries");
    let sql = format!(
        "INSERT INTO {deliveries} (consumer, id, key, first, last, edition, members, state, attempts, status, took_us, \
         answer, at_us, failures) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
    );
    let failures = format!(
        r#"[{{"at": "2026-01-01T00:00:00Z", "status": 500, "took_us": 7, "answer": "{SECRET}"}}]"#
    );
    let values = params![
        "orders",
        "msg_1",
        "Order:1",
        1,
        1,
        0,
        "[1]",
        "failed",
        1,
        500,
        7,
        SECRET,
        1_700_000_000_000_000_i64,
        failures
    ];
    run(&log, sql, values).await;
    Filled { log, task }
}

async fn run(log: &Log, sql: String, values: Vec<anabranch::Value>) {
    use anabranch::backend::database::{End, Statement};
    let statement = Statement::new(sql, values);
    log.database().control().run(vec![statement], End::Commit).await.unwrap();
}
