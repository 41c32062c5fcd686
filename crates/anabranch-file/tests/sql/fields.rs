//! Which fields there are, and what happens to events that lack one.

use crate::running::{catch_up, projection, rows};
use crate::support::Db;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{RunError, Value};
use serde_json::json;

#[tokio::test]
async fn every_field_of_an_event_can_be_named() {
    for db in [Db::sqlite(), Db::postgres()] {
        let log = db.log().await;
        let file = projection(
            &db,
            r#"
setup = '''CREATE TABLE f@ (name TEXT PRIMARY KEY, value TEXT)'''
on.Placed = '''
INSERT INTO f@ VALUES
    ('position', CAST(:position AS TEXT)), ('id', CAST(:id AS TEXT)), ('stream', :stream), ('stream_id', :stream_id),
    ('category', :category), ('version', CAST(:version AS TEXT)), ('type', :type),
    ('schema_version', CAST(:schema_version AS TEXT)), ('correlation', :correlation), ('causation', :causation),
    ('tenant', :tenant), ('customer', :customer), ('tag', :tag.show), ('tags[1]', :tags[1]),
    ('deep', :data.a.b[1].c), ('odd', :data."odd key"), ('user', :metadata.user), ('missing', :data.nope?),
    ('missing item', :data.a.b[7]?), ('null', :data.nothing), ('no tag', :tag.none?), ('inside', :data.a.b[0].x?),
    ('slice', '::x :y'), ('at', CASE WHEN CAST(:recorded_at AS TEXT) LIKE '2%' THEN 'yes' END);
-- :comment
INSERT INTO f@ (name, value) SELECT 'second', :data.text -- a second statement
'''
"#,
        );
        let event = NewEvent::new(
            "Placed",
            json!({
                "a": { "b": [1, { "c": "deep" }] }, "odd key": "odd", "nothing": null,
                "text": "it's \"; DROP TABLE x; -- :y ☃",
            }),
        );
        let event = event
            .with_metadata(json!({ "user": "ada" }))
            .with_correlation("corr")
            .with_causation("cause")
            .with_tenant("acme")
            .with_customer("c-7")
            .with_tags(["a:1", "show:12a"])
            .with_schema_version(3);
        let order = StreamId::new("Order", "ord:1").unwrap();
        let id = log.append(&order, Expected::Any, [event]).await.unwrap().events()[0].id;
        catch_up(&file, &log).await.unwrap();
        let found = rows(&db, &log, "SELECT name, value FROM f@").await;
        let value = |name: &str| -> Option<String> {
            let row = found.iter().find(|row| row[0] == Value::from(name)).unwrap();
            match &row[1] {
                Value::Null => None,
                Value::Text(text) => Some(text.clone()),
                other => panic!("{other:?}"),
            }
        };
        let id = id.to_string();
        for (name, expected) in [
            ("position", Some("1")),
            ("id", Some(id.as_str())),
            ("stream", Some("Order:ord:1")),
            ("stream_id", Some("ord:1")),
            ("category", Some("Order")),
            ("version", Some("1")),
            ("type", Some("Placed")),
            ("schema_version", Some("3")),
            ("correlation", Some("corr")),
            ("causation", Some("cause")),
            ("tenant", Some("acme")),
            ("customer", Some("c-7")),
            ("tag", Some("12a")),
            ("tags[1]", Some("show:12a")),
            ("deep", Some("deep")),
            ("odd", Some("odd")),
            ("user", Some("ada")),
            ("missing", None),
            ("missing item", None),
            ("null", None),
            ("no tag", None),
            ("inside", None),
            ("slice", Some("::x :y")),
            ("at", Some("yes")),
            ("second", Some("it's \"; DROP TABLE x; -- :y ☃")),
        ] {
            assert_eq!(value(name).as_deref(), expected, "{name} on {}", db.url);
        }
    }
}

