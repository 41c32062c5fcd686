//! Webhooks that a file describes, and pools whose tasks go to another server.

use crate::hooks::*;
use crate::on_both;
use crate::support::*;
use anabranch::workpool::{NewTask, Tasks};
use anabranch_file::file::{File, Source};
use anabranch_file::{Sets, check_offline};
use anabranch_lab::receiver::Reply;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

on_both! {
    a_webhook_of_a_file_delivers,
    tasks_of_a_pool_go_to_another_server,
}

fn parsed(text: &str) -> Result<File, anabranch_file::file::Problems> {
    File::parse(&Source::new("orders.toml", text))
}

fn file(text: &str) -> File {
    parsed(text).unwrap()
}

fn refused(text: &str, log: &anabranch::Log) -> String {
    match Sets::default().of(&file(text), log) {
        Ok(_) => panic!("it was taken"),
        Err(problems) => problems.to_string(),
    }
}

async fn a_webhook_of_a_file_delivers(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=4).await;
    let receiver = always_taken().await;
    let text = format!(
        "[[replica_set]]\nname = \"hooks\"\n[[replica_set.webhook]]\nname = \"crm\"\npartition = \"entity:Order\"\n\
         to = \"{}\"\nsecret = [\"{SECRET}\", \"{SECRET}\"]\nprivate_addresses = true\nconcurrency = 4\n\
         max_per_second = 5000\nheaders = {{ X-Shop = \"1\" }}\n",
        receiver.url()
    );
    for made in Sets::default().of(&file(&text), &log).unwrap() {
        made.set.catch_up(&log).await.unwrap();
    }
    is_whole(&receiver, 5, 4);
    let message = receiver.received().remove(0);
    standardwebhooks::Webhook::new(SECRET)
        .unwrap()
        .verify(&message.body, &message.headers)
        .unwrap();
    assert_eq!(
        (message.header("x-shop"), message.header("webhook-signature").split(' ').count()),
        ("1", 2)
    );
}

async fn tasks_of_a_pool_go_to_another_server(db: Db) {
    let log = db.log().await;
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let receiver = receiver(move |_| match seen.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::status(500),
        _ => Reply::default(),
    })
    .await;
    let text = format!(
        "[[replica_set]]\nname = \"mails\"\n[[replica_set.pool]]\nname = \"mail\"\nto = \"{}\"\nsecret = \"{SECRET}\"\n\
         private_addresses = true\nretry = {{ attempts = 3, first = \"10ms\" }}\n",
        receiver.url()
    );
    let tasks = Tasks::new(&log, "mail");
    let task = NewTask::new("c-1", &serde_json::json!({ "kind": "report" }));
    tasks.enqueue(task).await.unwrap();
    for made in Sets::default().of(&file(&text), &log).unwrap() {
        made.set.catch_up(&log).await.unwrap();
    }
    let received = receiver.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    let body = received[1].json();
    assert_eq!(body["data"]["kind"], "report");
    assert_eq!((body["key"].as_str(), body["attempt"].as_u64()), (Some("c-1"), Some(2)));
    standardwebhooks::Webhook::new(SECRET)
        .unwrap()
        .verify(&received[1].body, &received[1].headers)
        .unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_a_webhook_is_said_at_its_place() {
    let text = "[[replica_set]]\nname = \"hooks\"\n[[replica_set.webhook]]\nname = \"crm\"\npartition = \"customer\"\n\
                to = \"ftp://example.com\"\nsecret = \"hunter2\"\nheaders = { webhook-id = \"1\" }\n";
    let log = anabranch::connect("sqlite::memory:").await.unwrap();
    let said = refused(text, &log);
    assert!(said.contains("no http or https URL"), "{said}");
    let text = text.replace("ftp:", "https:");
    let said = refused(&text, &log);
    assert!(said.contains("whsec_") && said.contains("set by the webhook itself"), "{said}");
    assert!(!said.contains("hunter2") && said.contains("secret = *********"), "{said}");
    assert!(!said.contains("no consumers"), "{said}");
    let offline = check_offline(&file(&text), None).await.unwrap_err().to_string();
    assert!(offline.contains("whsec_") && !offline.contains("no consumers"), "{offline}");
    let said = refused(&text.replace("https://", "https://me:hunter2@"), &log);
    assert!(said.contains("put them into a header"), "{said}");
    let unsigned = text.replace("secret = \"hunter2\"\nheaders = { webhook-id = \"1\" }\n", "");
    let warnings = check_offline(&file(&unsigned), None).await.unwrap().to_string();
    assert!(warnings.contains("not signed"), "{warnings}");
    for wrong in
        ["secret = { env = 1 }", "secret = []", "secret = 7", "max_per_second = 0", "batch = 0"]
    {
        let text = unsigned.replace("to =", &format!("{wrong}\nto ="));
        let said = parsed(&text).unwrap_err().to_string();
        assert!(said.contains("must be"), "{wrong}: {said}");
    }
    for (wrong, wants) in [
        ("name = \"mail\"", "lacks `command` or `to`"),
        ("name = \"mail\"\ncommand = [\"x\"]\nto = \"https://x\"", "and this has both"),
        ("name = \"mail\"\nto = \"https://x\"\neffects = \"database\"", "not in the database"),
        ("name = \"mail\"\nto = \"https://x\"\nenv = { A = \"1\" }", "is for programs"),
        ("name = \"mail\"\ncommand = [\"x\"]\nsecret = \"1\"", "is for a pool that sends"),
    ] {
        let text = format!("[[replica_set]]\nname = \"a\"\n[[replica_set.pool]]\n{wrong}\n");
        let said = parsed(&text).unwrap_err().to_string();
        assert!(said.contains(wants), "{wrong}: {said}");
    }
}
