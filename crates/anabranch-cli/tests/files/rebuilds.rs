//! `rebuild FILE CONSUMER`: new SQL is built beside the old, compared and switched to.

use crate::changes::{FILE, Process, until};
use crate::place::{Place, number};
use crate::process::{failure, stdout};

/// With a table that it names, and an index.
fn first() -> String {
    FILE.replace("TABLE totals", "TABLE {totals}")
        .replace("FROM totals", "FROM {totals}")
        .replace("INTO totals", "INTO {totals}")
        .replace("reset = ", "tables = [\"totals\"]\nreset = ")
        .replace("setup = 'CREATE TABLE {totals} (id", "setup = '''CREATE TABLE {totals} (id")
        .replace(
            "by_code TEXT NOT NULL)'",
            "by_code TEXT NOT NULL);\nCREATE INDEX {totals}_by_cents ON {totals} (cents)'''",
        )
}

/// Cents become tenths of cents.
fn second() -> String {
    first()
        .replace(":data.cents, 'old'", "CAST(:data.cents AS BIGINT) * 10, 'new'")
        .replace("tables = ", "version = 2\ntables = ")
}

#[tokio::test(flavor = "multi_thread")]
async fn new_sql_is_built_beside_the_old_and_switched_to() {
    for place in [Place::sqlite(), Place::postgres()] {
        place.write("old.toml", &first());
        place.write("new.toml", &second());
        let log = place.log().await;
        let sum = async || number(&log, "SELECT CAST(sum(cents) AS BIGINT) FROM totals").await;
        for id in 1..=4 {
            place.order(&log, &id.to_string(), r#"{"cents": 1}"#).await;
        }
        stdout(&place.command(&["run", "old.toml", "--catch-up"]));
        let old = Process::start(&place, &["run", "old.toml"]);

        place.write("same.toml", &second().replace("version = 2\n", ""));
        let said = failure(&place.command(&["rebuild", "same.toml", "totals"]), 1);
        assert!(said.contains("write version = 2 to build that beside it"), "{said}");
        let shown = place.command(&["rebuild", "new.toml", "totals"]);
        assert_eq!(shown.status.code(), Some(2), "{shown:?}");
        let compared = String::from_utf8(shown.stdout).unwrap();
        assert!(compared.contains("4 rows only in the old version (-), 4 only in"), "{compared}");
        assert_eq!(sum().await, 4, "the old version is as it was");
        assert_eq!(number(&log, "SELECT CAST(sum(cents) AS BIGINT) FROM totals_next").await, 40);

        // It goes on meanwhile, and so does the new one from where it was.
        place.order(&log, "5", r#"{"cents": 1}"#).await;
        until("the fifth order", async || (sum().await == 5).then_some(())).await;
        let done = place.command(&["rebuild", "new.toml", "totals", "--yes"]);
        stdout(&done);
        assert_eq!(sum().await, 50);
        assert_eq!(number(&log, "SELECT count(*) FROM totals_old").await, 5);

        let plan = stdout(&place.command(&["run", "new.toml", "--plan"]));
        assert_eq!(plan.matches("unchanged").count(), 2, "{plan}");
        let new = Process::start(&place, &["run", "new.toml"]);
        place.order(&log, "6", r#"{"cents": 1}"#).await;
        until("the sixth order", async || (sum().await == 60).then_some(())).await;
        until("all that are seen", async || {
            (number(&log, "SELECT count(*) FROM seen").await == 6).then_some(())
        })
        .await;
        new.stop();
        let said = old.stop();
        assert!(said.contains("version 2 has taken the place of version 1"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_have_tables_of_its_own_is_not_rebuilt() {
    let place = Place::sqlite();
    place.write("orders.toml", FILE);
    stdout(&place.command(&["run", "orders.toml", "--catch-up"]));
    let said = failure(&place.command(&["rebuild", "orders.toml", "totals"]), 1);
    assert!(said.contains("add tables = [\"totals\"] to it"), "{said}");
    let said = failure(&place.command(&["rebuild", "orders.toml", "sums"]), 1);
    assert!(said.contains("it has totals, seen"), "{said}");
    // A table that is listed stands in braces everywhere, or a new version would write the old one.
    place.write("direct.toml", &first().replace("INTO {totals}", "INTO totals"));
    let said = failure(&place.command(&["check", "direct.toml", "--offline"]), 1);
    assert!(said.contains("the table `totals` is named directly"), "{said}");
    assert!(said.contains("write {totals}"), "{said}");
}
