//! Rows that events of many keys belong to: refused by name in a view, summed up by a rollup.

use crate::gates::never;
use crate::on_both;
use crate::support::{Db, fill, number, query, start, status, until};
use anabranch::operate::{Consumers, Rebuild, ReplayFrom};
use anabranch::prelude::*;
use anabranch::{Failure, Retry, Rollup, RollupReader, ViewColumn};

on_both! {
    a_row_of_two_slots_fails_the_second_by_name,
    two_lanes_that_make_one_row_at_once_do_not_lose_each_other,
    rows_may_be_finer_than_the_partition_key,
    a_view_by_what_its_row_is_counts_every_event,
    a_rollup_counts_every_event_on_any_number_of_lanes_and_workers,
    a_rollup_is_replayed_and_rebuilt,
    a_view_of_the_last_version_learns_whose_its_rows_are,
    increments_in_sql_count_every_event,
}

const DAYS: u64 = 5;

/// The number of an event says its day.
fn day(event: &Event) -> HandlerResult<String> {
    Ok(format!("day-{}", event.data::<u64>()? % DAYS))
}

/// Counts events by day, in a view that is partitioned by order.
struct Days {
    name: &'static str,
    partition: Partition,
    settings: Settings,
}

impl View for Days {
    type State = u64;
    fn name(&self) -> &str {
        self.name
    }
    fn partition(&self) -> Partition {
        self.partition.clone()
    }
    fn settings(&self) -> Settings {
        self.settings.clone()
    }
    fn key(&self, event: &Event) -> Option<String> {
        day(event).ok()
    }
    fn apply(&self, count: &mut u64, _: &Event) -> HandlerResult {
        *count += 1;
        Ok(())
    }
    fn columns(&self) -> Vec<ViewColumn<u64>> {
        vec![ViewColumn::int("events", |count: &u64| *count as i64)]
    }
}

fn days(settings: Settings) -> Days {
    Days { name: "days", partition: Partition::entity("Order"), settings }
}

fn view_table(log: &Log, name: &str) -> String {
    log.store().database().dialect().table(&format!("view_{name}"))
}

/// How many events the rows of a view have counted, and how many are parked.
async fn counted(log: &Log, name: &str) -> (i64, i64) {
    let sum =
        format!("SELECT CAST(coalesce(sum(events), 0) AS BIGINT) FROM {}", view_table(log, name));
    (number(log, &sum).await, status(log, name).await.parked_events as i64)
}

async fn a_row_of_two_slots_fails_the_second_by_name(db: Db) {
    let log = db.log().await;
    // Ten keys that fail one after the other would stop it.
    fill(&log, 0..8, 1..=25).await;
    let _ = ReplicaSet::new("s").view(days(never())).lanes(4).catch_up(&log).await;
    let (counted, parked) = counted(&log, "days").await;
    assert_eq!(counted + parked, 200, "{counted} counted, {parked} parked");
    assert!(counted < 200 && parked > 0);
    let errors = Consumers::new(&log).parked("days").await.unwrap();
    for parked in &errors {
        assert!(parked.error.contains("of view `days` belongs to slot"), "{}", parked.error);
        let key = format!("with the partition key `{}`", parked.key);
        assert!(parked.error.contains(&key), "{}", parked.error);
        assert!(parked.error.contains("make it a Rollup"), "{}", parked.error);
    }
    // Skipped and forgotten it is not: no run of it looks like success.
    let stop = Settings::default().retry(Retry::never().then(Failure::Stop));
    let stopping = Days { name: "stops", ..days(stop) };
    let error = ReplicaSet::new("t").view(stopping).lanes(4).catch_up(&log).await.unwrap_err();
    assert!(error.to_string().contains("belongs to slot"), "{error}");
}

