//! What is refused, and what is said.

use crate::process::{failure, stdout};
use crate::table::Rows;

on_both! {
    uneven_parts_are_named,
    what_cannot_run_is_refused,
    the_command_that_lists_what_failed_can_be_typed,
    parts_of_other_programs_are_not_taken_for_ours,
    a_quiet_run_says_errors_only,
}

async fn parts_of_other_programs_are_not_taken_for_ours(rows: Rows) {
    rows.add(1..=3).await;
    let source = rows.table("source");
    let run = |before: &str, more: &str| {
        let run =
            format!("anabranch batch run --source {source} --key id --job job --command true");
        let schema = rows.schema();
        let output = rows.shell(&format!("{before} {run} --target-schema {schema} {more}"));
        stdout(&output);
        String::from_utf8(output.stderr).unwrap()
    };
    let said = run("PARTITION_KEY=1 TOTAL_PARTITIONS=3", "");
    let names = ["PARTITION_KEY", "ANABRANCH_INSTANCE_ID", "ANABRANCH_INSTANCE_COUNT"];
    assert!(names.iter().all(|name| said.contains(name)), "{said}");
    assert!(!run("", "").contains("PARTITION_KEY"));
    let numbered = "--instance-id 1 --instance-count 3";
    assert!(!run("PARTITION_KEY=1 TOTAL_PARTITIONS=3", numbered).contains("PARTITION_KEY"));
    rows.drop().await;
}

async fn a_quiet_run_says_errors_only(rows: Rows) {
    rows.add(1..=3).await;
    let output = rows.batch("run", &["--quiet", "--command", "true"]);
    assert!(stdout(&output).contains("3 rows, 0 failed"), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    rows.add(4..=4).await;
    let output = rows.batch("run", &["-q", "--command", "false"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: 1 row failed") && said.lines().count() == 1, "{said}");
    rows.drop().await;
}

async fn the_command_that_lists_what_failed_can_be_typed(rows: Rows) {
    rows.add(1..=3).await;
    let query = format!("SELECT * FROM {} WHERE name <> 'it''s'", rows.table("source"));
    let of_query = ["--query", &query, "--key", "id", "--job", "odd job", "--assume-unique"];
    let fails = ["--command", "false"];
    for output in
        [rows.batch("run", &fails), rows.batch_alone("run", &[&of_query[..], &fails].concat())]
    {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let command = said.split('`').nth(1).unwrap();
        let listed = stdout(&rows.shell(command));
        assert_eq!(listed.lines().count(), 4, "{command}: {listed}");
    }
    rows.drop().await;
}

async fn uneven_parts_are_named(rows: Rows) {
    rows.add((1..=100).map(|key| key * 2)).await;
    let copy = rows.copy();
    let part = ["--instance-id", "0", "--instance-count", "2", "--limit", "10", "--sql", &copy];
    let said = |arguments: &[&str]| {
        let output = rows.batch("run", arguments);
        let summary = stdout(&output);
        assert!(summary.contains("10 rows, 0 failed"), "{summary}");
        String::from_utf8(output.stderr).unwrap()
    };
    let uneven = said(&part);
    let warning = "uneven: partition 0 has 100 % of the rows; use elastic or --hash";
    assert!(uneven.contains(warning), "{uneven}");
    assert!(uneven.contains("job: part 0 of 2, 4 workers"), "{uneven}");
    let hashed = said(&[&part[..], &["--hash"]].concat());
    assert!(hashed.contains("job: part 0 of 2 by hash") && !hashed.contains("uneven"), "{hashed}");
    let elastic = said(&["--limit", "10", "--workers", "1", "--sql", &copy]);
    assert!(elastic.contains("job: elastic, 1 worker\n"), "{elastic}");
    let verified = stdout(&rows.batch("verify", &[]));
    assert!(verified.contains("collisions     none"), "{verified}");
    assert_eq!(verified.lines().filter(|line| line.contains(" of 2")).count(), 2);
    rows.drop().await;
}

async fn what_cannot_run_is_refused(rows: Rows) {
    rows.add(1..=3).await;
    let copy = rows.copy();
    let run = |arguments: &[&str], code| failure(&rows.batch("run", arguments), code);
    let parts = |arguments: &[&str]| run(&[&["--sql", &copy], arguments].concat(), 1);
    assert!(parts(&["--instance-id", "3", "--instance-count", "3"]).contains("0 to 2"));
    assert!(parts(&["--instance-id", "1"]).contains("give both"));
    assert!(parts(&["--instance-count", "3"]).contains("give both (the id is 0 to 2)"));
    assert!(parts(&["--hash"]).contains("--hash is for parts"));
    assert!(parts(&["--workers", "0"]).contains("use 1 to 256"));
    assert!(parts(&["--batch-size", "0"]).contains("use 1 to 10000"));
    assert!(parts(&["--lease", "0.1"]).contains("use 0.5 s to 1 h"));
    assert!(run(&["--sql", &copy, "--lease", "0"], 2).contains("--lease"));
    assert!(run(&["--sql", &copy, "--sessions", "0"], 2).contains("--sessions"));
    assert!(run(&[], 2).contains("--sql"));
    assert!(run(&["--sql", &copy, "--command", "true"], 2).contains("cannot be used with"));
    assert!(
        run(&["--command", "true", "--webhook", "http://x"], 2).contains("cannot be used with")
    );
    assert!(run(&["--sql", &copy, "--per-page"], 2).contains("cannot be used with"));
    assert!(run(&["--sql", &copy, "--query", "SELECT 1"], 2).contains("cannot be used with"));
    assert!(run(&["--sql", "  "], 1).contains("the statement is empty"));
    assert!(run(&["--command", "a 'b"], 1).contains("not closed"));
    assert!(run(&["--webhook", "ftp://x"], 1).contains("no http or https URL"));
    assert_eq!(rows.effects().await, 0);
    rows.drop().await;
}
