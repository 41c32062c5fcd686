//! What a job is of: another source, key or query under its name.

use crate::process::{failure, stdout};
use crate::table::Rows;

on_both! {
    another_source_or_key_under_the_same_job_is_refused,
    a_query_that_changed_is_refused_until_it_is_accepted,
    a_job_from_before_is_adopted_with_a_warning,
}

async fn another_source_or_key_under_the_same_job_is_refused(rows: Rows) {
    rows.add(1..=50).await;
    rows.run(&["--sql", &rows.copy()]);
    let (source, other) = (rows.table("source"), rows.table("invoices"));
    let create = "(id bigint PRIMARY KEY, nr bigint NOT NULL UNIQUE, name text)";
    rows.sql(&format!("CREATE TABLE {other} {create}")).await;
    rows.sql(&format!("INSERT INTO {other} SELECT id, id, name FROM {source}")).await;
    let copy = rows.copy();
    let of = |job, key| ["--source", &other, "--job", job, "--key", key].map(str::to_owned);
    let all_refuse = |of: [String; 6]| {
        let of: Vec<&str> = of.iter().map(String::as_str).collect();
        let run = [&of[..], &["--sql", &copy]].concat();
        let verify = [&of[..], &["--complete"]].concat();
        let ways = [("run", &run), ("verify", &verify), ("failed", &of)];
        ways.map(|(what, arguments)| failure(&rows.batch_alone(what, arguments), 1)).join("\n")
    };
    let said = all_refuse(of("job", "id"));
    let wanted = ["source", "invoices", "another --job", "--accept-source"];
    assert!(wanted.iter().all(|part| said.contains(part)), "{said}");
    assert_eq!(rows.effects().await, 50);
    // Another key names other rows, and that cannot be accepted.
    let own = of("own", "id");
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let run = [&own[..], &["--sql", &copy]].concat();
    assert!(stdout(&rows.batch_alone("run", &run)).contains("50 rows, 0 failed"));
    let said = all_refuse(of("own", "nr"));
    assert!(said.contains("`id`") && said.contains("`nr`"), "{said}");
    let accept = [&run[..5], &["nr"], &run[6..], &["--accept-source"]].concat();
    assert!(failure(&rows.batch_alone("run", &accept), 1).contains("`nr`"));
    assert_eq!(rows.effects().await, 100);
    rows.drop().await;
}

async fn a_query_that_changed_is_refused_until_it_is_accepted(rows: Rows) {
    rows.add(1..=50).await;
    let (source, copy) = (rows.table("source"), rows.copy());
    let of = |most: u32| {
        let select = format!("SELECT * FROM {source} WHERE id <= {most}");
        ["--key", "id", "--job", "query", "--query", &select].map(str::to_owned)
    };
    let batch = |what, most, more: &[&str]| {
        let of = of(most);
        let of: Vec<&str> = of.iter().map(String::as_str).collect();
        rows.batch_alone(what, &[&of[..], more].concat())
    };
    let run = ["--assume-unique", "--sql", &copy];
    assert!(stdout(&batch("run", 40, &run)).contains("40 rows, 0 failed"));
    assert!(stdout(&batch("run", 40, &run)).contains("0 rows, 0 failed"));
    let said = failure(&batch("run", 45, &run), 1);
    let wanted = ["id <= 40", "id <= 45", "--accept-source"];
    assert!(wanted.iter().all(|part| said.contains(part)), "{said}");
    failure(&batch("verify", 45, &[]), 1);
    failure(&batch("failed", 45, &[]), 1);
    assert_eq!(rows.effects().await, 40);
    let accepted = batch("run", 45, &[&run[..], &["--accept-source"]].concat());
    assert!(stdout(&accepted).contains("5 rows, 0 failed"));
    let said = String::from_utf8(accepted.stderr).unwrap();
    assert!(said.contains("id <= 40") && said.contains("id <= 45"), "{said}");
    // From then on it is the one that is stored.
    assert!(batch("verify", 45, &["--complete"]).status.success());
    failure(&batch("verify", 40, &[]), 1);
    assert!(stdout(&batch("run", 45, &run)).contains("0 rows, 0 failed"));
    rows.drop().await;
}

async fn a_job_from_before_is_adopted_with_a_warning(rows: Rows) {
    rows.add(1..=50).await;
    let copy = rows.copy();
    let said = |what, arguments: &[&str]| {
        let output = rows.batch(what, arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let warning = "entries from before its source was stored";
    assert!(!said("verify", &[]).contains(warning), "it has no entries");
    let first = said("run", &["--limit", "10", "--sql", &copy]);
    assert!(!first.contains(warning), "{first}");
    rows.sql(&format!("DROP TABLE {}", rows.table("processing_log_jobs"))).await;
    assert!(said("verify", &[]).contains("nothing shows"));
    let adopted = said("run", &["--sql", &copy]);
    assert!(adopted.contains(warning) && adopted.contains("source`"), "{adopted}");
    assert!(!said("run", &["--sql", &copy]).contains(warning), "it is adopted once");
    rows.are_done().await;
    rows.drop().await;
}
