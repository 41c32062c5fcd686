use super::*;
use crate::{HashRule, Position, Slots, StreamId};
use serde::Deserialize;
use serde_json::json;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum OrderEvent {
    OrderPlaced {
        total: f64,
        currency: String,
    },
    #[serde(rename = "order-noted")]
    Noted(String),
    Moved(i32, i32),
    Cancelled,
}

fn schema() -> EventSchema<OrderEvent> {
    EventSchema::new()
        .upcast("OrderPlaced", 1, |data| {
            data["total"] = data["amount"].take();
            Ok(())
        })
        .upcast("OrderPlaced", 2, |data| match data["total"].is_null() {
            true => Err("there is no total".to_owned()),
            false => {
                data["currency"] = "EUR".into();
                Ok(())
            }
        })
}

fn recorded(event: &NewEvent) -> Event {
    let stream = StreamId::new("Order", "1").unwrap();
    let slots = Slots::from_keys(HashRule::Fnv1a, "1", None, None);
    Event::from_row(Position::new(7), 1, event.id(), 0, slots, &event.body(&stream))
}

#[test]
fn every_kind_of_variant_comes_back_as_it_was_written() {
    for event in [
        OrderEvent::OrderPlaced { total: 1.5, currency: "SEK".into() },
        OrderEvent::Noted("by hand".into()),
        OrderEvent::Moved(3, -4),
        OrderEvent::Cancelled,
    ] {
        let new = schema().encode(&event).unwrap();
        assert_eq!(schema().decode(&recorded(&new)).unwrap(), event);
    }
    let noted = schema().encode(&OrderEvent::Noted(String::new())).unwrap();
    assert_eq!((noted.event_type(), noted.schema_version()), ("order-noted", 1));
}

#[test]
fn older_versions_are_lifted_step_by_step() {
    let expected = OrderEvent::OrderPlaced { total: 2.0, currency: "EUR".into() };
    let first = NewEvent::new("OrderPlaced", json!({ "amount": 2.0 }));
    assert_eq!(schema().decode(&recorded(&first)).unwrap(), expected);
    let second = NewEvent::new("OrderPlaced", json!({ "total": 2.0 })).with_schema_version(2);
    assert_eq!(schema().decode(&recorded(&second)).unwrap(), expected);
}

#[test]
fn what_cannot_be_read_is_an_error_that_names_it() {
    let message = |event: NewEvent| schema().decode(&recorded(&event)).unwrap_err().to_string();
    let unknown = message(NewEvent::new("OrderLost", json!({})));
    assert!(unknown.contains("unknown event type `OrderLost` at position 7"), "{unknown}");
    assert!(unknown.contains("OrderPlaced, order-noted, Moved, Cancelled"), "{unknown}");
    let unknown = message(NewEvent::new("OrderLost", json!({})).with_schema_version(3));
    assert!(unknown.contains("unknown event type `OrderLost`"), "{unknown}");
    let newer = message(NewEvent::new("OrderPlaced", json!({})).with_schema_version(9));
    assert!(newer.contains("has schema version 9, this program knows versions up to 3"), "{newer}");
    let newer = message(NewEvent::new("Cancelled", ()).with_schema_version(2));
    assert!(newer.contains("knows versions up to 1"), "{newer}");
    let failed = message(NewEvent::new("OrderPlaced", json!({})));
    assert!(failed.contains("from schema version 2: there is no total"), "{failed}");
    let misfit = message(NewEvent::new("order-noted", json!(5)));
    assert!(misfit.contains("data of `order-noted` at position 7 does not fit"), "{misfit}");
}

#[test]
#[should_panic(expected = "starts from version 1")]
fn a_missing_step_is_refused() {
    let _ = EventSchema::<OrderEvent>::new().upcast("OrderPlaced", 2, |_| Ok(()));
}

#[test]
fn a_struct_is_not_an_event_type() {
    #[derive(Serialize, Deserialize)]
    struct Plain {
        a: u8,
        b: u8,
    }
    let error = EventSchema::<Plain>::new().encode(&Plain { a: 1, b: 2 }).unwrap_err();
    assert!(error.to_string().contains("must be an enum"), "{error}");
}
