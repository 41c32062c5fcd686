//! Positions of runners that were there before: each slot goes on exactly where its old partition stood.

use crate::on_both;
use crate::support::{Db, query, start, status, until};
use anabranch::database::{End, Statement};
use anabranch::import::Before;
use anabranch::prelude::*;
use anabranch::{
    Consumers, FixedPartition, HashRule, Import, ImportError, ImportPlan, Refusal, RunError,
    Strategy, Value,
};

on_both! {
    every_event_is_handled_once_by_the_old_or_the_new,
    other_rules_are_continued_at_the_client,
    partitions_that_are_no_sets_of_slots_need_one_position,
    a_dry_run_changes_nothing,
    what_would_lose_or_repeat_events_is_refused,
    a_consumer_that_has_run_is_replaced_only_if_asked,
    a_running_consumer_is_not_touched,
    a_second_import_corrects_the_first,
    an_import_and_a_start_at_the_same_time_are_one_or_the_other,
    one_sequence_has_one_checkpoint,
}

const STREAMS: u64 = 30;
const EVENTS: u64 = 300;

/// A table that the old runners wrote and the new consumer goes on with. It has no key, so that an event
/// that is handled twice stands in it twice.
#[derive(Clone)]
struct Ledger {
    table: String,
    partition: Partition,
}

impl Projection for Ledger {
    fn name(&self) -> &str {
        "ledger"
    }

    fn partition(&self) -> Partition {
        self.partition.clone()
    }

    async fn handle(&self, event: &Event, tx: &mut Tx<'_>) -> Result<()> {
        tx.execute(entry(&self.table), params![event.position(), event.stream_id(), "new"]).await
    }

    async fn set_up(&self, tx: &mut Tx<'_>) -> Result<()> {
        for table in tables(&self.table) {
            tx.execute(table, vec![]).await?;
        }
        tx.execute(format!("INSERT INTO {}_set_ups VALUES (1)", self.table), vec![]).await
    }
}

fn tables(table: &str) -> [String; 2] {
    [
        format!("CREATE TABLE IF NOT EXISTS {table} (position BIGINT, stream TEXT, who TEXT)"),
        format!("CREATE TABLE IF NOT EXISTS {table}_set_ups (one BIGINT)"),
    ]
}

fn entry(table: &str) -> String {
    format!("INSERT INTO {table} (position, stream, who) VALUES ($1, $2, $3)")
}

async fn execute(log: &Log, sql: String, values: Vec<Value>) {
    let mut session = log.store().database().begin();
    session.run(vec![Statement::new(sql, values)], End::Commit).await.unwrap();
}

impl Ledger {
    fn new(db: &Db) -> Self {
        Self { table: db.table("ledger"), partition: Partition::entity("Order") }
    }

    fn by(db: &Db, rule: HashRule) -> Self {
        Self { partition: Partition::entity("Order").with_rule(rule), ..Self::new(db) }
    }

    /// What old runners do that take `hash(id) % N`: each handles its events up to a position of its own.
    async fn run_old(&self, log: &Log, hash: fn(&str) -> u128, stops: &[u64]) {
        for table in tables(&self.table) {
            execute(log, table, vec![]).await;
        }
        for event in log.read(Query::all()).collect().await.unwrap() {
            let index = (hash(event.stream_id()) % stops.len() as u128) as usize;
            if event.position().get() <= stops[index] {
                let who = FixedPartition::new(index as u16, stops.len() as u16).unwrap();
                let values = params![event.position(), event.stream_id(), who.to_string()];
                execute(log, entry(&self.table), values).await;
            }
        }
    }

    /// Each event once; and how many of them by the new consumer.
    async fn check(&self, log: &Log) -> u64 {
        let table = &self.table;
        let rows = query(log, &format!("SELECT position, who FROM {table}"), vec![]).await;
        let mut found: Vec<u64> = rows.iter().map(|row| row.get(0).unwrap()).collect();
        found.sort_unstable();
        let all = log.read(Query::all()).collect().await.unwrap();
        let expected: Vec<u64> = all.iter().map(|event| event.position().get()).collect();
        assert_eq!(found, expected, "every event once");
        rows.iter().filter(|row| row.get::<String>(1).unwrap() == "new").count() as u64
    }

