//! What SQLite keeps as text and is none.

use crate::misfits::refused;
use crate::support::{Db, query};
use anabranch::backend::database::Statement;

/// Made readable, it would be another text: whoever writes it back destroys what was there.
#[tokio::test]
async fn text_that_is_not_utf_8_is_refused_by_name() {
    let db = Db::sqlite();
    let log = db.log().await;
    let select = "SELECT 1 AS id, CAST(x'4dfc6c6c6572' AS TEXT) AS name";
    let said = refused(&log, Statement::query(select, vec![])).await;
    assert_eq!(
        said,
        format!(
            "column name is not valid UTF-8 text; CAST(name AS BLOB) are its bytes; in: {select}"
        )
    );
    let error = log.query(select, vec![]).await.unwrap_err().to_string();
    assert!(error.contains("column name is not valid UTF-8 text"), "{error}");
    let bytes = format!("SELECT CAST(name AS BLOB) AS name FROM ({select})");
    let rows = query(&log, &bytes, vec![]).await;
    assert_eq!(rows[0].get("name"), Ok(b"M\xfcller".to_vec()));
}
