//! Exactly once, whatever begins again.

use crate::running::{accept, catch_up, projection, rows};
use crate::support::Db;
use anabranch::Value;
use anabranch::operate::{Consumers, ReplayFrom};
use anabranch::prelude::*;
use serde_json::json;

const TOTALS: &str = r#"
setup = 'CREATE TABLE f@ (id TEXT PRIMARY KEY, cents BIGINT NOT NULL)'
on.Placed = '''
INSERT INTO f@ VALUES (:stream_id, :data.cents) ON CONFLICT (id) DO UPDATE SET cents = f@.cents + excluded.cents
'''
"#;

async fn append(log: &Log, orders: u64) {
    for number in 0..orders {
        let stream = StreamId::new("Order", (number % 7).to_string()).unwrap();
        let placed = NewEvent::new("Placed", json!({ "cents": number }));
        log.append(&stream, Expected::Any, [placed]).await.unwrap();
    }
}

async fn sum(db: &Db, log: &Log) -> Value {
    rows(db, log, "SELECT CAST(coalesce(sum(cents), 0) AS BIGINT) FROM f@").await[0][0].clone()
}

#[tokio::test]
async fn each_event_counts_once_however_often_it_is_run() {
    for db in [Db::sqlite(), Db::postgres()] {
        let log = db.log().await;
        let file = projection(&db, TOTALS);
        append(&log, 100).await;
        catch_up(&file, &log).await.unwrap();
        catch_up(&file, &log).await.unwrap();
        assert_eq!(sum(&db, &log).await, Value::Int(4950));
        append(&log, 10).await;
        catch_up(&file, &log).await.unwrap();
        assert_eq!(sum(&db, &log).await, Value::Int(4995));
    }
}

#[tokio::test]
async fn a_replay_needs_a_reset_that_undoes_just_what_comes_again() {
    for db in [Db::sqlite(), Db::postgres()] {
        let log = db.log().await;
        append(&log, 100).await;
        let without = projection(&db, TOTALS);
        catch_up(&without, &log).await.unwrap();
        let name = format!("totals_{}", db.own);
        let consumers = Consumers::new(&log);
        let replay = |from: ReplayFrom| {
            let (consumers, name) = (&consumers, &name);
            async move { consumers.replay(name, from).await.map(drop) }
        };
        // Without one it is refused, and goes on where it was.
        replay(ReplayFrom::Start).await.unwrap();
        let error = catch_up(&without, &log).await.map(drop).err().map(|error| error.to_string());
        let problem = consumers.status(&name).await.unwrap().problem;
        let said = format!("{error:?} {problem:?}");
        assert!(said.contains("it has no `reset`"), "{said}");
        assert_eq!(sum(&db, &log).await, Value::Int(4950));
        // One that empties the table is right from the start only.
        let all = projection(&db, &format!("{TOTALS}reset = 'DELETE FROM f@'\n"));
        accept(&all, &log).await;
        replay(ReplayFrom::Start).await.unwrap();
        catch_up(&all, &log).await.unwrap();
        assert_eq!(sum(&db, &log).await, Value::Int(4950));
        replay(ReplayFrom::After(Position::new(50))).await.unwrap();
        let error = catch_up(&all, &log).await.map(drop).err().map(|error| error.to_string());
        let problem = consumers.status(&name).await.unwrap().problem;
        let said = format!("{error:?} {problem:?}");
        assert!(said.contains("use :position in it"), "{said}");
        assert_eq!(sum(&db, &log).await, Value::Int(4950), "nothing was undone");
        // One that knows the position may begin anywhere.
        let some =
            "reset = 'UPDATE f@ SET cents = cents * 0 WHERE CAST(:position AS BIGINT) >= 0'\n";
        let some = projection(&db, &format!("{TOTALS}{some}"));
        accept(&some, &log).await;
        replay(ReplayFrom::After(Position::new(50))).await.unwrap();
        catch_up(&some, &log).await.unwrap();
        let after: i64 = (50..100).sum();
        assert_eq!(sum(&db, &log).await, Value::Int(after));
    }
}
