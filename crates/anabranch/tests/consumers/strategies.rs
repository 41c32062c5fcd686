//! Partition strategies: what is in order, and what runs where.

use crate::on_both;
use crate::support::{Db, Proof, fill, numbered, proof, start, status, until};
use anabranch::operate::{Consumers, Owner};
use anabranch::prelude::*;
use anabranch::{FixedPartition, HashRule};

on_both! {
    customers_and_sagas_are_in_order_across_streams,
    scopes_and_custom_keys_are_routed_at_the_client,
    global_runs_on_one_lane_in_the_whole_system,
    only_the_scope_is_handled,
    what_cannot_run_is_refused,
}

const KEYS: u64 = 12;

/// Each customer has events on three streams; their numbers run across the streams.
async fn append_keyed(log: &Log, rounds: u64) {
    for number in 1..=rounds {
        for key in 0..KEYS {
            let event = numbered(number)
                .with_customer(format!("cust-{key}"))
                .with_correlation(format!("corr-{key}"))
                .with_tenant(format!("tenant-{}", key % 2))
                .with_tag(format!("reservation:res-{key}"));
            let stream = StreamId::new("Order", format!("{key}-{}", number % 3)).unwrap();
            log.append(&stream, Expected::Any, [event]).await.unwrap();
        }
    }
}

fn in_order(rounds: u64) -> Proof {
    Proof { handled: (KEYS * rounds) as i64, doubled: 0, keys: KEYS as i64, wrong: 0 }
}

async fn customers_and_sagas_are_in_order_across_streams(db: Db) {
    let log = db.log().await;
    append_keyed(&log, 30).await;
    let customers = db.recorder("customers").partition(Partition::customer());
    let sagas = db.recorder("sagas").partition(Partition::saga());
    let tables = [customers.table.clone(), sagas.table.clone()];
    // In two fixed partitions, one after the other, with several lanes each.
    for index in 0..2 {
        let partition = FixedPartition::new(index, 2).unwrap();
        let set = ReplicaSet::new("s").projection(customers.clone()).projection(sagas.clone());
        set.partition(partition).lanes(4).catch_up(&log).await.unwrap();
    }
    for table in tables {
        assert_eq!(proof(&log, &table).await, in_order(30));
    }
}

async fn scopes_and_custom_keys_are_routed_at_the_client(db: Db) {
    let log = db.log().await;
    append_keyed(&log, 20).await;
    let scopes = db.recorder("scopes").partition(Partition::dcb("reservation"));
    let by_customer = |event: &Event| event.customer().map(str::to_owned);
    let custom = db.recorder("custom").partition(Partition::custom("customer", by_customer));
    let other_rule = Partition::customer().with_rule(HashRule::Md5);
    let md5 = db.recorder("md5").partition(other_rule);
    let tables = [scopes.table.clone(), custom.table.clone(), md5.table.clone()];
    for index in 0..3 {
        let partition = FixedPartition::new(index, 3).unwrap();
        let set = ReplicaSet::new("s").projection(scopes.clone()).projection(custom.clone());
        let set = set.projection(md5.clone()).partition(partition).lanes(2);
        set.catch_up(&log).await.unwrap();
    }
    for table in tables {
        assert_eq!(proof(&log, &table).await, in_order(20), "{table}");
    }
}

async fn global_runs_on_one_lane_in_the_whole_system(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("totals").partition(Partition::global());
    let table = recorder.table.clone();
    let set = |worker: u16| {
        let recorder = recorder.clone().worker(worker.to_string());
        let partition = FixedPartition::new(worker, 3).unwrap();
        ReplicaSet::new("s").projection(recorder).partition(partition)
    };
    let running: Vec<_> = (0..3).map(|worker| start(&log, set(worker))).collect();
    for number in 1..=60 {
        let stream = StreamId::new("Order", (number % 7).to_string()).unwrap();
        log.append(&stream, Expected::Any, [numbered(number)]).await.unwrap();
    }
    until("all of it", async || {
        let known = Consumers::new(&log).list().await.unwrap();
        if known.is_empty() {
            return None;
        }
        (proof(&log, &table).await.handled == 60).then_some(())
    })
    .await;
    let cursors = status(&log, "totals").await.cursors;
    assert_eq!(cursors.len(), 1, "one cursor with one slot: {cursors:?}");
    assert!(matches!(&cursors[0].owner, Owner::Worker(w) if w.runs == "partition 0 of 3"));
    for one in running {
        one.stop().await;
    }
    assert_eq!(proof(&log, &table).await, Proof { handled: 60, doubled: 0, keys: 1, wrong: 0 });
}

async fn only_the_scope_is_handled(db: Db) {
    let log = db.log().await;
    for number in 1..=40u64 {
        let event = NewEvent::new(if number % 2 == 0 { "Even" } else { "Odd" }, number.div_ceil(4))
            .with_tenant(if number % 4 < 2 { "a" } else { "b" })
            .with_tag(if number % 4 == 3 { "three" } else { "other" });
        let category = if number % 8 < 4 { "Order" } else { "Other" };
        log.append(&StreamId::new(category, "1").unwrap(), Expected::Any, [event]).await.unwrap();
    }
    let of = |name: &str, scope: Scope| {
        let recorder = db.recorder(name).partition(Partition::entities());
        recorder.settings(Settings::default().scope(scope))
    };
    let cases = [
        (of("types", Scope::types(["Even"])), 20),
        (of("tenants", Scope::all().tenants(["b"])), 20),
        (of("categories", Scope::all().categories(["Order"])), 20),
        (of("tags", Scope::all().tagged(["three"])), 10),
        (of("both", Scope::types(["Even"]).tenants(["a"]).categories(["Other"])), 5),
        (db.recorder("entity"), 20),
    ];
    for (recorder, expected) in cases {
        let table = recorder.table.clone();
        let set = ReplicaSet::new("s").projection(recorder).lanes(2);
        set.catch_up(&log).await.unwrap();
        assert_eq!(proof(&log, &table).await.handled, expected, "{table}");
    }
}

async fn what_cannot_run_is_refused(db: Db) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=1).await;
    let set = || ReplicaSet::new("s");
    let global = || db.recorder("all").partition(Partition::global());
    let cases = [
        (set(), "has no consumers"),
        (set().projection(db.recorder("a")).projection(db.recorder("a")), "two with that name"),
        (set().projection(global()).lanes(4), "replica set of its own that has one lane"),
        (set().projection(db.recorder("Bad Name")), "rename it"),
        (set().projection(db.recorder("a")).lanes(0), "use 1 to 256"),
        (
            set().projection(
                db.recorder("a")
                    .settings(Settings::default().scope(Scope::all().categories(["X"]))),
            ),
            "which its scope leaves out",
        ),
    ];
    for (set, expected) in cases {
        let error = set.catch_up(&log).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    set().projection(db.recorder("a")).catch_up(&log).await.unwrap();
    let otherwise = db.recorder("a").partition(Partition::customer());
    let error = set().projection(otherwise).catch_up(&log).await.unwrap_err().to_string();
    let said = "was partitioned by entity \"Order\", fnv1a and now is by customer";
    assert!(error.contains(said), "{error}");
    let newer = db.recorder("a").settings(Settings::default().version(2));
    let error = set().projection(newer).catch_up(&log).await.unwrap_err().to_string();
    assert!(
        error.contains("the database has version 1 of it and this program version 2"),
        "{error}"
    );
}