    async fn set_ups(&self, log: &Log) -> i64 {
        crate::support::number(log, &format!("SELECT count(*) FROM {}_set_ups", self.table)).await
    }

    fn set(&self) -> ReplicaSet {
        ReplicaSet::new("s").projection(self.clone())
    }
}

fn fnv1a(id: &str) -> u128 {
    HashRule::fnv1a32(id).into()
}

fn import(stops: &[u64]) -> Import {
    let stops = stops.iter().enumerate().map(|(i, stop)| (i as u16, Position::new(*stop)));
    Import::new("ledger").partitions(stops.len() as u16).checkpoints(stops)
}

/// Orders `ord-0`, `ord-1`, …, interleaved.
async fn fill(log: &Log) {
    for number in 0..EVENTS {
        let order = StreamId::new("Order", format!("ord-{}", number * 7 % STREAMS)).unwrap();
        log.append(&order, Expected::Any, [NewEvent::new("Touched", number)]).await.unwrap();
    }
}

/// A log with events, of which three old runners have handled what they stand for.
async fn with_old(db: &Db, ledger: &Ledger, stops: [u64; 3]) -> Log {
    let log = db.log().await;
    fill(&log).await;
    ledger.run_old(&log, fnv1a, &stops).await;
    log
}

const STOPS: [u64; 3] = [120, 0, 277];

async fn every_event_is_handled_once_by_the_old_or_the_new(db: Db) {
    for (case, total) in [3u16, 5, 1].into_iter().enumerate() {
        let ledger = Ledger { table: db.table(&format!("ledger_{case}")), ..Ledger::new(&db) };
        let log = match case {
            0 => with_old(&db, &ledger, STOPS).await,
            _ => db.log().await,
        };
        if case > 0 {
            Consumers::of(&log).forget("ledger").await.unwrap();
            ledger.run_old(&log, fnv1a, &STOPS).await;
        }
        let before = query(&log, &format!("SELECT 1 FROM {}", ledger.table), vec![]).await.len();
        assert!(before > 50, "the old ones have done something: {before}");
        let plan = import(&STOPS).apply(&log).await.unwrap();
        assert_eq!((plan.before, plan.cursors, plan.lag), (Before::Nothing, 3, EVENTS));
        let standing = status(&log, "ledger").await;
        assert_eq!((standing.kind.as_str(), standing.version), ("imported", 0));
        assert_eq!(standing.strategy, "entity, fnv1a");
        for index in 0..total {
            let set = ledger.set().lanes(if total == 1 { 4 } else { 2 });
            let set = set.partition(FixedPartition::new(index, total).unwrap());
            set.catch_up(&log).await.unwrap();
        }
        assert_eq!(ledger.check(&log).await, EVENTS - before as u64);
        assert_eq!(ledger.set_ups(&log).await, 1);
        let standing = status(&log, "ledger").await;
        assert_eq!((standing.kind.as_str(), standing.version, standing.lag), ("projection", 1, 0));
    }
}

