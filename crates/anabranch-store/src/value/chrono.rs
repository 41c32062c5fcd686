//! Times of `chrono`.

use super::arrays::elements;
use super::from_value::wrong;
use super::times::date_text;
use super::{Element, FromValue, Value, ValueError, from};
use chrono::{
    DateTime, Datelike, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Timelike, Utc,
};
use jiff::civil;

impl<Tz: TimeZone> From<DateTime<Tz>> for Value {
    fn from(value: DateTime<Tz>) -> Self {
        match value.nanosecond() {
            0..NANOS => Self::Time(value.timestamp_micros()),
            // A leap second, of which no count of microseconds tells.
            _ => Self::Text(format!("{}Z", local_text(value.naive_utc()))),
        }
    }
}

impl<Tz: TimeZone> Element for DateTime<Tz> {}

from! {
    NaiveDateTime => |value| of_year(value.year(), value, local_text);
    NaiveDate => |value| of_year(value.year(), value.and_time(NaiveTime::MIN), |day| day_text(day.date()));
    NaiveTime => |value| Self::Text(hour_text(value));
}

/// From here on, nanoseconds are those of a leap second.
const NANOS: u32 = 1_000_000_000;

/// Text, where a database can sort and read it; else the moment, which is refused where there are only texts.
fn of_year(year: i32, value: NaiveDateTime, text: fn(NaiveDateTime) -> String) -> Value {
    match year {
        -9999..=9999 => Value::Text(text(value)),
        _ => Value::Time(value.and_utc().timestamp_micros()),
    }
}

fn local_text(local: NaiveDateTime) -> String {
    format!("{}T{}", day_text(local.date()), hour_text(local.time()))
}

fn day_text(day: NaiveDate) -> String {
    date_text(day.year(), day.month() as u8, day.day() as u8)
}

fn hour_text(hour: NaiveTime) -> String {
    hour.format("%H:%M:%S%.6f").to_string()
}

elements!(NaiveDateTime NaiveDate NaiveTime);

impl FromValue for DateTime<Utc> {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        NaiveDateTime::from_value(value).map(|utc| utc.and_utc())
    }
}

impl FromValue for DateTime<FixedOffset> {
    /// In UTC: databases keep the moment, not where it was told.
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        DateTime::<Utc>::from_value(value).map(|moment| moment.fixed_offset())
    }
}

impl FromValue for NaiveDateTime {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        // Chrono has more years than texts.
        if let Value::Time(micros) = value
            && let Some(moment) = DateTime::from_timestamp_micros(*micros)
        {
            return Ok(moment.naive_utc());
        }
        let local = civil::DateTime::from_value(value)?;
        let parts = date(local.date()).zip(time(local.time()));
        parts.map_or_else(|| wrong(value, "a time"), |(date, time)| Ok(date.and_time(time)))
    }
}

impl FromValue for NaiveDate {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        date(civil::Date::from_value(value)?).map_or_else(|| wrong(value, "a date"), Ok)
    }
}

impl FromValue for NaiveTime {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
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
