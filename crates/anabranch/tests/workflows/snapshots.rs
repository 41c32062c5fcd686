//! Snapshots: the same states, from fewer events.

use crate::on_both;
use crate::support::{Account, Accounts, Command, Db};
use anabranch::backend::database::{End, Statement};
use anabranch::prelude::*;
use anabranch::workflow::Past;
use anabranch::workflow::Workflow;
use anabranch::workflow::Workflows;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

on_both!(
    a_state_is_read_through_its_snapshot,
    a_snapshot_of_another_state_version_is_left_aside,
    a_snapshot_that_does_not_fit_is_left_aside,
    snapshots_are_made_up_for,
);

fn every(events: u64) -> Accounts {
    Accounts { snapshot_every: Some(events), ..Accounts::default() }
}

async fn run(log: &Log, sql: &str) -> Vec<anabranch::Row> {
    let database = log.store().database();
    let sql = sql.replace("{}", &database.dialect().table("workflow_snapshots"));
    let statement = Statement::query(sql, vec![]);
    let answers = database.begin().run(vec![statement], End::Commit).await.unwrap();
    answers.into_iter().next().unwrap().rows
}

/// The versions at which states of `a` are kept.
async fn kept(log: &Log) -> Vec<u64> {
    let rows = run(log, "SELECT version FROM {} WHERE id = 'a' ORDER BY version").await;
    rows.iter().map(|row| row.get(0).unwrap()).collect()
}

async fn fill(log: &Log, workflow: Accounts, events: u64) {
    let accounts = Workflows::new(log, workflow);
    for _ in 0..events {
        accounts.send("a", Command::Put(1)).await.unwrap();
        accounts.flush().await;
    }
}

async fn a_state_is_read_through_its_snapshot(db: Db) {
    let log = db.log().await;
    fill(&log, every(10), 35).await;
    assert_eq!(kept(&log).await, [10, 20, 30]);
    // A state that no event leads to shows which way it was read.
    let marked = "UPDATE {} SET state = '{\"balance\":1000,\"entries\":0,\"trace\":0}' \
                  WHERE version = 20 RETURNING 1";
    assert_eq!(run(&log, marked).await.len(), 1);
    let accounts = Workflows::new(&log, every(10));
    let balance =
        async |version| accounts.state_at("a", version).await.unwrap().unwrap().state.balance;
    assert_eq!(balance(9).await, 9);
    assert_eq!(balance(19).await, 19);
    assert_eq!(balance(20).await, 1000);
    assert_eq!(balance(29).await, 1009);
    assert_eq!(balance(30).await, 30);
    assert_eq!(accounts.state("a").await.unwrap().unwrap().state.balance, 35);
    // Without snapshots nothing is read through them.
    let never = Workflows::new(&log, Accounts { snapshot_every: None, ..Accounts::default() });
    assert_eq!(never.state_at("a", 29).await.unwrap().unwrap().state.balance, 29);
}

async fn a_snapshot_of_another_state_version_is_left_aside(db: Db) {
    let log = db.log().await;
    fill(&log, every(10), 25).await;
    let changed = Accounts { state_version: 2, bias: 1, ..every(10) };
    let newer = Workflows::new(&log, changed);
    assert_eq!(newer.state("a").await.unwrap().unwrap().state.balance, 50, "folded anew");
    for _ in 0..10 {
        newer.send("a", Command::Put(1)).await.unwrap();
    }
    newer.flush().await;
    // While both run, each reads its own.
    let older = Workflows::new(&log, every(10));
    assert_eq!(older.state("a").await.unwrap().unwrap().state.balance, 35);
    let newer = Workflows::new(&log, changed);
    assert_eq!(newer.state("a").await.unwrap().unwrap().state.balance, 70);
}

async fn a_snapshot_that_does_not_fit_is_left_aside(db: Db) {
    let log = db.log().await;
    fill(&log, every(10), 25).await;
    run(&log, "UPDATE {} SET state = '{\"other\":1}' RETURNING 1").await;
    let accounts = Workflows::new(&log, every(10));
    assert_eq!(accounts.state("a").await.unwrap().unwrap().state.balance, 25);
}

async fn snapshots_are_made_up_for(db: Db) {
    let log = db.log().await;
    fill(&log, Accounts { snapshot_every: None, ..Accounts::default() }, 25).await;
    assert!(kept(&log).await.is_empty());
    let accounts = Workflows::new(&log, every(10));
    accounts.state("a").await.unwrap();
    accounts.flush().await;
    assert_eq!(kept(&log).await, [25], "whoever folds many events keeps what came of it");
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        3 => (0..9_i64).prop_map(Command::Put),
        1 => prop::collection::vec(0..5_i64, 0..9).prop_map(Command::PutEach),
        2 => (0..9_i64).prop_map(Command::Take),
        1 => Just(Command::Empty),
    ]
}

/// Random commands, with snapshots as often as may be: each state is the fold of its events from
/// the first on.
#[test]
fn states_are_the_folds_of_their_events() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let commands = (1..8_u64, prop::collection::vec(command(), 1..25));
    let result = TestRunner::new(config).run(&commands, |(often, commands)| {
        runtime.block_on(async {
            let log = anabranch::connect("sqlite::memory:").await.unwrap();
            let accounts = Workflows::new(&log, every(often));
            for command in commands {
                let _ = accounts.send("a", command).await;
                accounts.flush().await;
            }
            let fresh = Workflows::new(&log, every(often));
            let mut state = Account::default();
            for event in fresh.events("a").await.unwrap() {
                let Past::Event(entry) = event.what else { unreachable!() };
                every(often).evolve(&mut state, &entry);
                let at = fresh.state_at("a", event.version).await.unwrap().unwrap();
                prop_assert_eq!(&at.state, &state, "version {}", event.version);
            }
            for accounts in [&accounts, &fresh] {
                let newest = accounts.state("a").await.unwrap().map(|instance| instance.state);
                prop_assert_eq!(newest.unwrap_or_default(), state.clone());
            }
            Ok(())
        })
    });
    result.unwrap();
}