/// The log's own rule is FNV-1a; the old runners took MD5, or the number that the id is.
async fn other_rules_are_continued_at_the_client(db: Db) {
    let log = db.log().await;
    for number in 0..EVENTS {
        let order = StreamId::new("Order", (number * 7 % STREAMS).to_string()).unwrap();
        log.append(&order, Expected::Any, [NewEvent::new("Touched", number)]).await.unwrap();
    }
    let integer: fn(&str) -> u128 = |id| id.parse().unwrap();
    for (rule, hash) in [(HashRule::Md5, HashRule::md5_128 as _), (HashRule::Integer, integer)] {
        let table = db.table(&format!("ledger_{rule}"));
        let ledger = Ledger { table, ..Ledger::by(&db, rule) };
        let stops = [31, 299, 150];
        ledger.run_old(&log, hash, &stops).await;
        import(&stops).partition(&ledger.partition).apply(&log).await.unwrap();
        let other = Ledger { partition: Partition::entity("Order"), ..ledger.clone() };
        let error = other.set().catch_up(&log).await.unwrap_err();
        assert!(matches!(error, RunError::Refused { .. }), "{error}");
        let said = format!("imported for entity, {rule} and it is partitioned by entity, fnv1a");
        assert!(error.to_string().contains(&said), "{error}");
        assert_eq!(ledger.set_ups(&log).await, 0, "a refused program sets nothing up");
        for index in 0..5 {
            let set = ledger.set().partition(FixedPartition::new(index, 5).unwrap());
            set.catch_up(&log).await.unwrap();
        }
        assert!(ledger.check(&log).await > 20);
        assert_eq!(ledger.set_ups(&log).await, 1);
        Consumers::of(&log).forget("ledger").await.unwrap();
    }
}

async fn partitions_that_are_no_sets_of_slots_need_one_position(db: Db) {
    let ledger = Ledger::new(&db);
    let log = db.log().await;
    fill(&log).await;
    let mut stops = [140; 11];
    ledger.run_old(&log, fnv1a, &stops).await;
    stops[3] = 139;
    let refused = refusals(import(&stops).check(&log).await.unwrap());
    let (lowest, highest) = (Position::new(139), Position::new(140));
    assert_eq!(refused, [Refusal::Uneven { total: 11, lowest, highest }]);
    assert!(refused[0].to_string().contains("or give 139 for all"), "{}", refused[0]);
    stops[3] = 140;
    let plan = import(&stops).apply(&log).await.unwrap();
    assert_eq!(plan.cursors, 1);
    ledger.set().lanes(3).catch_up(&log).await.unwrap();
    assert_eq!(ledger.check(&log).await, EVENTS - 140);
}

fn refusals(plan: ImportPlan) -> Vec<Refusal> {
    plan.refusals
}

/// All that is kept about consumers, as text.
async fn kept(db: &Db, log: &Log) -> Vec<String> {
    let mut all = Vec::new();
    for table in ["consumers", "cursors", "parked_keys", "parked_events"] {
        let table = log.store().database().dialect().table(table);
        let rows = query(log, &format!("SELECT * FROM {table} ORDER BY 1"), vec![]).await;
        all.extend(rows.iter().map(|row| format!("{table} {row:?}")));
    }
    let ledger = Ledger::new(db).table;
    for table in [ledger.clone(), format!("{ledger}_set_ups")] {
        all.extend(
            query(log, &format!("SELECT * FROM {table}"), vec![])
                .await
                .iter()
                .map(|row| format!("{row:?}")),
        );
    }
    all
}

async fn a_dry_run_changes_nothing(db: Db) {
    let ledger = Ledger::new(&db);
    let log = with_old(&db, &ledger, STOPS).await;
    for step in 0..3 {
        let before = kept(&db, &log).await;
        let plan = import(&STOPS).check(&log).await.unwrap();
        assert_eq!(plan.partitions.len(), 3);
        let lags: Vec<u64> = plan.partitions.iter().map(|partition| partition.lag).collect();
        assert_eq!(lags, [180, 300, 23]);
        assert_eq!((plan.minimum, plan.lag, plan.cursors), (Position::START, 300, 3));
        let expected = [Before::Nothing, Before::Imported, Before::Consumer][step];
        assert_eq!((plan.before, plan.refusals.is_empty()), (expected, step < 2));
        assert_eq!(kept(&db, &log).await, before, "{expected:?}");
        match step {
            0 => drop(import(&STOPS).apply(&log).await.unwrap()),
            1 => drop(ledger.set().catch_up(&log).await.unwrap()),
            _ => {}
        }
    }
    let before = kept(&db, &log).await;
    import(&STOPS).apply(&log).await.unwrap_err();
    assert_eq!(kept(&db, &log).await, before, "nor does an import that is refused");
}

