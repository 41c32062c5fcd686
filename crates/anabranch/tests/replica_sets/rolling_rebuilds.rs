//! A new version of a projection during a rolling deploy: old workers serve the old version and new ones
//! build the next, in one set, while events arrive.

use crate::crew::*;
use crate::on_both;
use crate::support::*;
use anabranch::operate::{Consumers, Rebuild, RebuildError};
use anabranch::prelude::*;
use std::collections::BTreeSet;

on_both! {
    a_rolling_deploy_pauses_nobody_and_ends_nobody,
    two_switches_in_a_row,
    a_program_with_both_versions_serves_the_old_one_until_the_switch,
    builders_that_die_are_replaced,
    workers_that_die_around_the_switch_are_replaced,
}

/// Writes a row for each event, and for each key the last number with a count of what was out of order.
/// Later versions have a column more.
#[derive(Clone)]
struct Orders {
    table: &'static str,
    keys: &'static str,
    version: u32,
    worker: &'static str,
}

impl Projection for Orders {
    fn name(&self) -> &str {
        "orders"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn settings(&self) -> Settings {
        Settings::default().version(self.version).batch_size(50)
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let (table, keys) = (tx.table(self.table), tx.table(self.keys));
        let number: u64 = event.data()?;
        let (columns, values) = match self.version {
            1 => ("", ""),
            _ => (", version", ", $4"),
        };
        let insert = format!(
            "INSERT INTO {table} (position, key, worker{columns}) VALUES ($1, $2, $3{values})"
        );
        let mut row = params![event.position(), event.stream_id(), self.worker];
        row.extend((self.version > 1).then(|| self.version.into()));
        tx.execute(insert, row).await?;
        let upsert = format!(
            "INSERT INTO {keys} (key, number, wrong) VALUES ($1, $2, $3) ON CONFLICT (key) DO UPDATE \
             SET number = excluded.number, wrong = {keys}.wrong \
             + CASE WHEN excluded.number = {keys}.number + 1 THEN 0 ELSE 1 END"
        );
        tx.execute(upsert, params![event.stream_id(), number, i64::from(number != 1)]).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let (table, keys) = (tx.table(self.table), tx.table(self.keys));
        let version = if self.version > 1 { ", version BIGINT" } else { "" };
        let columns = format!("position BIGINT, key TEXT, worker TEXT{version}");
        tx.execute(format!("CREATE TABLE {table} ({columns})"), vec![]).await?;
        let columns = "key TEXT PRIMARY KEY, number BIGINT, wrong BIGINT";
        tx.execute(format!("CREATE TABLE {keys} ({columns})"), vec![]).await
    }
}

/// What a case needs: a log, the consumer that changes, and one that does not.
struct Fleet {
    db: Db,
    log: Log,
    orders: Orders,
    other: Recorder,
}

impl Fleet {
    async fn new(db: Db) -> Self {
        let log = db.log().await;
        let table: &'static str = Box::leak(db.table("orders").into_boxed_str());
        let keys: &'static str = Box::leak(format!("{table}_keys").into_boxed_str());
        let orders = Orders { table, keys, version: 1, worker: "" };
        let other = db.recorder("other").settings(Settings::default().batch_size(50));
        Self { db, log, orders, other }
    }

    fn orders(&self, version: u32, worker: &'static str) -> Orders {
        Orders { version, worker, ..self.orders.clone() }
    }

    fn set(&self, worker: &'static str) -> ReplicaSet {
        let other = self.other.clone().worker(worker);
        // What is refused is not looked at again for so long that no case waits for it.
        let tuning = quick().probes(LONG_LEASE, LONG_LEASE);
        ReplicaSet::new("s").projection(other).lanes(2).tuning(tuning)
    }

    /// A worker of the program that has version 1 only.
    async fn old(&self, worker: &'static str) -> Running {
        let set = self.set(worker).projection(self.orders(1, worker));
        start(&self.db.log().await, set)
    }

    /// A worker of a program with a new version.
    async fn new_version(&self, version: u32, worker: &'static str) -> Running {
        let set = self.set(worker).rebuild(self.orders(version, worker));
        start(&self.db.log().await, set)
    }

    fn rebuild(&self) -> Rebuild {
        Rebuild::new(&self.log, "orders", &[self.orders.table, self.orders.keys])
    }

    async fn rows(&self, table: &str) -> i64 {
        number(&self.log, &format!("SELECT count(*) FROM {table}")).await
    }

    /// Waits until the new version has come as far as the log was a moment ago.
    async fn built(&self) {
        let head = self.log.head().await.unwrap();
        until("the new version", async || {
            let next = Consumers::new(&self.log).status("orders.next").await.ok()?;
            (next.position >= head).then_some(())
        })
        .await;
    }

    /// Switches as an operator does: while events are appended, a busy machine may let the new version fall behind again.
    async fn switch(&self) {
        until("a switch", async || match self.rebuild().switch().await {
            Err(RebuildError::Behind { .. }) => None,
            done => done.map(Some).unwrap(),
        })
        .await;
    }

