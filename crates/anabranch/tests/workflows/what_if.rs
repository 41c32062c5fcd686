//! Commands that are only imagined.

use crate::on_both;
use crate::support::{Command, Db, Entry, accounts};
use anabranch::prelude::*;

on_both!(what_if_tells_and_stores_nothing);

async fn what_if_tells_and_stores_nothing(db: Db) {
    let log = db.log().await;
    let accounts = accounts(&log);
    accounts.send("a", Command::Put(3)).await.unwrap();
    let commands = [Command::Put(2), Command::Take(9), Command::Take(5), Command::Empty];
    let told = accounts.what_if("a", commands).await.unwrap();
    assert_eq!(told[0].outcome, Ok(vec![Entry::Put { amount: 2 }]));
    let reactions: Vec<String> = told[0].reactions.iter().map(|one| format!("{one:?}")).collect();
    let expected = [r#"action "thank a for 2""#, r#"timer `interest` in 60s: {"Put":1}"#];
    assert_eq!(reactions, expected);
    assert_eq!(told[1].outcome.as_ref().unwrap_err().balance, 5);
    assert_eq!((told[1].version, told[1].state.balance), (2, 5));
    assert_eq!((told[2].version, told[2].state.balance), (3, 0));
    assert_eq!((told[3].outcome.clone(), told[3].version), (Ok(vec![]), 3));
    assert!(told[3].reactions.is_empty());
    assert_eq!(accounts.what_if("new", [Command::Put(1)]).await.unwrap()[0].version, 1);
    assert_eq!(log.read(Query::all()).collect().await.unwrap().len(), 1);
    assert_eq!(accounts.state("a").await.unwrap().unwrap().state.balance, 3);
}
