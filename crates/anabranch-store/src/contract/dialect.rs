//! Every fragment of a dialect, and every question to a catalogue, run on a database and compared with what it
//! must mean.

use super::Harness;
use crate::database::{
    ColumnType, Database, End, EqualTexts, Given, Hint, Kinds, Statement, Uniqueness, quoted,
    quoted_part,
};
use crate::{Log, Row, Value, params};
use anabranch_core::{Slot, SlotSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

const TYPES: [ColumnType; 8] = [
    ColumnType::Integer,
    ColumnType::Float,
    ColumnType::Text,
    ColumnType::Key,
    ColumnType::Boolean,
    ColumnType::Uuid,
    ColumnType::Json,
    ColumnType::Document,
];

async fn run(database: &Arc<dyn Database>, statements: Vec<Statement>) -> Vec<Row> {
    let answers = database.begin().run(statements, End::Commit).await.unwrap();
    answers.into_iter().next_back().unwrap_or_default().rows
}

async fn rows(database: &Arc<dyn Database>, sql: String, values: Vec<Value>) -> Vec<Row> {
    run(database, vec![Statement::query(sql, values)]).await
}

async fn execute(database: &Arc<dyn Database>, sql: String) {
    run(database, vec![Statement::new(sql, vec![])]).await;
}

fn texts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.get(0).unwrap()).collect()
}

/// A table with the keys `a` to `d`, which have the slots 0 to 3 and ids.
async fn letters(log: &Log) -> (Arc<dyn Database>, String, Vec<Uuid>) {
    let database = log.store().database();
    let dialect = database.dialect();
    let (table, of) = (dialect.table("letters"), |kind| dialect.column_type(kind));
    execute(
        &database,
        format!(
            "CREATE TABLE {table} (id {}, key {} PRIMARY KEY, slot {}, doc {}){}",
            of(ColumnType::Uuid),
            of(ColumnType::Key),
            of(ColumnType::Integer),
            of(ColumnType::Json),
            dialect.room_for_changes(),
        ),
    )
    .await;
    let ids: Vec<Uuid> = (0..4).map(|_| Uuid::now_v7()).collect();
    let of_row = |(slot, key): (i64, &str)| params![ids[slot as usize], key, slot];
    let given = (0..).zip(["a", "b", "c", "d"]).map(of_row).collect();
    let columns =
        [("id", ColumnType::Uuid), ("key", ColumnType::Text), ("slot", ColumnType::Integer)];
    let insert = |given: &Given| {
        let [id, key, slot] = ["id", "key", "slot"].map(|name| given.column(name));
        format!("INSERT INTO {table} (id, key, slot) SELECT {id}, {key}, {slot}{}", given.from(&[]))
    };
    let statements = dialect.for_rows(&columns, given, &insert);
    assert_eq!(statements.iter().map(|each| each.rows).sum::<u64>(), 4);
    assert!(dialect.for_rows(&columns, vec![], &insert).is_empty(), "nothing for no rows");
    let fence = |each: crate::database::ForRows| Statement::fence(each.sql, each.values, each.rows);
    run(&database, statements.into_iter().map(fence).collect()).await;
    (database, table, ids)
}

/// What selects rows selects those and no others.
pub async fn conditions_mean_what_they_say(harness: &Harness) {
    let log = harness.log().await;
    let (database, table, ids) = letters(&log).await;
    let dialect = database.dialect();
    let select = async |condition: String, values: Vec<Value>| {
        let sql = format!("SELECT key FROM {table} WHERE {condition} ORDER BY key");
        texts(&rows(&database, sql, values).await).concat()
    };
    let keys = |keys: &[&str]| -> Value { keys.iter().map(|key| Value::from(*key)).collect() };
    let uuids: Value = ids[1..3].iter().map(|id| Value::from(*id)).collect();
    let none = || Value::Array(vec![]);
    assert_eq!(select(dialect.is_any("key", 1), vec![keys(&["b", "x", "d"])]).await, "bd");
    assert_eq!(select(dialect.is_any("key", 1), vec![none()]).await, "");
    assert_eq!(select(dialect.is_any("id", 1), vec![uuids.clone()]).await, "bc");
    let not = |column, of| dialect.is_none(column, 1, of);
    assert_eq!(select(not("key", ColumnType::Text), vec![keys(&["b", "x"])]).await, "acd");
    assert_eq!(select(not("key", ColumnType::Text), vec![none()]).await, "abcd");
    assert_eq!(select(not("id", ColumnType::Uuid), vec![uuids]).await, "ad");
    let slots: SlotSet = [1, 3].into_iter().filter_map(Slot::new).collect();
    assert_eq!(select(dialect.has_slot("slot", 1), vec![dialect.slots(&slots)]).await, "bd");
    let all = dialect.slots(&SlotSet::all());
    assert_eq!(select(dialect.has_slot("slot", 1), vec![all]).await, "abcd");
    // `%` and `_` are characters as others are.
    let contains = dialect.contains("$1 || key", "$2");
    assert_eq!(select(contains.clone(), params!["x%", "%c"]).await, "c");
    assert_eq!(select(contains, params!["x", "_"]).await, "");
    let locked = format!("SELECT key FROM {table} ORDER BY key{}", dialect.for_update());
    assert_eq!(texts(&rows(&database, locked, vec![]).await).len(), 4);
    let each = format!("SELECT k.value FROM {} ORDER BY 1", dialect.each(1, ColumnType::Text));
    assert_eq!(texts(&rows(&database, each, vec![keys(&["y", "x"])]).await), ["x", "y"]);
}

