//! Pause, resume, cancel.

use crate::on_both;
use crate::support::{Accounts, Command, Db, SendError, accounts};
use anabranch::workflow::Workflows;
use anabranch::workflow::{Lifecycle, LifecycleError, Mode, Past};
use futures_util::future::join_all;

on_both!(
    a_paused_instance_waits_and_a_cancelled_one_is_over,
    commands_never_keep_an_instance_from_being_paused,
    changes_at_once_happen_once,
    the_mode_survives_snapshots,
);

async fn a_paused_instance_waits_and_a_cancelled_one_is_over(db: Db) {
    let (here, there) = (accounts(&db.log().await), accounts(&db.log().await));
    let missing = here.pause("a", "test").await.unwrap_err();
    let message = "workflow `accounts` has no instance `a`; send it a command first";
    assert_eq!(missing.to_string(), message);
    here.send("a", Command::Put(1)).await.unwrap();
    there.send("a", Command::Put(1)).await.unwrap();
    assert_eq!(here.pause("a", "stocktaking").await.unwrap(), 3);
    assert_eq!(there.pause("a", "stocktaking").await.unwrap(), 3, "once is enough");
    for accounts in [&here, &there] {
        let error = accounts.send("a", Command::Put(1)).await.unwrap_err();
        assert!(matches!(error, SendError::Paused { .. }), "{error}");
        let message = "workflow `accounts`: `a` is paused; resume it and send the command again";
        assert_eq!(error.to_string(), message);
        assert_eq!(accounts.state("a").await.unwrap().unwrap().mode, Mode::Paused);
    }
    assert_eq!(there.resume("a").await.unwrap(), 4);
    assert_eq!(here.resume("a").await.unwrap(), 4);
    assert_eq!(here.send("a", Command::Put(1)).await.unwrap().version, 5, "no longer paused");
    assert_eq!(there.cancel("a", "fraud").await.unwrap(), 6);
    assert_eq!(here.cancel("a", "fraud").await.unwrap(), 6);
    for accounts in [&here, &there] {
        let error = accounts.send("a", Command::Look).await.unwrap_err();
        assert!(matches!(error, SendError::Cancelled { .. }), "{error}");
        let error = accounts.resume("a").await.unwrap_err();
        assert!(matches!(error, LifecycleError::Cancelled { .. }), "{error}");
        let account = accounts.state("a").await.unwrap().unwrap();
        assert_eq!((account.mode, account.state.balance), (Mode::Cancelled, 3));
        assert_eq!(accounts.state_at("a", 3).await.unwrap().unwrap().mode, Mode::Paused);
    }
    let past = here.events("a").await.unwrap();
    let why = "fraud".to_owned();
    assert_eq!(past[5].what, Past::Lifecycle(Lifecycle::Cancelled { why }));
    assert_eq!(past[3].what, Past::Lifecycle(Lifecycle::Resumed));
}

async fn commands_never_keep_an_instance_from_being_paused(db: Db) {
    let (here, there) = (accounts(&db.log().await), accounts(&db.log().await));
    here.send("a", Command::Put(1)).await.unwrap();
    let sending = tokio::spawn(async move {
        let mut sent = 0;
        while there.send("a", Command::Put(1)).await.is_ok() {
            sent += 1;
        }
        sent
    });
    while here.state("a").await.unwrap().unwrap().version < 20 {}
    let paused_at = here.pause("a", "enough").await.unwrap();
    let sent = sending.await.unwrap();
    let account = here.state("a").await.unwrap().unwrap();
    assert_eq!((account.version, account.mode), (paused_at, Mode::Paused));
    assert_eq!(account.state.balance, sent + 1);
}

async fn changes_at_once_happen_once(db: Db) {
    let (here, there) = (accounts(&db.log().await), accounts(&db.log().await));
    here.send("a", Command::Put(1)).await.unwrap();
    let changes = (0..16).map(|task| {
        let accounts = if task % 2 == 0 { here.clone() } else { there.clone() };
        tokio::spawn(async move { accounts.pause("a", "test").await.unwrap() })
    });
    for version in join_all(changes).await {
        assert_eq!(version.unwrap(), 2);
    }
    let ends = (0..16).map(|task| {
        let accounts = if task % 2 == 0 { here.clone() } else { there.clone() };
        tokio::spawn(async move {
            match task {
                7 => drop(accounts.cancel("a", "test").await.unwrap()),
                // It may come before or after the end.
                _ => drop(accounts.resume("a").await),
            }
        })
    });
    join_all(ends).await.into_iter().for_each(Result::unwrap);
    let past = here.events("a").await.unwrap();
    let last = &past.last().unwrap().what;
    assert!(matches!(last, Past::Lifecycle(Lifecycle::Cancelled { .. })), "{last:?}");
    assert!(past.len() <= 4, "{past:?}");
}

async fn the_mode_survives_snapshots(db: Db) {
    let every = |snapshot_every| Accounts { snapshot_every, ..Accounts::default() };
    let accounts = Workflows::new(&db.log().await, every(None));
    for _ in 0..5 {
        accounts.send("a", Command::Put(1)).await.unwrap();
        accounts.pause("a", "test").await.unwrap();
        accounts.resume("a").await.unwrap();
    }
    accounts.pause("a", "test").await.unwrap();
    // The first of these folds the events and keeps what comes of them, paused.
    for _ in 0..2 {
        let accounts = Workflows::new(&db.log().await, every(Some(2)));
        assert_eq!(accounts.state("a").await.unwrap().unwrap().mode, Mode::Paused);
        accounts.flush().await;
        for version in 1..=16 {
            let is_paused = version % 3 == 2 || version == 16;
            let expected = if is_paused { Mode::Paused } else { Mode::Running };
            let account = accounts.state_at("a", version).await.unwrap().unwrap();
            assert_eq!(account.mode, expected, "version {version}");
        }
    }
}
