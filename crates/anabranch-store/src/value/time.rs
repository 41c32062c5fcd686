//! Times of the crate `time`.

use super::arrays::elements;
use super::from_value::wrong;
use super::times::date_text;
use super::{FromValue, Value, ValueError, from};
use jiff::civil;
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

from! {
    // What no database has room for becomes what all refuse.
    OffsetDateTime => |value| {
        let micros = value.unix_timestamp_nanos().div_euclid(1_000);
        Self::Time(i64::try_from(micros).unwrap_or(i64::MIN))
    };
    PrimitiveDateTime => |value| match date(value.date()) {
        Some(date) => Self::Text(format!("{date}T{}", time(value.time()))),
        None => Self::from(value.assume_utc()),
    };
    Date => |value| match date(value) {
        Some(date) => Self::Text(date),
        None => Self::from(value.midnight().assume_utc()),
    };
    Time => |value| Self::Text(time(value));
}

elements!(OffsetDateTime PrimitiveDateTime Date Time);

impl FromValue for OffsetDateTime {
    /// In UTC: databases keep the moment, not where it was told.
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        PrimitiveDateTime::from_value(value).map(PrimitiveDateTime::assume_utc)
    }
}

impl FromValue for PrimitiveDateTime {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        let local = civil::DateTime::from_value(value)?;
        let parts = of_date(local.date()).zip(of_time(local.time()));
        parts.map_or_else(|| wrong(value, "a time"), |(date, time)| Ok(Self::new(date, time)))
    }
}

impl FromValue for Date {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        of_date(civil::Date::from_value(value)?).map_or_else(|| wrong(value, "a date"), Ok)
    }
}

impl FromValue for Time {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        of_time(civil::Time::from_value(value)?).map_or_else(|| wrong(value, "a time of day"), Ok)
    }
}

/// Its text, where a database can sort and read it.
fn date(date: Date) -> Option<String> {
    let (year, month, day) = date.to_calendar_date();
    (-9999..=9999).contains(&year).then(|| date_text(year, month.into(), day))
}

fn time(time: Time) -> String {
    let (hour, minute, second, micros) = time.as_hms_micro();
    format!("{hour:02}:{minute:02}:{second:02}.{micros:06}")
}

fn of_date(date: civil::Date) -> Option<Date> {
    let month = Month::try_from(date.month().unsigned_abs()).ok()?;
    Date::from_calendar_date(date.year().into(), month, date.day().unsigned_abs()).ok()
}

fn of_time(time: civil::Time) -> Option<Time> {
    let part = |part: i8| part.unsigned_abs();
    let nanos = time.subsec_nanosecond().unsigned_abs();
    Time::from_hms_nano(part(time.hour()), part(time.minute()), part(time.second()), nanos).ok()
}
