//! The envelope: what was written is what is read.

use super::{Harness, order};
use anabranch_core::limits::{MAX_CATEGORY_BYTES, MAX_NAME_BYTES};
use anabranch_core::{Event, Expected, HashRule, NewEvent, Query, StreamId};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Every field, those that are there and those that are not.
pub async fn every_field_comes_back(harness: &Harness) {
    let log = harness.log().await;
    let stream = order("ord-1");
    let id = uuid::Uuid::now_v7();
    let data = r#"{"z": 1.50, "a": [true, null, "ü"], "big": 12345678901234567890123}"#;
    let full = NewEvent::from_json("OrderPlaced", data)
        .with_id(id)
        .with_schema_version(3)
        .with_metadata(serde_json::json!({ "ip": "::1" }))
        .with_correlation("corr-1")
        .with_causation("cmd-1")
        .with_tenant("acme")
        .with_customer("cust-1")
        .with_tags(["b", "a", "b"]);
    let bare = NewEvent::new("OrderClosed", ());
    log.append(&stream, Expected::NoStream, [full, bare]).await.unwrap();
    let events = log.read_stream(&stream).collect().await.unwrap();
    let by_position = log.read(Query::all()).collect().await.unwrap();
    assert_eq!(events, by_position, "however it is read");

    let event = &events[0];
    assert_eq!((event.id(), event.version(), event.position().get()), (id, 1, 1));
    assert_eq!(event.stream(), stream);
    assert_eq!((event.event_type(), event.schema_version()), ("OrderPlaced", 3));
    assert_eq!(event.data_json(), data, "byte for byte");
    assert_eq!(event.metadata_json(), Some(r#"{"ip":"::1"}"#));
    assert_eq!((event.correlation(), event.causation()), (Some("corr-1"), Some("cmd-1")));
    assert_eq!((event.tenant(), event.customer()), (Some("acme"), Some("cust-1")));
    assert_eq!(event.tags().collect::<Vec<_>>(), ["b", "a"]);
    let recorded = Duration::from_micros(event.recorded_us().try_into().unwrap());
    let age = (UNIX_EPOCH + recorded).duration_since(SystemTime::now() - Duration::from_secs(3600));
    assert!(age.unwrap() < Duration::from_secs(7200), "recorded now, give or take an hour");

    let bare = &events[1];
    assert_eq!((bare.data_json(), bare.metadata_json(), bare.schema_version()), ("null", None, 1));
    assert_eq!((bare.correlation(), bare.causation()), (None, None));
    assert_eq!((bare.tenant(), bare.customer(), bare.tags().count()), (None, None, 0));

    let json: serde_json::Value = serde_json::to_value(event).unwrap();
    assert_eq!(json["stream"], "Order:ord-1");
    assert_eq!(json["data"]["a"][2], "ü");
    assert_eq!(json["tags"], serde_json::json!(["b", "a"]));
}

/// Entity, customer and saga slot, by the log's rule; none where there is no key.
pub async fn slots_are_stored_with_every_event(harness: &Harness) {
    let log = harness.log().await;
    let full = NewEvent::new("E", ()).with_customer("cust-123").with_correlation("corr-123");
    log.append(&order("ord-123"), Expected::Any, [full, NewEvent::new("E", ())]).await.unwrap();
    let events = log.read(Query::all()).collect().await.unwrap();
    let slot = |key| HashRule::Fnv1a.slot(key);
    let slots = events[0].slots();
    assert_eq!(slots.entity, slot("ord-123"));
    assert_eq!((slots.customer, slots.saga), (Some(slot("cust-123")), Some(slot("corr-123"))));
    let slots = events[1].slots();
    assert_eq!((slots.entity, slots.customer, slots.saga), (slot("ord-123"), None, None));
}

/// Whatever passes the checks comes back as it was; whatever does not is refused without a panic.
pub async fn any_unicode_comes_back_as_it_was(harness: &Harness) {
    let log = harness.log().await;
    let name = || proptest::string::string_regex("(?s).{1,12}").expect("a valid pattern");
    let json = any_json();
    let strategy = (name(), name(), name(), proptest::collection::vec(name(), 0..4), json);
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let outcome = tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Handle::current();
        TestRunner::new(config)
            .run(&strategy, |(category, id, event_type, tags, data)| {
                runtime.block_on(round_trip(&log, &category, &id, &event_type, &tags, &data))
            })
            .map_err(|failure| failure.to_string())
    });
    outcome.unwrap();
}

async fn round_trip(
    log: &crate::Log,
    category: &str,
    id: &str,
    event_type: &str,
    tags: &[String],
    data: &serde_json::Value,
) -> Result<(), TestCaseError> {
    let control = |text: &str| text.chars().any(char::is_control);
    let bad_stream = control(category)
        || control(id)
        || category.contains(':')
        || category.len() > MAX_CATEGORY_BYTES
        || id.len() > MAX_NAME_BYTES;
    let stream = StreamId::new(category, id);
    prop_assert_eq!(stream.is_err(), bad_stream);
    let Ok(stream) = stream else { return Ok(()) };
    prop_assert_eq!(&stream.to_string().parse::<StreamId>().unwrap(), &stream);

    let bad_event = control(event_type) || tags.iter().any(|tag| control(tag)) || holds_nul(data);
    let event = NewEvent::new(event_type, data).with_tags(tags).with_customer(id);
    let tags: Vec<String> = event.tags().to_vec();
    let answer = log.append(&stream, Expected::Any, [event]).await;
    prop_assert_eq!(answer.is_err(), bad_event, "{:?}", answer);
    let Ok(appended) = answer else { return Ok(()) };

    let read = log.read_stream(&stream).backwards().limit(1).collect().await.unwrap();
    let event: &Event = &read[0];
    prop_assert_eq!(event.position(), appended.position());
    prop_assert_eq!(event.stream(), stream);
    prop_assert_eq!(event.event_type(), event_type);
    prop_assert_eq!(event.tags().map(str::to_owned).collect::<Vec<_>>(), tags.clone());
    prop_assert_eq!(&event.data::<serde_json::Value>().unwrap(), data);
    prop_assert_eq!(event.slots().entity, HashRule::Fnv1a.slot(id));
    let query = Query::types([event_type]).tagged(tags);
    let found = log.read(query).backwards().limit(1).collect().await.unwrap();
    prop_assert_eq!(found[0].position(), appended.position());
    Ok(())
}

fn holds_nul(data: &serde_json::Value) -> bool {
    match data {
        serde_json::Value::String(text) => text.contains('\0'),
        serde_json::Value::Array(items) => items.iter().any(holds_nul),
        serde_json::Value::Object(map) => {
            map.iter().any(|(key, value)| key.contains('\0') || holds_nul(value))
        }
        _ => false,
    }
}

/// JSON with any characters in keys and strings, backslashes and NUL among them.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let text =
        || proptest::string::string_regex("(?s)(\\\\|u0000|.){0,8}").expect("a valid pattern");
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        text().prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::vec((text(), inner), 0..4)
                .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
        ]
    })
}