#[tokio::test]
async fn an_event_without_a_field_fails_with_its_name_and_the_policy_decides() {
    for (db, then) in [
        (Db::sqlite(), "park"),
        (Db::postgres(), "park"),
        (Db::sqlite(), "skip"),
        (Db::postgres(), "skip"),
    ] {
        let log = db.log().await;
        let file = projection(
            &db,
            &format!(
                "setup = 'CREATE TABLE f@ (id TEXT, n BIGINT)'\nretry = {{ then = \"{then}\" }}\n\
                 on.Placed = 'INSERT INTO f@ VALUES (:stream_id, :data.total.cents)'\n"
            ),
        );
        for (stream, data) in [
            ("Order:1", json!({ "total": { "cents": 1 } })),
            ("Order:2", json!({ "total": 7 })),
            ("Order:2", json!({ "total": { "cents": 2 } })),
            ("Order:3", json!({ "total": { "cents": 3 } })),
        ] {
            let stream: StreamId = stream.parse().unwrap();
            log.append(&stream, Expected::Any, [NewEvent::new("Placed", data)]).await.unwrap();
        }
        let ended = catch_up(&file, &log).await;
        let found = rows(&db, &log, "SELECT id FROM f@ ORDER BY n").await;
        let ids: Vec<String> = found.iter().map(|row| row[0].to_json().to_string()).collect();
        let name = format!("totals_{}", db.own);
        let parked = Consumers::new(&log).parked(&name).await.unwrap();
        if then == "skip" {
            ended.unwrap();
            assert_eq!(ids, ["\"1\"", "\"2\"", "\"3\""]);
            assert!(parked.is_empty());
            continue;
        }
        assert!(matches!(ended, Err(RunError::Incomplete(_))), "{ended:?}");
        assert_eq!(ids, ["\"1\"", "\"3\""], "the later event of the key waits behind it");
        assert_eq!((parked[0].key.as_str(), parked[0].events), ("Order:2", 2));
        assert!(parked[0].error.contains("has no `data.total.cents`"), "{}", parked[0].error);
        assert_eq!(parked[0].attempts, 1, "another attempt would not help");
    }
}

#[tokio::test]
async fn events_are_keyed_by_a_field() {
    for db in [Db::sqlite(), Db::postgres()] {
        let log = db.log().await;
        let text = r#"
[[replica_set]]
name = "set@"
lanes = 4
[[replica_set.projection]]
name = "regions@"
partition = "field:data.region"
setup = 'CREATE TABLE f@ (region TEXT PRIMARY KEY, n BIGINT NOT NULL, last BIGINT NOT NULL)'
on.Sold = '''
INSERT INTO f@ VALUES (:data.region, 1, :position)
ON CONFLICT (region) DO UPDATE SET n = f@.n + 1,
    last = CASE WHEN excluded.last > f@.last THEN excluded.last ELSE -1 END
'''
"#;
        let file = crate::running::file(&db, text);
        for number in 0..200 {
            let stream = StreamId::new("Sale", number.to_string()).unwrap();
            let region = ["north", "south", "east"][number % 3];
            let sold = NewEvent::new("Sold", json!({ "region": region }));
            log.append(&stream, Expected::Any, [sold]).await.unwrap();
        }
        catch_up(&file, &log).await.unwrap();
        let found = rows(&db, &log, "SELECT n, last FROM f@ ORDER BY region").await;
        let numbers: Vec<_> = found.iter().map(|row| row[0].clone()).collect();
        assert_eq!(numbers, [Value::Int(66), Value::Int(67), Value::Int(67)]);
        assert!(found.iter().all(|row| row[1] != Value::Int(-1)), "out of order: {found:?}");
        // An event without the field has no key.
        let odd = StreamId::new("Sale", "odd").unwrap();
        log.append(&odd, Expected::Any, [NewEvent::new("Sold", json!({}))]).await.unwrap();
        let error = catch_up(&file, &log).await.unwrap_err().to_string();
        assert!(error.contains("field:data.region"), "{error}");
    }
}

/// The first of them would be as wrong as the last.
#[tokio::test]
async fn an_event_with_two_tags_of_one_name_fails() {
    let db = Db::sqlite();
    let log = db.log().await;
    let lines =
        "setup = 'CREATE TABLE f@ (show TEXT)'\non.Placed = 'INSERT INTO f@ VALUES (:tag.show)'\n";
    for (number, tags) in
        [&["show:1"][..], &["show:2", "show:3"], &["showy:4", "show:5"]].iter().enumerate()
    {
        let stream = StreamId::new("Order", number.to_string()).unwrap();
        let event = NewEvent::new("Placed", ()).with_tags(tags.iter().copied());
        log.append(&stream, Expected::Any, [event]).await.unwrap();
    }
    let ended = catch_up(&projection(&db, lines), &log).await;
    assert!(matches!(ended, Err(RunError::Incomplete(_))), "{ended:?}");
    let parked = Consumers::new(&log).parked(&format!("totals_{}", db.own)).await.unwrap();
    assert!(parked[0].error.contains("has 2 tags `show:…`"), "{}", parked[0].error);
    let shows = rows(&db, &log, "SELECT show FROM f@ ORDER BY show").await;
    assert_eq!(
        shows.iter().map(|row| row[0].to_json()).collect::<Vec<_>>(),
        [json!("1"), json!("5")]
    );
}
