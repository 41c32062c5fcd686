//! An event from a row with the columns of `event_columns.sql`.

use crate::value::EPOCH_2000_US;
use anabranch_core::event::{Body, TAG_SEPARATOR};
use anabranch_core::{Event, Position, Slot, Slots};
use std::borrow::Cow;
use std::error::Error;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type, accepts};

type Cause = Box<dyn Error + Send + Sync>;

pub(crate) fn event_of_row(row: &Row) -> Result<Event, tokio_postgres::Error> {
    let tags: Tags<'_> = row.try_get(14)?;
    let body = Body {
        category: row.try_get(4)?,
        stream_id: row.try_get(5)?,
        event_type: row.try_get(6)?,
        schema_version: row.try_get::<_, i32>(7)?.unsigned_abs(),
        data: row.try_get::<_, JsonText<'_>>(8)?.0,
        metadata: row.try_get::<_, Option<JsonText<'_>>>(9)?.map(|json| json.0),
        correlation: row.try_get(10)?,
        causation: row.try_get(11)?,
        tenant: row.try_get(12)?,
        customer: row.try_get(13)?,
        tags: tags.0,
    };
    let slot = |column| Ok(row.try_get::<_, Option<SlotNumber>>(column)?.map(|slot| slot.0));
    let slots =
        Slots { entity: row.try_get::<_, SlotNumber>(15)?.0, customer: slot(16)?, saga: slot(17)? };
    let position = Position::from_i64(row.try_get(0)?);
    let version = row.try_get::<_, i64>(1)?.unsigned_abs();
    let Micros(recorded_us) = row.try_get(3)?;
    let (id, trace) = (row.try_get(2)?, row.try_get(18)?);
    Ok(Event::from_traced_row(position, version, id, recorded_us, slots, &body, trace))
}

/// The text of a `json` column, which the driver would only hand out parsed.
struct JsonText<'a>(&'a str);

impl<'a> FromSql<'a> for JsonText<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Cause> {
        Ok(Self(std::str::from_utf8(raw)?))
    }

    accepts!(JSON);
}

/// A `timestamptz` as microseconds since 1970.
pub(crate) struct Micros(pub(crate) i64);

impl<'a> FromSql<'a> for Micros {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Cause> {
        Ok(Self(i64::from_be_bytes(raw.try_into()?).saturating_add(EPOCH_2000_US)))
    }

    accepts!(TIMESTAMPTZ);
}

struct SlotNumber(Slot);

impl<'a> FromSql<'a> for SlotNumber {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Cause> {
        let number = i16::from_be_bytes(raw.try_into()?);
        let slot = u16::try_from(number).ok().and_then(Slot::new);
        slot.map(Self).ok_or_else(|| format!("{number} is not a slot").into())
    }

    accepts!(INT2);
}

/// The tags, joined.
struct Tags<'a>(Cow<'a, str>);

impl<'a> FromSql<'a> for Tags<'a> {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Cause> {
        // Dimensions, flags and element type; an empty array has no dimensions and most events have
        // no tags.
        const EMPTY: &[u8] = &[0, 0, 0, 0];
        if raw.starts_with(EMPTY) {
            return Ok(Self(Cow::Borrowed("")));
        }
        let tags = Vec::<&str>::from_sql(kind, raw)?;
        Ok(Self(match tags.as_slice() {
            [only] => Cow::Borrowed(only),
            tags => Cow::Owned(tags.join(TAG_SEPARATOR.encode_utf8(&mut [0; 4]))),
        }))
    }

    accepts!(TEXT_ARRAY);
}