async fn what_would_lose_or_repeat_events_is_refused(db: Db) {
    let ledger = Ledger::new(&db);
    let log = with_old(&db, &ledger, STOPS).await;
    let of = |checkpoints: &[(u16, u64)]| {
        let all = checkpoints.iter().map(|(index, at)| (*index, Position::new(*at)));
        Import::new("ledger").partitions(3).checkpoints(all)
    };
    for (import, expected) in [
        (of(&[(0, 1), (2, 1)]), "no checkpoint for partition 1 of 3; add it, with position 0"),
        (of(&[]), "no checkpoint for partition 0, 1, 2 of 3"),
        (of(&[(0, 1), (1, 1), (2, 1), (1, 1)]), "two checkpoints for partition 1"),
        (of(&[(0, 1), (1, 1), (2, 1), (3, 1)]), "for partition 3, but 3 partitions are 0 to 2"),
        (of(&[(0, 1), (1, 301), (2, 1)]), "partition 1 stands at 301, and the log ends at 300"),
        (of(&[]).partitions(0), "there cannot be 0 partitions; use 1 to 5040"),
        (of(&[]).partitions(5041), "there cannot be 5041 partitions"),
        (of(&[(0, 1), (1, 1), (2, 1)]).strategy(Strategy::Global), "has 1 partition and not 3"),
        (Import::new("Ledger").checkpoint(0, 1), "beginning with a letter"),
    ] {
        let planned = import.check(&log).await.unwrap().refusals;
        let said = planned.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(said.contains(expected), "{expected}: {said}");
        let error = import.apply(&log).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        let ImportError::Refused { refusals, .. } = error else { panic!("{error}") };
        assert_eq!(refusals, planned);
    }
    assert!(Consumers::of(&log).list().await.unwrap().is_empty(), "nothing was kept");
}

async fn a_consumer_that_has_run_is_replaced_only_if_asked(db: Db) {
    let ledger = Ledger::new(&db);
    let log = with_old(&db, &ledger, STOPS).await;
    import(&[100, 100, 100]).apply(&log).await.unwrap();
    ledger.set().catch_up(&log).await.unwrap();
    fill(&log).await;
    let error = import(&[310, 290, 300]).apply(&log).await.unwrap_err().to_string();
    assert!(error.contains("stands at 300: it would handle up to 10 positions again"), "{error}");
    assert!(error.contains("leave out up to 10"), "{error}");
    let other = import(&[310, 290, 300]).rule(HashRule::Md5).replace(true);
    let error = other.apply(&log).await.unwrap_err().to_string();
    assert!(
        error.contains("is partitioned by entity, fnv1a, and these positions are for"),
        "{error}"
    );
    let plan = import(&[310, 290, 300]).replace(true).apply(&log).await.unwrap();
    let changes: Vec<_> = plan.partitions.iter().map(|p| (p.repeats, p.leaves_out)).collect();
    assert_eq!(changes, [(0, 10), (10, 0), (0, 0)]);
    let epochs: Vec<i64> = status(&log, "ledger").await.cursors.iter().map(|c| c.epoch).collect();
    assert!(epochs.iter().all(|epoch| *epoch > 1), "above the old ones: {epochs:?}");
    ledger.set().catch_up(&log).await.unwrap();
    assert_eq!(ledger.set_ups(&log).await, 1, "it was set up already");
}

async fn a_running_consumer_is_not_touched(db: Db) {
    let ledger = Ledger::new(&db);
    let log = with_old(&db, &ledger, STOPS).await;
    import(&STOPS).apply(&log).await.unwrap();
    let running = start(&log, ledger.set());
    until("it to run", async || (status(&log, "ledger").await.lag == 0).then_some(())).await;
    let planned = import(&STOPS).replace(true).check(&log).await.unwrap().refusals;
    assert!(matches!(&planned[..], [Refusal::Running { .. }]), "{planned:?}");
    assert!(planned[0].to_string().contains("it is run by s on "), "{}", planned[0]);
    import(&STOPS).replace(true).apply(&log).await.unwrap_err();
    running.stop().await;
    ledger.check(&log).await;
    let plan = import(&STOPS).replace(true).check(&log).await.unwrap();
    assert!(plan.refusals.is_empty(), "a stopped one can be: {plan:?}");
}

