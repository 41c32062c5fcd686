//! A command id is carried out once, whatever the state is by then.

use crate::on_both;
use crate::support::{Command, Db, accounts};
use anabranch::prelude::*;
use futures_util::future::join_all;
use uuid::Uuid;

on_both!(
    a_repeated_command_answers_as_it_did,
    a_repeated_command_that_would_be_decided_otherwise_stores_nothing,
    the_same_command_at_once_is_carried_out_once,
    a_command_id_counts_for_each_instance,
);

async fn count(log: &Log) -> usize {
    log.read(Query::all()).collect().await.unwrap().len()
}

async fn a_repeated_command_answers_as_it_did(db: Db) {
    let log = db.log().await;
    let (here, there) = (accounts(&log), accounts(&db.log().await));
    let id = Uuid::now_v7();
    let command = || Command::PutEach(vec![1, 2]);
    let first = here.send_as(id, "a", command()).await.unwrap();
    assert_eq!((first.version, first.events, first.repeated), (2, 2, false));
    for _ in 0..2 {
        for accounts in [&here, &there] {
            let again = accounts.send_as(id, "a", command()).await.unwrap();
            assert_eq!((again.version, again.events, again.repeated), (2, 2, true));
        }
        here.send("a", Command::Put(5)).await.unwrap();
    }
    assert_eq!(here.state("a").await.unwrap().unwrap().state.balance, 13);
    assert_eq!(count(&log).await, 4);
    let event = log.read_stream(&"Account:a".parse().unwrap()).collect().await.unwrap().remove(0);
    assert_eq!(event.causation(), Some(id.to_string().as_str()));
}

async fn a_repeated_command_that_would_be_decided_otherwise_stores_nothing(db: Db) {
    let log = db.log().await;
    let accounts = accounts(&log);
    accounts.send("a", Command::Put(2)).await.unwrap();
    // Now: two entries of 1, and an end.
    let empty = Uuid::now_v7();
    let first = accounts.send_as(empty, "a", Command::Empty).await.unwrap();
    assert_eq!((first.version, first.events), (4, 3));
    let repeat = async |why: &str| {
        let before = count(&log).await;
        let again = accounts.send_as(empty, "a", Command::Empty).await.unwrap();
        assert_eq!((again.version, again.events, again.repeated), (4, 3, true), "{why}");
        assert_eq!(count(&log).await, before, "{why}");
    };
    repeat("nothing is left to do").await;
    accounts.send("a", Command::Put(1)).await.unwrap();
    repeat("one entry less").await;
    accounts.send("a", Command::Put(9)).await.unwrap();
    repeat("more entries, the first of them the same").await;

    let take = Uuid::now_v7();
    let first = accounts.send_as(take, "a", Command::Take(10)).await.unwrap();
    let again = accounts.send_as(take, "a", Command::Take(10)).await.unwrap();
    assert_eq!((again.version, again.repeated), (first.version, true), "rejected by now");
    accounts.cancel("a", "test").await.unwrap();
    let again = accounts.send_as(take, "a", Command::Take(10)).await.unwrap();
    assert_eq!((again.version, again.repeated), (first.version, true), "cancelled by now");
}

async fn the_same_command_at_once_is_carried_out_once(db: Db) {
    let (here, there) = (accounts(&db.log().await), accounts(&db.log().await));
    for round in 1..=10 {
        let id = Uuid::now_v7();
        let answers = join_all((0..8).map(|task| {
            let accounts = if task % 2 == 0 { here.clone() } else { there.clone() };
            tokio::spawn(async move { accounts.send_as(id, "a", Command::Put(1)).await })
        }))
        .await;
        let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
        assert!(answers.iter().all(|answer| answer.version == round), "{answers:?}");
        // One for each process at the most: its tasks take turns.
        let first = answers.iter().filter(|answer| !answer.repeated).count();
        assert!((1..=2).contains(&first), "{answers:?}");
    }
    assert_eq!(here.state("a").await.unwrap().unwrap().state.balance, 10);
}

async fn a_command_id_counts_for_each_instance(db: Db) {
    let accounts = accounts(&db.log().await);
    let id = Uuid::now_v7();
    for account in ["a", "b"] {
        let sent = accounts.send_as(id, account, Command::Put(1)).await.unwrap();
        assert_eq!((sent.version, sent.repeated), (1, false));
    }
    // What left no trace is decided anew.
    let id = Uuid::now_v7();
    accounts.send_as(id, "a", Command::Take(2)).await.unwrap_err();
    accounts.send("a", Command::Put(1)).await.unwrap();
    let sent = accounts.send_as(id, "a", Command::Take(2)).await.unwrap();
    assert_eq!((sent.version, sent.repeated), (3, false));
}
