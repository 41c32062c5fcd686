//! The columns of a table, as the catalogue knows them, and how two tables are compared by them.

use anabranch_store::database::Statement;
use anabranch_store::params;

/// See [`Database::columns_of`](anabranch_store::Database::columns_of). Columns may hold values of any
/// type, which compare by value; families follow SQLite's rules of affinity.
pub(crate) fn of(table: &str) -> Statement {
    // Without a schema it looks where FROM does.
    let (schema, table) = match table.split_once('.') {
        Some((schema, table)) => (Some(schema), table),
        None => (None, table),
    };
    let of_schema = if schema.is_some() { ", $2" } else { "" };
    let exact = "'\"' || replace(name, '\"', '\"\"') || '\" COLLATE BINARY'";
    let has = |word: &str| format!("instr(upper(type), '{word}') > 0");
    let any = |words: &[&str]| words.iter().map(|word| has(word)).collect::<Vec<_>>().join(" OR ");
    let query = format!(
        "SELECT name, lower(type) AS declared, pk AS place_in_key, {exact} AS exact, \
         {exact} AS by_value, CASE WHEN {} THEN 'number' WHEN {} THEN 'text' \
         WHEN type = '' OR {} THEN 'other' ELSE 'number' END AS family \
         FROM pragma_table_xinfo($1{of_schema}) WHERE hidden <> 1 ORDER BY cid",
        has("INT"),
        any(&["CHAR", "CLOB", "TEXT"]),
        has("BLOB"),
    );
    let mut values = params![table];
    values.extend(schema.map(Into::into));
    Statement::query(query, values)
}
