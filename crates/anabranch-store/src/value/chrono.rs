//! Times of `chrono`.

use super::arrays::elements;
use super::from_value::wrong;
use super::{Element, FromValue, Value, from};
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Utc};
use jiff::{Timestamp, civil};

impl<Tz: TimeZone> From<DateTime<Tz>> for Value {
    fn from(value: DateTime<Tz>) -> Self {
        Self::Time(value.timestamp_micros())
    }
}

impl<Tz: TimeZone> Element for DateTime<Tz> {}

from! {
    NaiveDateTime => |value| Self::Text(value.format("%Y-%m-%dT%H:%M:%S%.6f").to_string());
    NaiveDate => |value| Self::Text(value.to_string());
    NaiveTime => |value| Self::Text(value.format("%H:%M:%S%.6f").to_string());
}

elements!(NaiveDateTime NaiveDate NaiveTime);

impl FromValue for DateTime<Utc> {
    fn from_value(value: &Value) -> Result<Self, String> {
        let micros = Timestamp::from_value(value)?.as_microsecond();
        Self::from_timestamp_micros(micros).map_or_else(|| wrong(value, "a time"), Ok)
    }
}

impl FromValue for DateTime<FixedOffset> {
    /// In UTC: databases keep the moment, not where it was told.
    fn from_value(value: &Value) -> Result<Self, String> {
        DateTime::<Utc>::from_value(value).map(|moment| moment.fixed_offset())
    }
}

impl FromValue for NaiveDateTime {
    fn from_value(value: &Value) -> Result<Self, String> {
        let local = civil::DateTime::from_value(value)?;
        let parts = date(local.date()).zip(time(local.time()));
        parts.map_or_else(|| wrong(value, "a time"), |(date, time)| Ok(date.and_time(time)))
    }
}

impl FromValue for NaiveDate {
    fn from_value(value: &Value) -> Result<Self, String> {
        date(civil::Date::from_value(value)?).map_or_else(|| wrong(value, "a date"), Ok)
    }
}

impl FromValue for NaiveTime {
    fn from_value(value: &Value) -> Result<Self, String> {
        time(civil::Time::from_value(value)?).map_or_else(|| wrong(value, "a time of day"), Ok)
    }
}

fn date(date: civil::Date) -> Option<NaiveDate> {
    let part = |part: i8| u32::from(part.unsigned_abs());
    NaiveDate::from_ymd_opt(date.year().into(), part(date.month()), part(date.day()))
}

fn time(time: civil::Time) -> Option<NaiveTime> {
    let part = |part: i8| u32::from(part.unsigned_abs());
    let nanos = time.subsec_nanosecond().unsigned_abs();
    NaiveTime::from_hms_nano_opt(part(time.hour()), part(time.minute()), part(time.second()), nanos)
}
