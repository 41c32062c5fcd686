//! Commands: decided on the newest state, stored with its version.

use crate::on_both;
use crate::support::{Account, Accounts, Command, Db, Entry, SendError, accounts};
use anabranch::prelude::*;
use anabranch::workflow::Workflows;
use anabranch::workflow::{Past, PastEvent};
use futures_util::future::join_all;

on_both!(
    a_command_is_decided_and_its_events_are_the_state,
    a_rejected_command_leaves_no_trace,
    what_others_did_is_seen_before_a_rejection,
    tasks_of_one_process_lose_no_command,
    processes_lose_no_command,
    bad_events_and_ids_are_refused_by_name,
    an_event_that_cannot_be_read_is_named,
);

async fn a_command_is_decided_and_its_events_are_the_state(db: Db) {
    let log = db.log().await;
    let accounts = accounts(&log);
    assert_eq!(accounts.state("a").await.unwrap(), None);
    let sent = accounts.send("a", Command::PutEach(vec![5, 6, 7])).await.unwrap();
    assert_eq!((sent.version, sent.events, sent.repeated), (3, 3, false));
    let sent = accounts.send("a", Command::Take(10)).await.unwrap();
    assert_eq!((sent.version, sent.events, sent.repeated), (4, 1, false));
    let sent = accounts.send("a", Command::Look).await.unwrap();
    assert_eq!((sent.version, sent.events, sent.repeated), (4, 0, false), "nothing to do");
    accounts.send("b", Command::Put(1)).await.unwrap();

    let others = crate::support::accounts(&db.log().await);
    for accounts in [&accounts, &others] {
        let account = accounts.state("a").await.unwrap().unwrap();
        assert_eq!((account.version, account.id.as_str()), (4, "a"));
        assert_eq!((account.state.balance, account.state.entries), (8, 4));
        let at = async |version| accounts.state_at("a", version).await.unwrap();
        assert_eq!(at(2).await.unwrap().state.balance, 11);
        assert_eq!((at(0).await, at(5).await), (None, None), "there is no such version");
        let past = accounts.events("a").await.unwrap();
        let last = past.last().map(|PastEvent { version, what, .. }| (*version, what.clone()));
        assert_eq!(last, Some((4, Past::Event(Entry::Taken { amount: 10 }))));
    }
    let event = log.read_stream(&"Account:a".parse().unwrap()).collect().await.unwrap().remove(0);
    assert_eq!((event.event_type(), event.data_json()), ("Put", r#"{"amount":5}"#));
    assert!(event.causation().is_some(), "the command is known");
}

async fn a_rejected_command_leaves_no_trace(db: Db) {
    let log = db.log().await;
    let accounts = accounts(&log);
    let error = accounts.send("a", Command::Take(1)).await.unwrap_err();
    assert_eq!(error.to_string(), "rejected: there is only 0");
    assert!(!error.is_transient());
    assert_eq!(accounts.state("a").await.unwrap(), None);
    assert_eq!(log.read(Query::all()).collect().await.unwrap().len(), 0);
}

async fn what_others_did_is_seen_before_a_rejection(db: Db) {
    let (here, there) = (accounts(&db.log().await), accounts(&db.log().await));
    here.send("a", Command::Put(1)).await.unwrap();
    there.send("a", Command::Put(9)).await.unwrap();
    // This process remembers a balance of 1.
    let sent = here.send("a", Command::Take(10)).await.unwrap();
    assert_eq!(sent.version, 3);
    there.send("a", Command::Put(2)).await.unwrap();
    let sent = here.send("a", Command::Empty).await.unwrap();
    assert_eq!((sent.version, sent.events), (7, 3), "remembered as empty");
}

/// `patient`: who finds the instance contended sends again, as the error says.
async fn increments(handles: Vec<Workflows<Accounts>>, patient: bool) {
    const EACH: u64 = 50;
    let tasks = handles.iter().cloned().map(|accounts| {
        tokio::spawn(async move {
            for _ in 0..EACH {
                while let Err(error) = accounts.send("hot", Command::Put(1)).await {
                    let is_contended = matches!(error, SendError::Contended { .. });
                    assert!(patient && is_contended, "{error}");
                }
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    let expected = EACH * handles.len() as u64;
    for accounts in &handles {
        let account = accounts.state("hot").await.unwrap().unwrap();
        assert_eq!((account.version, account.state.balance), (expected, expected as i64));
        let versions = accounts.events("hot").await.unwrap();
        let versions: Vec<u64> = versions.iter().map(|event| event.version).collect();
        assert_eq!(versions, (1..=expected).collect::<Vec<_>>());
    }
}

async fn tasks_of_one_process_lose_no_command(db: Db) {
    let accounts = accounts(&db.log().await);
    increments(vec![accounts; 8], false).await;
}

async fn processes_lose_no_command(db: Db) {
    let mut handles = Vec::new();
    for _ in 0..4 {
        handles.push(accounts(&db.log().await));
    }
    increments(handles, true).await;
}

async fn bad_events_and_ids_are_refused_by_name(db: Db) {
    let log = db.log().await;
    let accounts = accounts(&log);
    let error = accounts.send("a", Command::Forge).await.unwrap_err();
    let message = "workflow `accounts` decided on an event that cannot be written: types like \
                   `workflow.paused` are Anabranch's own; rename it";
    assert_eq!(error.to_string(), message);
    let error = accounts.send("", Command::Look).await.unwrap_err();
    assert!(error.to_string().contains("stream id of category `Account`: is empty"), "{error}");
    assert_eq!(log.read(Query::all()).collect().await.unwrap().len(), 0);
}

async fn an_event_that_cannot_be_read_is_named(db: Db) {
    let log = db.log().await;
    let accounts = accounts(&log);
    accounts.send("a", Command::Put(1)).await.unwrap();
    let stranger = [NewEvent::new("Stolen", ())];
    log.append(&"Account:a".parse().unwrap(), Expected::Any, stranger).await.unwrap();
    let error = accounts.send("a", Command::Put(1)).await.unwrap_err();
    assert!(matches!(error, SendError::Load(_)), "{error}");
    let error = error.to_string();
    assert!(error.contains("workflow `accounts` cannot read its instance `a`"), "{error}");
    assert!(error.contains("unknown event type `Stolen` at position 2"), "{error}");
}

#[tokio::test]
async fn few_states_are_kept_and_all_are_right() {
    let log = anabranch::connect("sqlite::memory:").await.unwrap();
    let accounts = Workflows::with_cache(&log, Accounts::default(), 4);
    for round in 1..=3 {
        for id in 0..20 {
            accounts.send(&id.to_string(), Command::Put(id)).await.unwrap();
            let account: Account = accounts.state(&id.to_string()).await.unwrap().unwrap().state;
            assert_eq!(account.balance, id * round);
        }
    }
}