async fn a_second_import_corrects_the_first(db: Db) {
    let ledger = Ledger::by(&db, HashRule::Md5);
    let log = db.log().await;
    fill(&log).await;
    ledger.run_old(&log, HashRule::md5_128, &STOPS).await;
    Import::new("ledger").strategy(Strategy::Global).checkpoint(0, 7).apply(&log).await.unwrap();
    let plan = import(&STOPS).rule(HashRule::Md5).apply(&log).await.unwrap();
    assert_eq!(plan.before, Before::Imported);
    assert_eq!(status(&log, "ledger").await.strategy, "entity, md5");
    ledger.set().lanes(2).catch_up(&log).await.unwrap();
    ledger.check(&log).await;
}

/// Two processes start while a third imports. Whoever comes first: the hook runs once, and either the
/// positions hold for every event or they were refused and the consumer begins at the start.
async fn an_import_and_a_start_at_the_same_time_are_one_or_the_other(db: Db) {
    let log = db.log().await;
    fill(&log).await;
    let mut imported = 0;
    for round in 0..12u64 {
        let table = db.table(&format!("ledger_{round}"));
        let ledger = Ledger { table, ..Ledger::new(&db) };
        ledger.run_old(&log, fnv1a, &STOPS).await;
        let old = query(&log, &format!("SELECT 1 FROM {}", ledger.table), vec![]).await.len();
        let other = db.log().await;
        let half = |index| ledger.set().partition(FixedPartition::new(index, 2).unwrap());
        let late = async |turns: u64| {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        };
        let start = async {
            late(round % 4 * 40).await;
            half(0).catch_up(&log).await
        };
        let start_too = async {
            late(round % 4 * 40).await;
            half(1).catch_up(&other).await
        };
        let import = import(&STOPS);
        let import = async {
            late(round / 4 * 40).await;
            import.apply(&log).await
        };
        let (one, two, import) = tokio::join!(start, start_too, import);
        one.unwrap();
        two.unwrap();
        assert_eq!(ledger.set_ups(&log).await, 1, "round {round}");
        match import {
            Ok(_) => {
                imported += 1;
                assert_eq!(ledger.check(&log).await, EVENTS - old as u64, "round {round}");
            }
            Err(ImportError::Refused { refusals, .. }) => {
                let is_late = |refusal: &Refusal| {
                    matches!(refusal, Refusal::Running { .. } | Refusal::HasRun { .. })
                };
                assert!(refusals.iter().all(is_late), "{refusals:?}");
                let new =
                    format!("SELECT DISTINCT position FROM {} WHERE who = 'new'", ledger.table);
                assert_eq!(query(&log, &new, vec![]).await.len() as u64, EVENTS);
            }
            Err(error) => panic!("{error}"),
        }
        Consumers::of(&log).forget("ledger").await.unwrap();
    }
    assert!(imported > 0, "some imports came first");
}

async fn one_sequence_has_one_checkpoint(db: Db) {
    let ledger = Ledger { partition: Partition::global(), ..Ledger::new(&db) };
    let log = db.log().await;
    fill(&log).await;
    ledger.run_old(&log, |_| 0, &[250]).await;
    let import = Import::new("ledger").partition(&ledger.partition).checkpoint(0, 250);
    let plan = import.apply(&log).await.unwrap();
    assert_eq!((plan.strategy.as_str(), plan.partitions[0].slots), ("global", 1));
    ledger.set().catch_up(&log).await.unwrap();
    assert_eq!(ledger.check(&log).await, 50);
}
