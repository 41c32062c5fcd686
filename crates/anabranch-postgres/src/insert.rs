//! The rows of a batch as one INSERT, column by column.
//!
//! Taking arrays apart is a good part of what the server does for a batch, so columns in which no
//! row has a value are left out of the statement, and what is the same in all rows is one value. There are few such
//! shapes, and each is prepared once.

use crate::append::Value;
use crate::schema::Sql;
use crate::session::lock;
use anabranch_core::decide::Row;
use anabranch_core::event::TAG_SEPARATOR;
use anabranch_core::{HashRule, Json, Slots};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio_postgres::types::{ToSql, Type};

/// A statement and its values.
pub(crate) struct Insert<'a> {
    columns: Vec<Column<'a>>,
    /// Whether there is more than one row.
    many: bool,
}

struct Column<'a> {
    name: &'static str,
    value: Box<dyn ToSql + Sync + Send + 'a>,
    kind: Type,
    /// An array with a value for each row, or one value.
    is_array: bool,
}

/// The texts of the statements that there have been: to write one takes longer than most of what else is done for an append.
#[derive(Debug, Default)]
pub(crate) struct Texts(Mutex<HashMap<Shape, Arc<str>>>);

/// What makes the text of a statement.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shape {
    columns: Vec<(&'static str, bool)>,
    is_admitted: bool,
}

impl Texts {
    fn get(&self, shape: Shape, text: impl FnOnce() -> String) -> Arc<str> {
        Arc::clone(lock(&self.0).entry(shape).or_insert_with(|| text().into()))
    }
}

/// How many values the function has that admits a batch.
pub(crate) const ADMISSION_VALUES: usize = 10;
/// The number of a row's stream among those of the batch, from 1.
const STREAM_NUMBER: &str = "stream_number";