/// The row that a transaction has added last is known in it, whatever it has added to other tables since.
pub async fn the_last_id_is_known(harness: &Harness) {
    let log = harness.log().await;
    let database = log.store().database();
    let dialect = database.dialect();
    let (audit, cursors) = (dialect.table("audit"), dialect.table("cursors"));
    let insert = |consumer: &str| {
        let insert = format!(
            "INSERT INTO {audit} (consumer, kind, from_position, to_position, count, recorded_us) \
             VALUES ($1, 'begin', 0, 0, 0, 0)"
        );
        Statement::fence(insert, params![consumer], 1)
    };
    let name = |consumer: &str| {
        let insert = format!(
            "INSERT INTO {cursors} (consumer, position, epoch, slots, audit) \
             VALUES ($1, 0, 0, $2, {})",
            dialect.last_id("audit")
        );
        Statement::new(insert, params![consumer, SlotSet::all().to_bytes()])
    };
    let done =
        vec![insert("a"), name("a"), insert("b"), name("b"), name("b"), insert("c"), name("c")];
    run(&database, done).await;
    let wrong = format!(
        "SELECT count(*) FROM {cursors} AS c LEFT JOIN {audit} AS a ON a.id = c.audit \
         WHERE a.consumer IS NULL OR a.consumer <> c.consumer"
    );
    let rows = rows(&database, wrong, vec![]).await;
    assert_eq!(rows[0].get::<i64>(0).unwrap(), 0);
    // An id is never given out again.
    execute(&database, format!("DELETE FROM {audit}")).await;
    run(&database, vec![insert("d"), name("d")]).await;
    let ids = format!("SELECT audit FROM {cursors} WHERE consumer IN ('c', 'd') ORDER BY audit");
    let ids = self::rows(&database, ids, vec![]).await;
    let ids: Vec<i64> = ids.iter().map(|row| row.get(0).unwrap()).collect();
    assert!(ids[0] < ids[1], "{ids:?}");
}

/// Hints are accepted, and change no answer.
pub async fn hints_change_no_answer(harness: &Harness) {
    let log = harness.log().await;
    let (database, table, _) = letters(&log).await;
    for hint in Hint::ALL {
        let mut statements: Vec<Statement> = database.dialect().hint(hint).into_iter().collect();
        statements.push(Statement::query(format!("SELECT key FROM {table} ORDER BY key"), vec![]));
        assert_eq!(texts(&run(&database, statements).await).concat(), "abcd", "{hint:?}");
    }
}

