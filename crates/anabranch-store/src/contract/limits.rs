//! Bad input: refused by name, and nothing is written.

use super::{Harness, numbered, order};
use crate::Options;
use anabranch_core::{Append, AppendError, Expected, Limits, NewEvent, Position, Query};

/// Each refusal names the thing and the remedy, and leaves the log empty.
pub async fn bad_input_is_refused_by_name_and_nothing_is_written(harness: &Harness) {
    let log = harness.log().await;
    let long = "x".repeat(256);
    let cases = [
        (NewEvent::new("", ()), "type of event 2: is empty"),
        (NewEvent::new(long.clone(), ()), "type of event 2: is 256 bytes long, the limit is 255"),
        (NewEvent::new("a\0b", ()), "holds the control character '\\0' at byte 1"),
        (NewEvent::new("E", ()).with_tag(""), "tag `` of event 2 (`E`): is empty"),
        (
            NewEvent::new("E", ()).with_tag("a\nb"),
            "tag `a\\nb` of event 2 (`E`): holds the control",
        ),
        (NewEvent::new("E", ()).with_tag(long.clone()), "is 256 bytes long"),
        (
            NewEvent::new("E", ()).with_tags((0..65).map(|n| n.to_string())),
            "has 65, the limit is 64",
        ),
        (NewEvent::new("E", ()).with_tenant(""), "tenant of event 2 (`E`): is empty"),
        (NewEvent::new("E", ()).with_customer("\u{7f}"), "customer of event 2 (`E`): holds"),
        (NewEvent::new("E", ()).with_correlation(long.clone()), "correlation of event 2"),
        (NewEvent::new("E", ()).with_causation(""), "causation of event 2"),
        (NewEvent::new("E", ()).with_schema_version(0), "schema versions begin at 1"),
        (NewEvent::new("E", ()).with_schema_version(u32::MAX), "schema version of event 2"),
        (NewEvent::new("E", "a\0b"), "data of event 2 (`E`): holds a NUL character"),
        (NewEvent::from_json("E", "{"), "data of event 2 (`E`): is not valid JSON"),
        (NewEvent::from_json("E", r#""\ud800""#), "is not valid JSON"),
        (NewEvent::new("E", ()).with_metadata(3), "metadata must be an object"),
        (
            NewEvent::new("E", "x".repeat(1 << 20)),
            "data of event 2 (`E`): is 1048578 bytes of JSON, the limit of this log is 1048576",
        ),
    ];
    for (event, message) in cases {
        let error = log.append(&order(1), Expected::Any, [numbered(1), event]).await.unwrap_err();
        assert!(matches!(error, AppendError::Invalid(_)), "{error:?}");
        assert!(error.to_string().contains(message), "{error}\n  should say: {message}");
    }
    let no_events = log.append(&order(1), Expected::Any, []).await.unwrap_err();
    assert!(no_events.to_string().contains("append: has no events"), "{no_events}");
    let one_empty = Append::new().to(&order(1), Expected::Any, [numbered(1)]).to(
        &order(2),
        Expected::NoStream,
        [],
    );
    let one_empty = log.append_all(one_empty).await.unwrap_err();
    assert!(
        one_empty.to_string().contains("append to stream Order:2: has no events"),
        "{one_empty}"
    );
    let many = (0..10_001).map(numbered);
    let many = log.append(&order(1), Expected::Any, many).await.unwrap_err();
    assert!(many.to_string().contains("has 10001, the limit is 10000"), "{many}");
    let query = Append::new()
        .to(&order(1), Expected::Any, [numbered(1)])
        .unless(Query::tags(["a\0"]), Position::START);
    let query = log.append_all(query).await.unwrap_err();
    assert!(query.to_string().contains("`a\\0` in query item 1"), "{query}");
    assert_eq!(log.head().await.unwrap(), Position::START);
}

/// One byte below the limit is stored, and the limit is the user's to set.
pub async fn the_data_limit_can_be_changed(harness: &Harness) {
    let limits = Limits { data_bytes: 100, events_per_append: 2 };
    let log = harness.open(Options { limits, ..Options::default() }).await.unwrap();
    let sized = |bytes: usize| NewEvent::new("E", "x".repeat(bytes - 2));
    log.append(&order(1), Expected::Any, [sized(100)]).await.unwrap();
    let error = log.append(&order(1), Expected::Any, [sized(101)]).await.unwrap_err();
    assert!(error.to_string().contains("is 101 bytes of JSON, the limit of this log is 100"));
    let three = (0..3).map(numbered);
    let error = log.append(&order(1), Expected::Any, three).await.unwrap_err();
    assert!(error.to_string().contains("has 3, the limit is 2"), "{error}");
    assert_eq!(log.head().await.unwrap(), Position::new(1));
}
