//! The rows of a batch as one INSERT, column by column.
//!
//! Taking arrays apart is a good part of what the server does for a batch, so columns in which no
//! row has a value are left out of the statement. There are few such shapes, and each is prepared
//! once.

use anabranch_core::decide::Row;
use anabranch_core::event::TAG_SEPARATOR;
use anabranch_core::{HashRule, Json, Slots};
use tokio_postgres::types::{ToSql, Type};

/// A statement and its values.
pub(crate) struct Insert<'a> {
    names: Vec<&'static str>,
    values: Vec<(Box<dyn ToSql + Sync + Send + 'a>, Type)>,
}

impl<'a> Insert<'a> {
    pub(crate) fn of(rows: &[Row<'a>], rule: HashRule) -> Self {
        let slots = |row: &Row<'_>| {
            Slots::from_keys(rule, row.stream.id(), row.event.customer(), row.event.correlation())
        };
        let slots: Vec<Slots> = rows.iter().map(slots).collect();
        let number = |slot: anabranch_core::Slot| slot.get() as i16;
        let mut insert = Self { names: Vec::new(), values: Vec::new() };
        insert.all("version", Type::INT8_ARRAY, rows.iter().map(|row| row.version as i64));
        insert.all("id", Type::UUID_ARRAY, rows.iter().map(|row| row.event.id()));
        let schema_versions = rows.iter().map(|row| row.event.schema_version() as i32);
        insert.all("schema_version", Type::INT4_ARRAY, schema_versions);
        insert.all("entity_slot", Type::INT2_ARRAY, slots.iter().map(|slots| number(slots.entity)));
        insert.all("category", Type::TEXT_ARRAY, rows.iter().map(|row| row.stream.category()));
        insert.all("stream_id", Type::TEXT_ARRAY, rows.iter().map(|row| row.stream.id()));
        insert.all("type", Type::TEXT_ARRAY, rows.iter().map(|row| row.event.event_type()));
        let data = rows.iter().map(|row| row.event.data().map_or("null", Json::as_str));
        insert.all("data", Type::TEXT_ARRAY, data);

        let customers = slots.iter().map(|slots| slots.customer.map(number));
        insert.some("customer_slot", Type::INT2_ARRAY, customers);
        insert.some("customer", Type::TEXT_ARRAY, rows.iter().map(|row| row.event.customer()));
        insert.some(
            "saga_slot",
            Type::INT2_ARRAY,
            slots.iter().map(|slots| slots.saga.map(number)),
        );
        insert.some(
            "correlation",
            Type::TEXT_ARRAY,
            rows.iter().map(|row| row.event.correlation()),
        );
        insert.some("causation", Type::TEXT_ARRAY, rows.iter().map(|row| row.event.causation()));
        insert.some("tenant", Type::TEXT_ARRAY, rows.iter().map(|row| row.event.tenant()));
        let metadata = rows.iter().map(|row| row.event.metadata().map(Json::as_str));
        insert.some("metadata", Type::TEXT_ARRAY, metadata);
        let separator = TAG_SEPARATOR.to_string();
        let tags = |row: &Row<'_>| match row.event.tags() {
            [] => None,
            tags => Some(tags.join(&separator)),
        };
        insert.some("tags", Type::TEXT_ARRAY, rows.iter().map(tags));
        insert
    }

    /// A column that every row has.
    fn all<T>(&mut self, name: &'static str, kind: Type, values: impl Iterator<Item = T>)
    where
        Vec<T>: ToSql + Sync + Send + 'a,
    {
        self.names.push(name);
        self.values.push((Box::new(values.collect::<Vec<T>>()), kind));
    }

    /// A column that rows may have.
    fn some<T>(&mut self, name: &'static str, kind: Type, values: impl Iterator<Item = Option<T>>)
    where
        Vec<Option<T>>: ToSql + Sync + Send + 'a,
    {
        let values: Vec<Option<T>> = values.collect();
        if values.iter().any(Option::is_some) {
            self.all(name, kind, values.into_iter());
        }
    }

    /// The values of the statement's placeholders.
    pub(crate) fn values(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let mut values: Vec<(&(dyn ToSql + Sync), Type)> = Vec::with_capacity(self.values.len());
        for (value, kind) in &self.values {
            values.push((value.as_ref(), kind.clone()));
        }
        values
    }

    /// The statement. It returns the positions, which follow the order of the rows.
    pub(crate) fn sql(&self, events: &str, tags: &str) -> String {
        let names = self.names.join(", ");
        let placeholder =
            |(number, (_, kind)): (usize, &(_, Type))| format!("${}::{}", number + 1, kind.name());
        let arrays: Vec<String> = self.values.iter().enumerate().map(placeholder).collect();
        let expression = |name: &&str| match *name {
            "data" | "metadata" => format!("{name}::json"),
            "tags" => r"coalesce(string_to_array(tags, E'\n'), '{}')".to_owned(),
            name => name.to_owned(),
        };
        let expressions: Vec<String> = self.names.iter().map(expression).collect();
        let insert = format!(
            "INSERT INTO {events} (recorded_at, {names}) \
             SELECT (SELECT clock_timestamp()), {} \
             FROM unnest({}) WITH ORDINALITY AS new ({names}, number) \
             ORDER BY number RETURNING position",
            expressions.join(", "),
            arrays.join(", "),
        );
        if !self.names.contains(&"tags") {
            return insert;
        }
        format!(
            "WITH stored AS ({insert}, tags), tagged AS ( \
                 INSERT INTO {tags} (tag, position) \
                 SELECT tag, position FROM stored, unnest(tags) AS tag \
             ) SELECT position FROM stored"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::{NewEvent, StreamId};

    #[test]
    fn columns_without_values_are_left_out() {
        let stream = StreamId::new("S", "1").unwrap();
        let (bare, full) =
            (NewEvent::new("E", ()), NewEvent::new("E", ()).with_tag("t").with_tenant("a"));
        let sql = |events: &[&NewEvent]| {
            let row = |event| Row { stream: &stream, version: 1, event };
            let rows: Vec<Row<'_>> = events.iter().copied().map(row).collect();
            Insert::of(&rows, HashRule::Fnv1a).sql("events", "event_tags")
        };
        assert!(!sql(&[&bare]).contains("tenant"));
        assert!(!sql(&[&bare]).contains("event_tags"));
        assert!(sql(&[&bare, &full]).contains("tenant"));
        assert!(sql(&[&bare, &full]).contains("INSERT INTO event_tags"));
    }
}