/// All lanes meet each row for the first time, at the same time, again and again.
async fn two_lanes_that_make_one_row_at_once_do_not_lose_each_other(db: Db) {
    let log = db.log().await;
    struct Rows;
    impl View for Rows {
        type State = u64;
        fn name(&self) -> &str {
            "rows"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            never()
        }
        fn key(&self, event: &Event) -> Option<String> {
            event.data::<u64>().ok().map(|number| number.to_string())
        }
        fn apply(&self, count: &mut u64, _: &Event) -> HandlerResult {
            *count += 1;
            Ok(())
        }
        fn columns(&self) -> Vec<ViewColumn<u64>> {
            vec![ViewColumn::int("events", |count: &u64| *count as i64)]
        }
    }
    let set = || ReplicaSet::new("s").view(Rows).lanes(8);
    // Makes the table that is looked at below.
    set().catch_up(&log).await.unwrap();
    let running = start(&log, set());
    for round in 0..60 {
        // One round after the other. Three keys of each fail, and a lane may notice late that the fourth has
        // worked: those of three rounds are still fewer than the ten that would look like an outage.
        fill(&log, round * 4..round * 4 + 4, round + 1..=round + 1).await;
        // Not its position: lanes without an event say theirs only once a second.
        until("the round", async || {
            let (counted, parked) = counted(&log, "rows").await;
            (counted + parked >= (round as i64 + 1) * 4).then_some(())
        })
        .await;
    }
    running.stop().await;
    let (counted, parked) = counted(&log, "rows").await;
    assert_eq!(counted + parked, 240, "{counted} counted, {parked} parked");
}

/// A row for each order and day: all its events have one partition key.
async fn rows_may_be_finer_than_the_partition_key(db: Db) {
    struct Finer;
    impl View for Finer {
        type State = u64;
        fn name(&self) -> &str {
            "finer"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn key(&self, event: &Event) -> Option<String> {
            Some(format!("{}/{}", event.stream_id(), day(event).ok()?))
        }
        fn apply(&self, count: &mut u64, _: &Event) -> HandlerResult {
            *count += 1;
            Ok(())
        }
        fn columns(&self) -> Vec<ViewColumn<u64>> {
            vec![ViewColumn::int("events", |count: &u64| *count as i64)]
        }
    }
    let log = db.log().await;
    fill(&log, 0..20, 1..=10).await;
    ReplicaSet::new("s").view(Finer).lanes(4).catch_up(&log).await.unwrap();
    assert_eq!(counted(&log, "finer").await, (200, 0));
}

async fn a_view_by_what_its_row_is_counts_every_event(db: Db) {
    let log = db.log().await;
    fill(&log, 0..20, 1..=10).await;
    let partition = Partition::custom("by-day", |event| day(event).ok());
    let view = Days { partition, ..days(Settings::default()) };
    ReplicaSet::new("s").view(view).lanes(4).catch_up(&log).await.unwrap();
    assert_eq!(counted(&log, "days").await, (200, 0));
}

#[derive(Clone)]
struct Turnover {
    version: u32,
}

#[derive(Clone, Default, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Sum {
    events: u64,
    total: u64,
}

impl Rollup for Turnover {
    type State = Sum;
    fn name(&self) -> &str {
        "turnover"
    }
    fn settings(&self) -> Settings {
        Settings::default().version(self.version).batch_size(50)
    }
    fn group(&self, event: &Event) -> HandlerResult<Option<String>> {
        let number: u64 = event.data()?;
        Ok((number != 3).then_some(day(event)?))
    }
    fn apply(&self, part: &mut Sum, event: &Event) -> HandlerResult {
        part.events += 1;
        part.total += event.data::<u64>()?;
        Ok(())
    }
    fn merge(&self, sum: &mut Sum, part: &Sum) {
        sum.events += part.events;
        sum.total += part.total;
    }
    fn columns(&self) -> Vec<ViewColumn<Sum>> {
        vec![ViewColumn::int("events", |sum: &Sum| sum.events as i64)]
    }
}

/// Each of `streams` orders has events 1 to `last`; those numbered 3 do not count.
fn expected(group: u64, streams: u64, last: u64) -> Sum {
    let numbers = (1..=last).filter(|number| number % DAYS == group && *number != 3);
    let (count, total) = numbers.fold((0, 0), |(count, total), number| (count + 1, total + number));
    Sum { events: streams * count, total: streams * total }
}

