//! How PostgreSQL writes what differs.

use anabranch_core::SlotSet;
use anabranch_store::database::{ColumnType, Dialect, ForRows, Given, Hint, Lexical, Statement};
use anabranch_store::{Namespace, Value};

/// How PostgreSQL reads the text of statements.
pub const LEXICAL: Lexical = Lexical {
    nested_comments: true,
    return_ends_comment: true,
    escape_strings: true,
    dollar_quotes: true,
    bracket_names: false,
    back_quotes: false,
    // `?` and `@` are operators.
    marked_values: false,
    colon_casts: true,
    // There a trigger calls a function.
    trigger_bodies: false,
    atomic_bodies: true,
};

/// PostgreSQL's dialect, for a log.
#[derive(Clone, Debug)]
pub(crate) struct PostgresDialect {
    pub(crate) namespace: Namespace,
}

impl PostgresDialect {
    /// The type of an array's elements. Values that come as arrays are cast, so that an empty one has a type.
    fn element(of: ColumnType) -> &'static str {
        match of {
            ColumnType::Integer => "bigint",
            ColumnType::Float => "double precision",
            ColumnType::Text | ColumnType::Key => "text",
            ColumnType::Boolean => "boolean",
            ColumnType::Uuid => "uuid",
            ColumnType::Json => "json",
            ColumnType::Document => "jsonb",
        }
    }
}

impl Dialect for PostgresDialect {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn lexical(&self) -> Lexical {
        LEXICAL
    }

    fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    fn table(&self, name: &str) -> String {
        format!("\"{}\".{name}", self.namespace)
    }

    fn last_id(&self, table: &str) -> String {
        format!("currval('{}')", self.table(&format!("{table}_ids")))
    }

    fn now_us(&self) -> &'static str {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    }

    fn for_update(&self) -> &'static str {
        " FOR UPDATE"
    }

    fn is_any(&self, column: &str, place: usize) -> String {
        format!("{column} = ANY (${place})")
    }

    fn is_none(&self, column: &str, place: usize, of: ColumnType) -> String {
        // As a query, so that it is hashed: `<> ALL` compares each row with thousands.
        format!("{column} NOT IN (SELECT unnest(${place}::{}[]))", Self::element(of))
    }

    fn each(&self, place: usize, of: ColumnType) -> String {
        format!("unnest(${place}::{}[]) AS k (value)", Self::element(of))
    }

    fn contains(&self, text: &str, part: &str) -> String {
        format!("strpos({text}, {part}) > 0")
    }

    fn has_slot(&self, column: &str, place: usize) -> String {
        format!("get_bit(${place}::bytea, {column}) = 1")
    }

    fn slots(&self, slots: &SlotSet) -> Value {
        slots.to_bytes().into()
    }

    fn column_type(&self, of: ColumnType) -> &'static str {
        match of {
            ColumnType::Key => "text COLLATE \"C\"",
            of => Self::element(of),
        }
    }

    fn renamed<'a>(&self, table: &'a str) -> &'a str {
        // Without its schema.
        table.rsplit('.').next().unwrap_or(table)
    }

    fn plain_collation(&self) -> &'static str {
        "pg_catalog.\"default\""
    }

    fn page_collation(&self) -> Option<&'static str> {
        // A collation that takes different texts for equal is refused.
        None
    }

    fn room_for_changes(&self) -> &'static str {
        // With room beside it, a row that is changed leaves the index as it is.
        " WITH (fillfactor = 70)"
    }

    fn hint(&self, hint: Hint) -> Option<Statement> {
        let settings: &[&str] = match hint {
            Hint::QueueInOrder => &["enable_seqscan", "enable_sort", "enable_bitmapscan", "jit"],
            Hint::PageByKey => &["enable_hashjoin", "enable_mergejoin", "enable_material", "jit"],
            Hint::RowsByKey => &["enable_seqscan", "enable_hashjoin", "enable_mergejoin"],
            Hint::WholeTables => &["enable_nestloop", "jit"],
            Hint::Figures => &["jit"],
            Hint::LightCommit => &["synchronous_commit"],
        };
        let off = settings.iter().map(|name| format!("set_config('{name}', 'off', true)"));
        let select = format!("SELECT {}", off.collect::<Vec<_>>().join(", "));
        Some(Statement::new(select, vec![]))
    }

    fn for_rows(
        &self,
        columns: &[(&str, ColumnType)],
        rows: Vec<Vec<Value>>,
        sql: &dyn Fn(&Given) -> String,
    ) -> Vec<ForRows> {
        if rows.is_empty() {
            return Vec::new();
        }
        let (mut names, mut arrays, mut given) = (Vec::new(), Vec::new(), Given::default());
        for ((name, of), place) in columns.iter().zip(1..) {
            names.push(*name);
            arrays.push(format!("${place}::{}[]", Self::element(*of)));
            given.columns.push(((*name).to_owned(), format!("t.{name}")));
        }
        given.from = Some(format!("unnest({}) AS t ({})", arrays.join(", "), names.join(", ")));
        let count = rows.len() as u64;
        let mut values: Vec<Vec<Value>> = columns.iter().map(|_| Vec::new()).collect();
        for row in rows {
            for (column, value) in values.iter_mut().zip(row) {
                column.push(value);
            }
        }
        let values = values.into_iter().map(Value::Array).collect();
        vec![ForRows { sql: sql(&given), values, rows: count }]
    }
}
