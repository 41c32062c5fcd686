//! The debug mode that names a row which events of two slots write.

use crate::gates::never;
use crate::on_both;
use crate::support::{Db, fill, number, query, status};
use anabranch::RunError;
use anabranch::operate::Consumers;
use anabranch::prelude::*;

on_both! {
    a_row_that_two_slots_write_is_named,
    rows_of_one_slot_each_are_fine,
    what_cannot_be_watched_is_refused,
    a_run_without_it_removes_the_triggers,
    forgetting_removes_the_triggers,
    events_that_are_tried_again_together_are_told_apart,
}

/// Reads a shared row and writes it back: right on one lane, wrong on several.
struct Shared {
    table: &'static str,
    declares: &'static [&'static str],
    /// Which row an event is added to.
    row: fn(&Event) -> String,
}

impl Projection for Shared {
    fn name(&self) -> &str {
        "shared"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        never()
    }
    fn tables(&self) -> &[&'static str] {
        self.declares
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let (table, row) = (self.table, (self.row)(event));
        let read = format!("SELECT events FROM {table} WHERE day = $1 AND kind = 'o''k'");
        let found = tx.query_first(read, params![&row]).await?;
        let before: i64 = found.map_or(Ok(0), |row| row.get("events"))?;
        let write = format!(
            "INSERT INTO {table} (day, kind, events) VALUES ($1, 'o''k', $2) \
             ON CONFLICT (day, kind) DO UPDATE SET events = excluded.events"
        );
        tx.execute(write, params![row, before + 1]).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let create = format!(
            "CREATE TABLE {} (day TEXT, kind TEXT, events BIGINT, PRIMARY KEY (day, kind))",
            self.table
        );
        tx.execute(create, vec![]).await
    }
}

/// Tables of a case have names of their own, and names of projections are constants.
fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn shared(db: &Db, row: fn(&Event) -> String) -> Shared {
    let table = leak(db.table("shared"));
    Shared { table, declares: Box::leak(Box::new([table])), row }
}

async fn a_row_that_two_slots_write_is_named(db: Db) {
    let log = db.log().await;
    fill(&log, 0..8, 1..=3).await;
    let set = ReplicaSet::new("s").projection(shared(&db, |_| "today".to_owned())).lanes(4);
    let _ = set.check_rows().catch_up(&log).await;
    let parked = Consumers::new(&log).parked("shared").await.unwrap();
    assert!(!parked.is_empty());
    for parked in &parked {
        let error = &parked.error;
        assert!(error.contains("day=") && error.contains("today"), "{error}");
        assert!(
            error.contains(&format!("of table {} was written for slot", db.table("shared"))),
            "{error}"
        );
        assert!(error.contains(&format!("({})", parked.key)), "{error}");
    }
    let counted = number(&log, &format!("SELECT events FROM {}", db.table("shared"))).await;
    let status = status(&log, "shared").await;
    assert_eq!(counted + status.parked_events as i64, 24);
}

async fn rows_of_one_slot_each_are_fine(db: Db) {
    let log = db.log().await;
    fill(&log, 0..12, 1..=3).await;
    let set = || {
        let shared = shared(&db, |event| event.stream_id().to_owned());
        ReplicaSet::new("s").projection(shared).lanes(4).check_rows()
    };
    set().catch_up(&log).await.unwrap();
    fill(&log, 0..12, 4..=4).await;
    let progress = set().catch_up(&log).await.unwrap();
    assert_eq!(progress.consumers[0].handled, 12);
    let counted = format!("SELECT CAST(sum(events) AS BIGINT) FROM {}", db.table("shared"));
    assert_eq!(number(&log, &counted).await, 48);
    // Who writes beside it is not watched.
    query(&log, &format!("UPDATE {} SET events = 0 RETURNING 1", db.table("shared")), vec![]).await;
}

async fn what_cannot_be_watched_is_refused(db: Db) {
    let log = db.log().await;
    let table = leak(db.table("shared"));
    let row = |_: &Event| String::new();
    let cases: [(&'static [&'static str], &str); 2] =
        [(&[], "does not say which tables it writes"), (&["nowhere"], "no table `nowhere`")];
    for (declares, said) in cases {
        let set = ReplicaSet::new("s").projection(Shared { table, declares, row }).check_rows();
        match set.catch_up(&log).await {
            Err(RunError::Refused { problem, .. }) => assert!(problem.contains(said), "{problem}"),
            other => panic!("{other:?}"),
        }
    }
}

async fn a_run_without_it_removes_the_triggers(db: Db) {
    let log = db.log().await;
    fill(&log, 0..6, 1..=1).await;
    let set = || ReplicaSet::new("s").projection(shared(&db, |_| "today".to_owned()));
    let _ = set().check_rows().catch_up(&log).await;
    assert!(status(&log, "shared").await.parked_events > 0);
    Consumers::new(&log).skip_to_head("shared").await.unwrap();
    fill(&log, 0..6, 2..=2).await;
    let progress = set().catch_up(&log).await.unwrap();
    assert_eq!(progress.consumers[0].handled, 6);
    let writers = log.store().database().dialect().table("row_writers");
    assert_eq!(number(&log, &format!("SELECT count(*) FROM {writers}")).await, 0);
}

async fn triggers(log: &Log, db: &Db) -> i64 {
    let table = db.table("shared");
    let count = match log.store().database().dialect().name() {
        "sqlite" => {
            format!(
                "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = '{table}'"
            )
        }
        _ => format!("SELECT count(*) FROM pg_trigger WHERE tgrelid = '{table}'::regclass"),
    };
    number(log, &count).await
}

async fn forgetting_removes_the_triggers(db: Db) {
    let log = db.log().await;
    let set = ReplicaSet::new("s").projection(shared(&db, |_| "today".to_owned()));
    set.check_rows().catch_up(&log).await.unwrap();
    assert!(triggers(&log, &db).await > 0);
    Consumers::new(&log).forget("shared").await.unwrap();
    assert_eq!(triggers(&log, &db).await, 0);
}

/// A key that had failed is drained with several events at once.
async fn events_that_are_tried_again_together_are_told_apart(db: Db) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=1).await;
    let set = || {
        let shared = shared(&db, |event| match event.data::<u64>() {
            Ok(3) => "today".to_owned(),
            _ => event.stream_id().to_owned(),
        });
        ReplicaSet::new("s").projection(shared).check_rows()
    };
    set().catch_up(&log).await.unwrap();
    // Both keys are set aside before their later events come, of which the third is the guilty one.
    let (keys, now) = (log.store().database().dialect().table("parked_keys"), "0");
    for stream in 0..2 {
        let slot = log.hash_rule().slot(&stream.to_string()).get();
        let park = format!(
            "INSERT INTO {keys} (consumer, key, slot, attempts, error, since_us, retry_us) \
             VALUES ('shared', 'Order:{stream}', {slot}, 1, 'x', {now}, NULL) RETURNING key"
        );
        query(&log, &park, vec![]).await;
    }
    fill(&log, 0..2, 2..=4).await;
    set().catch_up(&log).await.unwrap_err();
    for stream in 0..2 {
        Consumers::new(&log).retry_parked("shared", &format!("Order:{stream}")).await.unwrap();
    }
    set().catch_up(&log).await.unwrap_err();
    let parked = Consumers::new(&log).parked("shared").await.unwrap();
    assert_eq!(parked.len(), 1, "{parked:?}");
    assert_eq!(parked[0].events, 2, "the guilty one and the one behind it");
    assert!(parked[0].error.contains(&format!("({})", parked[0].key)), "{}", parked[0].error);
}
