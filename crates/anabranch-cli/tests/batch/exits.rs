//! What scripts see: exit codes.

use crate::table::Rows;

on_both! {
    failed_rows_are_exit_code_1_unless_they_are_allowed,
}

async fn failed_rows_are_exit_code_1_unless_they_are_allowed(rows: Rows) {
    rows.add(1..=30).await;
    let bad = format!("UPDATE {} SET name = 'bad' WHERE id IN (7, 8)", rows.table("source"));
    rows.sql(&bad).await;
    let copy = rows.copy();
    let run = |more: &[&str]| {
        let output = rows.batch("run", &[&["--sql", &copy], more].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), said)
    };
    let (code, said) = run(&[]);
    assert!(code == 1 && said.contains("error: 2 rows failed"), "{code} {said}");
    let (code, said) = run(&["--retry-failed", "--allow-failures"]);
    assert!(code == 0 && said.contains("warning: 2 rows failed"), "{code} {said}");
    assert_eq!(rows.verify(&[]).0["failed"], 2, "they are kept as failed all the same");
    // That allows nothing else.
    let (code, said) = run(&["--allow-failures", "--workers", "0"]);
    assert!(code == 1 && said.contains("use 1 to 256"), "{code} {said}");
    let (_, help) = (0, rows.batch_alone("run", &["--help"]));
    let help = String::from_utf8(help.stdout).unwrap();
    for line in ["Exit codes:", "--allow-failures"] {
        assert!(help.contains(line), "{help}");
    }
    rows.drop().await;
}