impl<'a> Insert<'a> {
    /// Rows at versions that are known.
    pub(crate) fn of(rows: &[Row<'a>], rule: HashRule, keeps_traces: bool) -> Self {
        let mut insert = Self { columns: Vec::new(), many: rows.len() > 1 };
        insert.all("version", Type::INT8, rows.iter().map(|row| row.version as i64));
        insert.rest(rows, rule, keeps_traces);
        insert
    }

    /// Rows at versions that are counted from where their streams stand. `stream` says where that was taken to be
    /// when the rows were made, and the number of the stream.
    pub(crate) fn relative(
        rows: &[Row<'a>],
        rule: HashRule,
        keeps_traces: bool,
        stream: impl Fn(&Row<'a>) -> (u64, usize),
    ) -> Self {
        let mut insert = Self { columns: Vec::new(), many: rows.len() > 1 };
        let streams: Vec<(u64, usize)> = rows.iter().map(stream).collect();
        let versions = rows.iter().zip(&streams);
        let versions = versions.map(|(row, (stands, _))| (row.version - stands) as i64);
        insert.all("version", Type::INT8, versions);
        let numbers = streams.iter().map(|(_, number)| *number as i32 + 1);
        insert.often_same(STREAM_NUMBER, Type::INT4, numbers);
        insert.rest(rows, rule, keeps_traces);
        insert
    }

    fn rest(&mut self, rows: &[Row<'a>], rule: HashRule, keeps_traces: bool) {
        let slots = |row: &Row<'_>| {
            Slots::from_keys(rule, row.stream.id(), row.event.customer(), row.event.correlation())
        };
        let slots: Vec<Slots> = rows.iter().map(slots).collect();
        let number = |slot: anabranch_core::Slot| slot.get() as i16;
        self.all("id", Type::UUID, rows.iter().map(|row| row.event.id()));
        let schema_versions = rows.iter().map(|row| row.event.schema_version() as i32);
        self.often_same("schema_version", Type::INT4, schema_versions);
        self.all("entity_slot", Type::INT2, slots.iter().map(|slots| number(slots.entity)));
        self.often_same("category", Type::TEXT, rows.iter().map(|row| row.stream.category()));
        self.all("stream_id", Type::TEXT, rows.iter().map(|row| row.stream.id()));
        self.often_same("type", Type::TEXT, rows.iter().map(|row| row.event.event_type()));
        let data = rows.iter().map(|row| row.event.data().map_or("null", Json::as_str));
        self.all("data", Type::TEXT, data);

        let customer_slots = slots.iter().map(|slots| slots.customer.map(number));
        self.some("customer_slot", Type::INT2, customer_slots);
        self.some("customer", Type::TEXT, rows.iter().map(|row| row.event.customer()));
        self.some("saga_slot", Type::INT2, slots.iter().map(|slots| slots.saga.map(number)));
        self.some("correlation", Type::TEXT, rows.iter().map(|row| row.event.correlation()));
        self.some("causation", Type::TEXT, rows.iter().map(|row| row.event.causation()));
        self.some("tenant", Type::TEXT, rows.iter().map(|row| row.event.tenant()));
        let metadata = rows.iter().map(|row| row.event.metadata().map(Json::as_str));
        self.some("metadata", Type::TEXT, metadata);
        let separator = TAG_SEPARATOR.to_string();
        let tags = |row: &Row<'_>| match row.event.tags() {
            [] => None,
            tags => Some(tags.join(&separator)),
        };
        self.some("tags", Type::TEXT, rows.iter().map(tags));
        let traces = rows.iter().map(|row| row.event.trace().map(|trace| trace.to_string()));
        self.some("trace", Type::TEXT, traces.map(|trace| trace.filter(|_| keeps_traces)));
    }

    /// A column that every row has.
    fn all<T>(&mut self, name: &'static str, kind: Type, mut values: impl Iterator<Item = T>)
    where
        T: ToSql + Sync + Send + 'a,
        Vec<T>: ToSql + Sync + Send + 'a,
    {
        let column = match values.next() {
            Some(value) if !self.many => Column::one(name, kind, value),
            first => {
                let values: Vec<T> = first.into_iter().chain(values).collect();
                Column { name, value: Box::new(values), kind: array_of(&kind), is_array: true }
            }
        };
        self.columns.push(column);
    }

    /// A column in which all rows may well have the same.
    fn often_same<T>(
        &mut self,
        name: &'static str,
        kind: Type,
        values: impl Iterator<Item = T> + Clone,
    ) where
        T: ToSql + PartialEq + Sync + Send + 'a,
        Vec<T>: ToSql + Sync + Send + 'a,
    {
        let mut others = values.clone();
        match others.next() {
            Some(first) if others.all(|other| other == first) => {
                self.columns.push(Column::one(name, kind, first));
            }
            _ => self.all(name, kind, values),
        }
    }

    /// A column that rows may have.
    fn some<T>(&mut self, name: &'static str, kind: Type, values: impl Iterator<Item = Option<T>>)
    where
        Option<T>: ToSql + Sync + Send + 'a,
        Vec<Option<T>>: ToSql + Sync + Send + 'a,
    {
        let values: Vec<Option<T>> = values.collect();
        if values.iter().any(Option::is_some) {
            self.all(name, kind, values.into_iter());
        }
    }

    /// The values of the statement's placeholders, after those of the function that admits it.
    pub(crate) fn values(&self) -> Vec<Value<'_>> {
        let mut values: Vec<Value<'_>> = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            values.push((column.value.as_ref(), column.kind.clone()));
        }
        values
    }

    /// The statement. It returns the positions, which follow the order of the rows.
    pub(crate) fn sql(&self, sql: &Sql, texts: &Texts) -> Arc<str> {
        texts.get(Shape { columns: self.shape(), is_admitted: false }, || self.statement(sql, None))
    }

    /// The statement that writes if the server admits it. It returns positions and versions, or nothing.
    pub(crate) fn admitted_sql(&self, sql: &Sql, texts: &Texts) -> Arc<str> {
        texts.get(Shape { columns: self.shape(), is_admitted: true }, || {
            let places = (1..=ADMISSION_VALUES).map(|place| format!("${place}"));
            let places = places.collect::<Vec<_>>().join(", ");
            self.statement(sql, Some(format!("{}({places}) AS stands", sql.admit)))
        })
    }

    /// Which columns there are, and which of them are arrays.
    fn shape(&self) -> Vec<(&'static str, bool)> {
        self.columns.iter().map(|column| (column.name, column.is_array)).collect()
    }

    fn statement(&self, sql: &Sql, admission: Option<String>) -> String {
        let (before, returned) = match &admission {
            Some(_) => (ADMISSION_VALUES, "position, version"),
            None => (0, "position"),
        };
        let placeholder = |(place, column): (usize, &Column<'_>)| {
            format!("${}::{}", before + place + 1, column.kind.name())
        };
        let places: Vec<String> = self.columns.iter().enumerate().map(placeholder).collect();
        let value = |name: &str| match self.columns.iter().position(|column| column.name == name) {
            Some(place) if !self.columns[place].is_array => places[place].clone(),
            _ => name.to_owned(),
        };
        let stored = self.columns.iter().map(|column| column.name);
        let stored: Vec<&str> = stored.filter(|name| *name != STREAM_NUMBER).collect();
        let expression = |name: &&str| match *name {
            "version" if admission.is_some() => {
                format!("{} + stands[{}]", value("version"), value(STREAM_NUMBER))
            }
            "data" | "metadata" => format!("{}::json", value(name)),
            "tags" => format!(r"coalesce(string_to_array({}, E'\n'), '{{}}')", value(name)),
            name => value(name),
        };
        let expressions: Vec<String> = stored.iter().map(expression).collect();
        let mut from: Vec<String> = admission.iter().cloned().collect();
        if self.many {
            let arrays = self.columns.iter().zip(&places).filter(|(column, _)| column.is_array);
            let (names, arrays): (Vec<&str>, Vec<&str>) =
                arrays.map(|(column, place)| (column.name, place.as_str())).unzip();
            let (names, arrays) = (names.join(", "), arrays.join(", "));
            from.push(format!("unnest({arrays}) WITH ORDINALITY AS new ({names}, number)"));
        }
        let now = if self.many { "(SELECT clock_timestamp())" } else { "clock_timestamp()" };
        let mut insert = format!(
            "INSERT INTO {} (recorded_at, {}) SELECT {now}, {}",
            sql.events,
            stored.join(", "),
            expressions.join(", "),
        );
        if !from.is_empty() {
            insert += &format!(" FROM {}", from.join(", "));
        }
        if admission.is_some() {
            insert += " WHERE stands IS NOT NULL";
        }
        if self.many {
            insert += " ORDER BY number";
        }
        insert += &format!(" RETURNING {returned}");
        if !stored.contains(&"tags") {
            return insert;
        }
        format!(
            "WITH stored AS ({insert}, tags), tagged AS ( \
                 INSERT INTO {} (tag, position) \
                 SELECT tag, position FROM stored, unnest(tags) AS tag \
             ) SELECT {returned} FROM stored",
            sql.tags
        )
    }
}

impl<'a> Column<'a> {
    fn one(name: &'static str, kind: Type, value: impl ToSql + Sync + Send + 'a) -> Self {
        Self { name, value: Box::new(value), kind, is_array: false }
    }
}

fn array_of(kind: &Type) -> Type {
    match *kind {
        Type::INT2 => Type::INT2_ARRAY,
        Type::INT4 => Type::INT4_ARRAY,
        Type::INT8 => Type::INT8_ARRAY,
        Type::UUID => Type::UUID_ARRAY,
        _ => Type::TEXT_ARRAY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::{NewEvent, StreamId};
    use anabranch_store::Namespace;

    #[test]
    fn columns_without_values_are_left_out() {
        let stream = StreamId::new("S", "1").unwrap();
        let (bare, full) =
            (NewEvent::new("E", ()), NewEvent::new("E", ()).with_tag("t").with_tenant("a"));
        let sql = |events: &[&NewEvent]| {
            let row = |event| Row { stream: &stream, version: 1, event };
            let rows: Vec<Row<'_>> = events.iter().copied().map(row).collect();
            Insert::of(&rows, HashRule::Fnv1a, true)
                .sql(&Sql::of(&Namespace::default(), u32::MAX), &Texts::default())
        };
        assert!(!sql(&[&bare]).contains("unnest"));
        assert!(sql(&[&bare, &full]).contains("unnest($1::_int8, $2::_uuid, $4::_int2"));
        assert!(!sql(&[&bare]).contains("tenant"));
        assert!(!sql(&[&bare]).contains("event_tags"));
        assert!(sql(&[&bare, &full]).contains("tenant"));
        assert!(sql(&[&bare, &full]).contains("INSERT INTO \"anabranch\".event_tags"));
    }
}
