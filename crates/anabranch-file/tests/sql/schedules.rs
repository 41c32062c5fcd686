//! Schedules: what is due is done once, by whatever number of processes.

use crate::running::file;
use crate::support::Db;
use anabranch::prelude::*;
use anabranch::testing::TestKit;
use anabranch::workpool::{TaskState, Tasks};
use anabranch_file::Sets;
use std::time::Duration;

const TEXT: &str = r#"
[[replica_set]]
name = "set@"
[[replica_set.schedule]]
name = "report"
cron = "0 * * * *"
enqueue = { pool = "mail@", key = "daily", payload = { kind = "report" } }
[[replica_set.schedule]]
cron = "@hourly"
append = { stream = "Hour:all", type = "HourEnded", data = { n = 1 } }
"#;

async fn counts(kit: &TestKit, db: &Db) -> (usize, usize) {
    let tasks = Tasks::new(kit.log(), format!("mail_{}", db.own));
    let tasks = tasks.list(TaskState::Ready, 100).await.unwrap();
    let events = kit.log().read(Query::types(["HourEnded"])).collect().await.unwrap();
    (tasks.len(), events.len())
}

#[tokio::test]
async fn what_is_due_is_done_once_for_each_time() {
    let db = Db::sqlite();
    let mut kit = TestKit::starting_at("2026-11-16T09:30:00Z".parse().unwrap()).await.unwrap();
    let file = file(&db, &TEXT.replace("@hourly", "0 * * * *"));
    for _ in 0..3 {
        // Every process that starts sees to it that there is a next time.
        Sets::begin(&file, kit.log()).await.unwrap();
    }
    let sets = Sets::default().of(&file, kit.log()).unwrap();
    let set = sets[0].set.clone();
    kit.run(set.clone()).await.unwrap();
    assert_eq!(counts(&kit, &db).await, (0, 0), "nothing is due yet");
    kit.advance(Duration::from_secs(1800)).unwrap();
    for _ in 0..2 {
        kit.run(set.clone()).await.unwrap();
        assert_eq!(counts(&kit, &db).await, (1, 1));
    }
    kit.advance(Duration::from_secs(3600)).unwrap();
    kit.run(set.clone()).await.unwrap();
    assert_eq!(counts(&kit, &db).await, (2, 2));
    // Nobody ran for five hours: that is made up for once.
    kit.advance(Duration::from_secs(5 * 3600)).unwrap();
    kit.run(set.clone()).await.unwrap();
    assert_eq!(counts(&kit, &db).await, (3, 3));
    // Another cron under the same name: the old time is passed over, the new one holds.
    let text = TEXT.replace("0 * * * *", "30 * * * *").replace("@hourly", "30 * * * *");
    let file = crate::running::file(&db, &text);
    Sets::begin(&file, kit.log()).await.unwrap();
    let set = Sets::default().of(&file, kit.log()).unwrap()[0].set.clone();
    kit.advance(Duration::from_secs(1800)).unwrap();
    kit.run(set.clone()).await.unwrap();
    assert_eq!(counts(&kit, &db).await, (4, 4));
    kit.advance(Duration::from_secs(1800)).unwrap();
    kit.run(set).await.unwrap();
    assert_eq!(counts(&kit, &db).await, (4, 4), "the time of the old cron is no more");
}

/// As in a rolling deploy: the old process has all slots, and the new file has more schedules.
#[tokio::test]
async fn a_schedule_that_another_file_does_not_have_is_neither_lost_nor_forgotten() {
    let db = Db::sqlite();
    let mut kit = TestKit::starting_at("2026-11-16T09:30:00Z".parse().unwrap()).await.unwrap();
    let (old, _) = TEXT.rsplit_once("[[replica_set.schedule]]").unwrap();
    let (old, new) = (file(&db, old), file(&db, &TEXT.replace("@hourly", "0 * * * *")));
    Sets::begin(&old, kit.log()).await.unwrap();
    Sets::begin(&new, kit.log()).await.unwrap();
    let set = |file| Sets::default().of(file, kit.log()).unwrap()[0].set.clone();
    let (old, new) = (set(&old), set(&new));
    kit.advance(Duration::from_secs(1800)).unwrap();
    kit.run(old.clone()).await.unwrap();
    assert_eq!(counts(&kit, &db).await, (1, 0), "it does not know the other one");
    kit.advance(Duration::from_secs(31)).unwrap();
    kit.run(new.clone()).await.unwrap();
    assert_eq!(counts(&kit, &db).await, (1, 1));
    kit.advance(Duration::from_secs(3600)).unwrap();
    kit.run(new).await.unwrap();
    assert_eq!(counts(&kit, &db).await, (2, 2), "it goes on");
    // One that was removed ends when no process has known it for a day.
    for _ in 0..3 {
        kit.advance(Duration::from_secs(25 * 3600)).unwrap();
        kit.run(old.clone()).await.unwrap();
    }
    let pool = Tasks::new(kit.log(), format!("set_{}.schedules", db.own));
    let mut waiting = Vec::new();
    for state in TaskState::ALL.into_iter().filter(|state| state.is_open()) {
        waiting.extend(pool.list(state, 100).await.unwrap());
    }
    assert_eq!(waiting.len(), 1, "{waiting:?}");
}