/// A table may have a column of each type, its texts can be ordered byte by byte, and it can be renamed.
pub async fn tables_are_made_renamed_and_ordered(harness: &Harness) {
    let log = harness.log().await;
    let database = log.store().database();
    let dialect = database.dialect();
    let (table, other) = (dialect.table("typed"), dialect.table("typed_then"));
    let column = |(n, of): (usize, &ColumnType)| format!("c{n} {}", dialect.column_type(*of));
    let columns: Vec<String> = TYPES.iter().enumerate().map(column).collect();
    execute(&database, format!("CREATE TABLE {table} ({})", columns.join(", "))).await;
    execute(&database, format!("ALTER TABLE {table} RENAME TO {}", dialect.renamed(&other))).await;
    let id = Uuid::now_v7();
    let json = || Value::Json(r#"{"a": 1}"#.to_owned());
    let row = params![7, 0.5, "t", "k", true, id, json(), json()];
    let names: Vec<String> = (0..TYPES.len()).map(|n| format!("c{n}")).collect();
    let columns: Vec<(&str, ColumnType)> = names.iter().map(String::as_str).zip(TYPES).collect();
    let insert = |given: &Given| {
        let values: Vec<&str> = names.iter().map(|name| given.column(name)).collect();
        format!(
            "INSERT INTO {other} SELECT {}{}",
            values.join(", "),
            given.from(&["(SELECT 1) AS o"])
        )
    };
    for each in dialect.for_rows(&columns, vec![row], &insert) {
        run(&database, vec![Statement::fence(each.sql, each.values, each.rows)]).await;
    }
    let found = rows(&database, format!("SELECT * FROM {other}"), vec![]).await;
    let row = &found[0];
    assert_eq!((row.get::<i64>("c0").unwrap(), row.get::<f64>("c1").unwrap()), (7, 0.5));
    assert_eq!(
        (row.get::<String>("c3").unwrap(), row.get::<bool>("c4").unwrap()),
        ("k".into(), true)
    );
    assert_eq!(row.get::<Uuid>("c5").unwrap(), id);
    let plain = dialect.plain_collation();
    let same =
        format!("SELECT CASE WHEN 'a' COLLATE {plain} = 'A' COLLATE {plain} THEN 1 ELSE 0 END");
    assert_eq!(rows(&database, same, vec![]).await[0].get::<i64>(0).unwrap(), 0);
    assert_eq!(dialect.namespace().to_string(), dialect.namespace().to_string().to_lowercase());
    assert!(!dialect.name().is_empty());
}

/// It is the time, and it goes on within a transaction.
pub async fn the_clock_is_the_time(harness: &Harness) {
    let log = harness.log().await;
    let database = log.store().database();
    let now = format!("SELECT {} AS now_us", database.dialect().now_us());
    let said: i64 = rows(&database, now, vec![]).await[0].get("now_us").unwrap();
    let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
    assert!((said - here).abs() < 600_000_000, "{said} here {here}");
}

/// What the catalogue says of a table of a user.
pub async fn the_catalogue_knows_tables(harness: &Harness) {
    let log = harness.log().await;
    let database = log.store().database();
    let catalogue = database.catalogue();
    let name = format!("contract_{}", Uuid::now_v7().simple());
    let create = format!(
        "CREATE TABLE {name} (id BIGINT NOT NULL PRIMARY KEY, twin TEXT, code TEXT NOT NULL UNIQUE, \
         part TEXT NOT NULL, UNIQUE (id, part))"
    );
    execute(&database, create).await;
    assert!(catalogue.resolved(&name).await.unwrap().is_some_and(|full| full.ends_with(&name)));
    assert_eq!(catalogue.resolved("contract_none").await.unwrap(), None);
    let is_unique = async |column: &str| {
        matches!(catalogue.uniqueness(&name, column).await.unwrap(), Uniqueness::Unique { .. })
    };
    assert!(is_unique("id").await && is_unique("code").await);
    assert!(!is_unique("twin").await && !is_unique("part").await && !is_unique("none").await);
    let kinds = async |column: &str| catalogue.kinds(&quoted(&name), &quoted_part(column)).await;
    execute(&database, format!("INSERT INTO {name} VALUES (1, 'x', 'c', 'p')")).await;
    assert_eq!(kinds("id").await.unwrap(), Kinds::Integers);
    assert_eq!(kinds("code").await.unwrap(), Kinds::Texts { equal: None });
    assert_ne!(kinds("code").await.unwrap(), Kinds::Texts { equal: Some(EqualTexts::Numeric) });
    let columns = run(&database, vec![catalogue.columns_of(&catalogue.named(&name))]).await;
    let names: Vec<String> = columns.iter().map(|row| row.get("name").unwrap()).collect();
    assert_eq!(names, ["id", "twin", "code", "part"]);
    assert_eq!(columns[0].get::<i64>("place_in_key").unwrap(), 1);
    assert_eq!(catalogue.same_column("id"), "id");
    assert_eq!(catalogue.create_schema(&name).is_some(), catalogue.has_schemas());
    execute(&database, format!("DROP TABLE {name}")).await;
}
