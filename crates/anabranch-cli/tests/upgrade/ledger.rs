//! What the workers have written down, held against the log by queries.

use crate::place::{Place, until};

/// Waits until all is handled, and fails unless every event is there once and those of each key are in
/// order.
pub async fn prove(place: &Place, appended: u64) {
    let entries = place.table("handled");
    // Workers of this version make other events of some, and those of the last one do not.
    let events = format!("(SELECT * FROM {} WHERE category = 'Key')", place.table("events"));
    let stored = place.number(&format!("SELECT count(*) FROM {events} AS e")).await;
    assert_eq!(stored.unsigned_abs(), appended, "what was acknowledged is what is stored");
    let handled = format!("SELECT count(DISTINCT position) FROM {entries}");
    until("every event is handled", async || place.number(&handled).await == stored).await;

    let same = "h.position = e.position AND h.version = e.version \
                AND CAST(h.key AS text) = e.stream_id";
    let counted = place.table("counted");
    let violations = [
        (
            "lost",
            format!(
                "SELECT count(*) FROM {events} AS e \
                 WHERE NOT EXISTS (SELECT 1 FROM {entries} AS h WHERE {same})"
            ),
        ),
        ("doubled", format!("SELECT count(*) - count(DISTINCT position) FROM {entries}")),
        (
            "not in the log",
            format!(
                "SELECT count(*) FROM {entries} AS h \
                 WHERE NOT EXISTS (SELECT 1 FROM {events} AS e WHERE {same})"
            ),
        ),
        (
            "out of order",
            format!(
                "SELECT count(*) FROM (SELECT version, \
                 lag(version, 1, 0) OVER (PARTITION BY key ORDER BY number) AS before \
                 FROM {entries}) AS steps WHERE version <> before + 1"
            ),
        ),
        ("counted wrong", format!("SELECT sum(events) - {appended} FROM {counted}")),
    ];
    for (what, query) in violations {
        assert_eq!(place.number(&query).await, 0, "{what}");
    }
}
