//! Times of the crate `time`.

use super::arrays::elements;
use super::from_value::wrong;
use super::{FromValue, Value, from};
use jiff::{Timestamp, civil};
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

from! {
    // What no database has room for stays out of range, and is refused there.
    OffsetDateTime => |value| {
        let micros = value.unix_timestamp_nanos().div_euclid(1_000);
        Self::Time(i64::try_from(micros).unwrap_or(super::BEGINLESS + 1))
    };
    PrimitiveDateTime => |value| Self::Text(format!("{}T{}", date(value.date()), time(value.time())));
    Date => |value| Self::Text(date(value));
    Time => |value| Self::Text(time(value));
}

elements!(OffsetDateTime PrimitiveDateTime Date Time);

impl FromValue for OffsetDateTime {
    /// In UTC: databases keep the moment, not where it was told.
    fn from_value(value: &Value) -> Result<Self, String> {
        let nanos = Timestamp::from_value(value)?.as_nanosecond();
        Self::from_unix_timestamp_nanos(nanos).or_else(|_| wrong(value, "a time"))
    }
}

impl FromValue for PrimitiveDateTime {
    fn from_value(value: &Value) -> Result<Self, String> {
        let local = civil::DateTime::from_value(value)?;
        let parts = of_date(local.date()).zip(of_time(local.time()));
        parts.map_or_else(|| wrong(value, "a time"), |(date, time)| Ok(Self::new(date, time)))
    }
}

impl FromValue for Date {
    fn from_value(value: &Value) -> Result<Self, String> {
        of_date(civil::Date::from_value(value)?).map_or_else(|| wrong(value, "a date"), Ok)
    }
}

impl FromValue for Time {
    fn from_value(value: &Value) -> Result<Self, String> {
        of_time(civil::Time::from_value(value)?).map_or_else(|| wrong(value, "a time of day"), Ok)
    }
}

fn date(date: Date) -> String {
    let (year, month, day) = date.to_calendar_date();
    match year {
        0..=9999 => format!("{year:04}-{:02}-{day:02}", u8::from(month)),
        _ => format!("{year:+07}-{:02}-{day:02}", u8::from(month)),
    }
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