    /// Waits until more of what is appended now is in the tables that serve.
    async fn advances(&self, what: &str) {
        let head = self.log.head().await.unwrap().get() as i64;
        let last = format!("SELECT coalesce(max(position), 0) FROM {}", self.orders.table);
        until(what, async || (number(&self.log, &last).await > head).then_some(())).await;
    }

    /// Which version has handled everything that is in the tables that serve.
    async fn versions(&self) -> Vec<i64> {
        let sql = format!("SELECT DISTINCT version FROM {}", self.orders.table);
        query(&self.log, &sql, vec![]).await.iter().map(|row| row.get(0).unwrap()).collect()
    }

    /// The appender ends, and everything is there once and in order, in both consumers.
    async fn proven(&self, appender: Appender) {
        let each = appender.finish().await;
        until_proven(&self.log, self.orders.table, Appender::STREAMS, each).await;
        until_proven(&self.log, &self.other.table, Appender::STREAMS, each).await;
    }

    /// What the old version left behind is whole and in order as far as it goes.
    async fn old_is_whole(&self) {
        let old = format!("{}_old", self.orders.table);
        assert_eq!(
            number(&self.log, &format!("SELECT count(*) - count(DISTINCT position) FROM {old}"))
                .await,
            0
        );
        let keys = format!("{}_old", self.orders.keys);
        assert_eq!(
            number(&self.log, &format!("SELECT CAST(sum(wrong) AS BIGINT) FROM {keys}")).await,
            0
        );
    }
}

async fn a_rolling_deploy_pauses_nobody_and_ends_nobody(db: Db) {
    let fleet = Fleet::new(db).await;
    let log = &fleet.log;
    let appender = Appender::start(log);
    let old = [fleet.old("old-1").await, fleet.old("old-2").await];
    let old_ids = until_shared(log, "orders", 2).await;
    let first_new = fleet.new_version(2, "new-1").await;
    until_shared(log, "orders.next", 1).await;
    // The old version is served by the old ones alone, all the time.
    fleet.advances("the old version while the new one is built").await;
    let second_new = fleet.new_version(2, "new-2").await;
    let new_ids = until_shared(log, "orders.next", 2).await;
    assert!(old_ids.is_disjoint(&new_ids));
    assert_eq!(until_shared(log, "orders", 2).await, old_ids);
    until_shared(log, "other", 4).await;
    fleet.built().await;
    fleet.advances("the old version when the new one is built").await;

    let differences = fleet.rebuild().compare().await.unwrap();
    assert_eq!(differences[0].columns.new[0].name, "version");
    assert_eq!(differences[0].columns.compared, ["position", "key", "worker"]);
    assert!(differences[1].columns.is_same());
    let preview = fleet.rebuild().preview().await.unwrap();
    let ids = |workers: &[anabranch::operate::WorkerStatus]| -> BTreeSet<String> {
        workers.iter().map(|worker| worker.id.clone()).collect()
    };
    assert_eq!((ids(&preview.old.workers), ids(&preview.new.workers)), (old_ids, new_ids.clone()));

    // A table that is left out would keep the rows of the old version.
    let some = Rebuild::new(log, "orders", &[fleet.orders.table]);
    for error in [some.switch().await.unwrap_err(), some.abandon().await.unwrap_err()] {
        assert!(matches!(error, RebuildError::Tables { .. }), "{error}");
        assert!(error.to_string().contains(fleet.orders.keys), "{error}");
    }

    fleet.switch().await;
    // Those that built it serve it, under its own name, and nobody has ended.
    fleet.advances("the new version after the switch").await;
    assert_eq!(until_shared(log, "orders", 2).await, new_ids);
    assert_eq!(fleet.versions().await, [2]);
    assert!(Consumers::new(log).status("orders.next").await.is_err());
    until_shared(log, "other", 4).await;
    // The old ones are refused for this consumer only.
    let workers = Consumers::new(log).workers().await.unwrap();
    for worker in &workers {
        let orders = worker.runs("orders").unwrap();
        let is_new = new_ids.contains(&worker.id);
        assert_eq!(orders.version, Some(if is_new { 2 } else { 1 }), "{worker:?}");
        let refused = orders.unable.as_deref().unwrap_or_default();
        assert_eq!(refused.contains("version 2 has taken the place"), !is_new, "{refused}");
        assert_eq!(worker.runs("other").unwrap().unable, None);
        assert!(worker.runs("orders.next").is_none(), "{worker:?}");
    }
    assert!(old.iter().chain([&first_new, &second_new]).all(|worker| !worker.has_ended()));

    // One that joins with the same program just serves.
    let third_new = fleet.new_version(2, "new-3").await;
    until_shared(log, "orders", 3).await;
    until_shared(log, "other", 5).await;
    for worker in old {
        worker.stop().await;
    }
    until_shared(log, "other", 3).await;
    fleet.proven(appender).await;
    fleet.old_is_whole().await;
    let served: BTreeSet<String> = handlers(log, fleet.orders.table).await;
    assert!(served.iter().all(|worker| worker.starts_with("new-")), "{served:?}");
    assert_eq!(handlers(log, &fleet.other.table).await.len(), 5);
    for worker in [first_new, second_new, third_new] {
        worker.stop().await;
    }
}

async fn two_switches_in_a_row(db: Db) {
    let fleet = Fleet::new(db).await;
    let log = &fleet.log;
    let appender = Appender::start(log);
    let mut running = vec![fleet.old("one").await];
    until_shared(log, "orders", 1).await;
    for (version, worker) in [(2, "two"), (3, "three"), (4, "four")] {
        running.push(fleet.new_version(version, worker).await);
        until_shared(log, "orders.next", 1).await;
        fleet.built().await;
        fleet.switch().await;
        fleet.advances("the new version").await;
        assert_eq!(fleet.versions().await, [i64::from(version)]);
    }
    until_shared(log, "other", 4).await;
    fleet.proven(appender).await;
    fleet.old_is_whole().await;
    for worker in running {
        worker.stop().await;
    }
}

async fn a_program_with_both_versions_serves_the_old_one_until_the_switch(db: Db) {
    let fleet = Fleet::new(db).await;
    let log = &fleet.log;
    let appender = Appender::start(log);
    let old = fleet.old("old").await;
    until_shared(log, "orders", 1).await;
    let both = async |worker| {
        let set = fleet.set(worker).projection(fleet.orders(1, worker));
        start(&fleet.db.log().await, set.rebuild(fleet.orders(2, worker)))
    };
    let new = [both("new-1").await, both("new-2").await];
    until_shared(log, "orders", 3).await;
    // The deploy is over long before the new version is built.
    old.stop().await;
    until_shared(log, "orders", 2).await;
    until_shared(log, "orders.next", 2).await;
    fleet.advances("the old version, by the new program").await;
    fleet.built().await;
    fleet.switch().await;
    fleet.advances("the new version").await;
    until_shared(log, "orders", 2).await;
    assert!(new.iter().all(|worker| !worker.has_ended()));
    assert_eq!(fleet.versions().await, [2]);
    fleet.proven(appender).await;
    fleet.old_is_whole().await;
    for worker in new {
        worker.stop().await;
    }
}

async fn builders_that_die_are_replaced(db: Db) {
    let fleet = Fleet::new(db).await;
    let log = &fleet.log;
    fill(log, 1_000..1_100, 1..=20).await;
    let appender = Appender::start(log);
    let old = fleet.old("old").await;
    until_shared(log, "orders", 1).await;
    let next = format!("{}_next", fleet.orders.table);
    for worker in ["new-1", "new-2"] {
        let builder = fleet.new_version(2, worker).await;
        until_shared(log, "orders.next", 1).await;
        let before = fleet.rows(&next).await;
        until("some of it", async || (fleet.rows(&next).await > before).then_some(())).await;
        builder.crash();
    }
    let builder = fleet.new_version(2, "new-3").await;
    until_shared(log, "orders.next", 1).await;
    fleet.advances("the old version").await;
    fleet.built().await;
    fleet.switch().await;
    until_shared(log, "orders", 1).await;
    let each = appender.finish().await;
    let events = (Appender::STREAMS * each + 2_000) as i64;
    until("all events", async || (fleet.rows(fleet.orders.table).await >= events).then_some(()))
        .await;
    let keys = Appender::STREAMS as i64 + 100;
    let all = Proof { handled: events, doubled: 0, keys, wrong: 0 };
    assert_eq!(proof(log, fleet.orders.table).await, all);
    until("the other", async || (proof(log, &fleet.other.table).await == all).then_some(())).await;
    builder.stop().await;
    old.stop().await;
}

async fn workers_that_die_around_the_switch_are_replaced(db: Db) {
    let fleet = Fleet::new(db).await;
    let log = &fleet.log;
    let appender = Appender::start(log);
    let old = fleet.old("old").await;
    until_shared(log, "orders", 1).await;
    let (first, second) =
        (fleet.new_version(2, "new-1").await, fleet.new_version(2, "new-2").await);
    until_shared(log, "orders.next", 2).await;
    fleet.built().await;
    // One dies just before the switch, which waits for what the other takes over; one right after it.
    first.crash();
    until("the switch", async || fleet.rebuild().switch().await.ok()).await;
    second.crash();
    old.crash();
    let heir = fleet.new_version(2, "new-3").await;
    until_shared(log, "orders", 1).await;
    until_shared(log, "other", 1).await;
    fleet.proven(appender).await;
    fleet.old_is_whole().await;
    assert_eq!(fleet.versions().await, [2]);
    heir.stop().await;
}
