//! The journal: written with the change or not at all, and only ever added to.

use crate::on_both;
use crate::support::*;
use crate::{handled, operations, pause, table};
use anabranch::operations::{By, JournalFilter, Operations, Request, Stage};
use anabranch::workpool::{NewTask, Tasks};

on_both! {
    an_entry_says_who_did_what,
    what_cannot_be_written_down_is_not_done,
    entries_are_never_changed_nor_removed,
}

async fn an_entry_says_who_did_what(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 3, |_| false).await;
    let console = Operations::new(&log, By::new("joe", "console"));
    console.carry_out(&pause("orders"), |_| {}).await.unwrap();
    let resume = Request::Resume { consumer: "orders".to_owned() };
    operations(&log).carry_out(&resume, |_| {}).await.unwrap();
    Tasks::new(&log, "mails").enqueue(NewTask::new("k", &1)).await.unwrap();
    let key = Request::PauseKey { pool: "mails".to_owned(), key: "k".to_owned() };
    operations(&log).carry_out(&key, |_| {}).await.unwrap();

    let all = operations(&log).journal(&JournalFilter::default()).await.unwrap();
    let told: Vec<_> =
        all.iter().map(|entry| (&*entry.verb, &*entry.target, &*entry.who, &*entry.via)).collect();
    let expected = [
        ("pause_key", "mails", "mary", "library"),
        ("resume", "orders", "mary", "library"),
        ("pause", "orders", "joe", "console"),
    ];
    assert_eq!(told, expected);
    assert!(all.iter().all(|entry| entry.stage == Stage::Applied));
    assert_eq!(all[2].request.get(), r#"{"do":"pause","consumer":"orders"}"#);
    assert_eq!(all[2].outcome.as_ref().unwrap().get(), r#"{"done":1,"gone":0}"#);

    let of = |target: &str| JournalFilter { target: Some(target.to_owned()), ..Default::default() };
    assert_eq!(operations(&log).journal(&of("orders")).await.unwrap().len(), 2);
    assert_eq!(operations(&log).journal(&of("nobody")).await.unwrap().len(), 0);
    let before = JournalFilter { before: Some(all[1].seq), ..Default::default() };
    assert_eq!(operations(&log).journal(&before).await.unwrap().len(), 1);
    let plan = JournalFilter { plan: Some(all[0].plan), ..Default::default() };
    assert_eq!(operations(&log).journal(&plan).await.unwrap().len(), 1);
}

async fn what_cannot_be_written_down_is_not_done(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 3, |_| false).await;
    let plan = operations(&log).plan(&pause("orders")).await.unwrap();
    query(
        &log,
        &format!("ALTER TABLE {} RENAME TO gone_{}", table(&log, "journal"), db.own),
        vec![],
    )
    .await;
    operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
    assert!(!status(&log, "orders").await.paused);
    let plan = operations(&log).get(plan.id).await.unwrap();
    assert_eq!((plan.state.name(), plan.done), ("open", 0));
}

async fn entries_are_never_changed_nor_removed(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 3, |_| false).await;
    operations(&log).carry_out(&pause("orders"), |_| {}).await.unwrap();
    let journal = table(&log, "journal");
    let mut attempts =
        vec![format!("UPDATE {journal} SET who = 'nobody'"), format!("DELETE FROM {journal}")];
    if log.at().starts_with("sqlite") {
        let columns = "at_us, plan, stage, verb, target";
        let rest = "via, request, effect, outcome";
        attempts.push(format!(
            "INSERT OR REPLACE INTO {journal} (seq, {columns}, who, {rest}) \
             SELECT seq, {columns}, 'nobody', {rest} FROM {journal}"
        ));
    }
    for attempt in attempts {
        let statement = anabranch::backend::database::Statement::new(attempt.clone(), vec![]);
        let database = log.database();
        let mut session = database.begin();
        let end = anabranch::backend::database::End::Commit;
        let error = session.run(vec![statement], end).await.unwrap_err();
        assert!(error.to_string().contains("only added to"), "{attempt}: {error}");
    }
    let all = operations(&log).journal(&JournalFilter::default()).await.unwrap();
    assert_eq!(all[0].who, "mary");
}
