//! A row that was handled twice: by which sessions.

use crate::table::Rows;

on_both! {
    a_collision_names_its_sessions,
}

async fn a_collision_names_its_sessions(rows: Rows) {
    rows.add(1..=30).await;
    let summary = rows.run(&["--sql", &rows.copy()]);
    let session = summary["sessions"][0].as_str().unwrap().to_owned();
    let log = rows.table("processing_log");
    rows.sql(&format!(
        "INSERT INTO {log}_history SELECT job, key, 'another', '1 of 2', at_us + 1 FROM {log}_history \
         WHERE key = '6'"
    ))
    .await;
    let (verified, sound) = rows.verify(&[]);
    assert!(!sound);
    let collision = &verified["collisions"][0];
    assert_eq!(collision["key"], "6");
    let by = |number: usize| &collision["handled_by"][number];
    assert_eq!((&by(0)["session"], &by(0)["part"]), (&session.as_str().into(), &"elastic".into()));
    assert!(by(0)["host"].is_string() && by(0)["pid"].is_number(), "{collision}");
    assert_eq!((&by(1)["session"], &by(1)["part"]), (&"another".into(), &"1 of 2".into()));
    assert!(by(1)["host"].is_null(), "nobody knows: {collision}");
    let output = rows.batch("verify", &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    let of = format!("rows handled more than once: 6 (session {session}, elastic, ");
    assert!(said.contains(&of) && said.contains("; session another, part 1 of 2"), "{said}");
    rows.drop().await;
}
