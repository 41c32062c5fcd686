//! SQLite, told to be strict.

use crate::support::{Db, fill, number};
use anabranch::backend::database::{End, InsertRows, Statement};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{Failure, Retry};

/// A handler that writes text where a number belongs.
struct Amounts(&'static str);

impl Projection for Amounts {
    fn name(&self) -> &str {
        "amounts"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        Settings::default().retry(Retry::never().then(Failure::Park))
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let insert = "INSERT INTO amounts (id, amount) VALUES ($1, $2)";
        tx.execute(insert, params![event.stream_id(), "three"]).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let create =
            format!("CREATE TABLE amounts (id TEXT PRIMARY KEY, amount INTEGER){}", self.0);
        tx.execute(&create, vec![]).await
    }
}

#[tokio::test]
async fn a_strict_table_refuses_another_type_and_says_which() {
    let db = Db::sqlite();
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let ended = ReplicaSet::new("s").projection(Amounts(" STRICT")).catch_up(&log).await;
    assert!(ended.is_err());
    let parked = Consumers::new(&log).parked("amounts").await.unwrap();
    assert_eq!(
        parked[0].error,
        "cannot store TEXT value in INTEGER column amounts.amount: $2 is the text \"three\"; \
         in: INSERT INTO amounts (id, amount) VALUES ($1, $2)"
    );
    assert_eq!(number(&log, "SELECT count(*) FROM amounts").await, 0);
}

/// This is what STRICT is for.
#[tokio::test]
async fn another_table_takes_what_comes() {
    let db = Db::sqlite();
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    ReplicaSet::new("s").projection(Amounts("")).catch_up(&log).await.unwrap();
    let row = log.query_first("SELECT amount FROM amounts", vec![]).await.unwrap().unwrap();
    assert_eq!(
        row.get::<i64>("amount").unwrap_err().to_string(),
        "column amount: is the text \"three\", not a whole number"
    );
}

/// So docs/values.md advises whole cents.
#[tokio::test]
async fn amounts_in_text_compare_as_text() {
    let db = Db::sqlite();
    let log = db.log().await;
    let (less, more) = (rust_decimal::Decimal::new(995, 2), rust_decimal::Decimal::new(2000, 2));
    let compare = "SELECT $1 > $2 AS text, CAST($3 AS INTEGER) > CAST($4 AS INTEGER) AS cents";
    let row = log.query_first(compare, params![less, more, 995, 2000]).await.unwrap().unwrap();
    assert_eq!((row.get("text"), row.get("cents")), (Ok(true), Ok(false)));
}

/// SQLite makes a number of a text that is one, and speaks of that.
#[tokio::test]
async fn what_a_strict_column_refuses_is_shown() {
    let db = Db::sqlite();
    let log = db.log().await;
    let run =
        async |statement| log.store().database().begin().run(vec![statement], End::Commit).await;
    let create = "CREATE TABLE w (id TEXT, n INTEGER, part REAL, raw BLOB) STRICT";
    run(Statement::new(create, vec![])).await.unwrap();
    let amount = rust_decimal::Decimal::new(1995, 2);
    let sql = "INSERT INTO w (id, n, part) VALUES ($1, $2, $3)";
    let said = run(Statement::new(sql, params!["a", amount, 1])).await.unwrap_err().to_string();
    let real = "cannot store REAL value in INTEGER column w.n: $2 is the text \"19.95\"";
    assert_eq!(said, format!("{real}; in: {sql}"));
    let said = run(Statement::new(sql, params!["a", 1, "b"])).await.unwrap_err().to_string();
    let text =
        "cannot store TEXT value in REAL column w.part: $1 is the text \"a\", $3 is the text \"b\"";
    assert_eq!(said, format!("{text}; in: {sql}"));
    let rows = vec![params!["a", 1], params!["b", amount]];
    let (table, conflict) = ("w".into(), "".into());
    let insert = InsertRows { table, columns: (&["id", "n"]).into(), conflict, rows };
    let rows = Statement::rows(insert);
    assert_eq!(
        run(rows).await.unwrap_err().to_string(),
        "row 2, column n: the text \"19.95\" does not fit: cannot store REAL value in INTEGER column w.n; \
         in: insert_rows into w (id, n)"
    );
}

#[tokio::test]
async fn a_strict_table_keeps_every_kind_of_value() {
    let db = Db::sqlite();
    let log = db.log().await;
    let create =
        "CREATE TABLE kept (id INTEGER, part REAL, text TEXT, raw BLOB, at TEXT, tags TEXT) STRICT";
    let at = jiff::Timestamp::from_microsecond(1_700_000_000_000_001).unwrap();
    let values = params![true, 0.5, "a", vec![0u8, 255], at, vec![1, 2]];
    let insert = Statement::new("INSERT INTO kept VALUES ($1, $2, $3, $4, $5, $6)", values);
    let both = vec![Statement::new(create, vec![]), insert];
    log.store().database().begin().run(both, End::Commit).await.unwrap();
    let row = log.query_first("SELECT * FROM kept", vec![]).await.unwrap().unwrap();
    assert_eq!(row.get("id"), Ok(true));
    assert_eq!(row.get("at"), Ok(at));
    assert_eq!(row.get("tags"), Ok(vec![1, 2]));
}
