//! The columns of a table, as the catalogue knows them, and how two tables are compared by them.

use anabranch_store::database::Statement;
use anabranch_store::params;

/// Collations may differ between two tables, and some types have no equality: both are compared as text.
const COLUMNS: &str = "SELECT c.name, c.declared, c.family, c.place_in_key, \
     CASE WHEN c.as_text THEN c.text_value ELSE quote_ident(c.name) END AS exact, \
     CASE WHEN c.is_whole THEN quote_ident(c.name) WHEN c.family = 'number' THEN \
     format('CAST(%I AS numeric)', c.name) ELSE c.text_value END AS by_value FROM (SELECT a.attnum, a.attname::text AS name, \
     format_type(a.atttypid, a.atttypmod) AS declared, \
     t.typname IN ('int2', 'int4', 'int8') AS is_whole, \
     CASE WHEN t.typname IN ('int2', 'int4', 'int8', 'numeric', 'float4', 'float8') THEN 'number' \
     WHEN t.typcategory = 'S' THEN 'text' ELSE 'other' END AS family, \
     coalesce(array_position(k.indkey::int2[], a.attnum) + 1, 0)::bigint AS place_in_key, \
     a.attcollation <> 0 OR ltrim(t.typname, '_') IN ('json', 'xml', 'point', 'line', 'lseg', 'box', \
     'path', 'polygon', 'circle') AS as_text, \
     format('CAST(%I AS text) COLLATE \"C\"', a.attname) AS text_value \
     FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid \
     LEFT JOIN pg_catalog.pg_index AS k ON k.indrelid = a.attrelid AND k.indisprimary \
     WHERE a.attrelid = to_regclass(CAST($1 AS text)) AND a.attnum > 0 AND NOT a.attisdropped) AS c \
     ORDER BY c.attnum";

/// See [`Database::columns_of`](anabranch_store::Database::columns_of).
pub(crate) fn of(table: &str) -> Statement {
    Statement::query(COLUMNS, params![table])
}