async fn a_rollup_counts_every_event_on_any_number_of_lanes_and_workers(db: Db) {
    let log = db.log().await;
    let turnover = Turnover { version: 1 };
    fill(&log, 0..30, 1..=4).await;
    let set = |lanes| ReplicaSet::new("s").rollup(turnover.clone()).lanes(lanes);
    let first = start(&log, set(4));
    fill(&log, 0..30, 5..=8).await;
    let other = db.log().await;
    let second = start(&other, set(3));
    fill(&log, 0..30, 9..=12).await;
    first.stop().await;
    fill(&log, 0..30, 13..=14).await;
    until("everything", async || {
        let known = Consumers::new(&log).status("turnover").await.ok()?;
        (known.position.get() >= 30 * 14).then_some(())
    })
    .await;
    second.stop().await;
    set(1).catch_up(&log).await.unwrap();
    let reader = RollupReader::new(&log, &turnover);
    for group in 0..DAYS {
        let sum = reader.get(&format!("day-{group}")).await.unwrap();
        assert_eq!(sum, Some(expected(group, 30, 14)), "day-{group}");
    }
    assert_eq!(reader.get("day-9").await.unwrap(), None);
    assert_eq!(reader.all().await.unwrap().len() as u64, DAYS);
    let range = reader.range("day-1", "day-3").await.unwrap();
    assert_eq!(range.keys().collect::<Vec<_>>(), ["day-1", "day-2"]);
    assert_eq!(counted(&log, "turnover").await, (30 * 13, 0), "and so it says in SQL");
}

async fn a_rollup_is_replayed_and_rebuilt(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=7).await;
    let turnover = Turnover { version: 1 };
    let set = || ReplicaSet::new("s").rollup(turnover.clone()).lanes(2);
    set().catch_up(&log).await.unwrap();
    Consumers::new(&log).replay("turnover", ReplayFrom::Start).await.unwrap();
    set().catch_up(&log).await.unwrap();
    assert_eq!(counted(&log, "turnover").await, (60, 0));
    let next = ReplicaSet::new("r").rebuild_rollup(Turnover { version: 2 });
    next.catch_up(&log).await.unwrap();
    let rebuild = Rebuild::for_view(&log, "turnover");
    let differences = rebuild.compare().await.unwrap();
    assert_eq!((differences[0].only_old, differences[0].only_new), (0, 0), "{differences:?}");
    rebuild.switch().await.unwrap();
    let refused = set().catch_up(&log).await.unwrap_err().to_string();
    assert!(refused.contains("version 2 has taken the place"), "{refused}");
    assert_eq!(counted(&log, "turnover").await, (60, 0));
}

/// Its table has no such column, and its consumer's row no identity.
async fn a_view_of_the_last_version_learns_whose_its_rows_are(db: Db) {
    let log = db.log().await;
    fill(&log, 0..6, 1..=3).await;
    let by_day = Partition::custom("by-day", |event| day(event).ok());
    let view = || Days { partition: by_day.clone(), ..days(Settings::default()) };
    let set = || ReplicaSet::new("s").view(view()).lanes(4);
    set().catch_up(&log).await.unwrap();
    let (table, consumers) =
        (view_table(&log, "days"), log.store().database().dialect().table("consumers"));
    query(&log, &format!("ALTER TABLE {table} DROP COLUMN anabranch_slot"), vec![]).await;
    query(
        &log,
        &format!("UPDATE {consumers} SET partition = NULL, scope = NULL RETURNING 1"),
        vec![],
    )
    .await;
    fill(&log, 0..6, 4..=6).await;
    set().catch_up(&log).await.unwrap();
    assert_eq!(counted(&log, "days").await, (36, 0));
    let unknown = format!("SELECT count(*) FROM {table} WHERE anabranch_slot IS NULL");
    assert!(number(&log, &unknown).await <= 2, "those that were written since say whose they are");
}

/// The way that needs no view: the database adds, so it does not matter who was there first.
async fn increments_in_sql_count_every_event(db: Db) {
    struct Increments(String);
    impl Projection for Increments {
        fn name(&self) -> &str {
            "increments"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
            let table = &self.0;
            let add = format!(
                "INSERT INTO {table} (day, events) VALUES ($1, 1) \
                 ON CONFLICT (day) DO UPDATE SET events = {table}.events + 1"
            );
            tx.execute(add, params![day(event)?]).await
        }
        async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
            let create = format!("CREATE TABLE {} (day TEXT PRIMARY KEY, events BIGINT)", self.0);
            tx.execute(create, vec![]).await
        }
    }
    let log = db.log().await;
    fill(&log, 0..40, 1..=10).await;
    let table = db.table("increments");
    let set = ReplicaSet::new("s").projection(Increments(table.clone())).lanes(4);
    set.catch_up(&log).await.unwrap();
    let sum = format!("SELECT CAST(sum(events) AS BIGINT) FROM {table}");
    assert_eq!(number(&log, &sum).await, 400);
}
