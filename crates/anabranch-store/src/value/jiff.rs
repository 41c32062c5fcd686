//! Times of `jiff`, through which those of other crates go as well.

use super::arrays::elements;
use super::from_value::wrong;
use super::{FromValue, Value, from};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

from! {
    Timestamp => |value| Self::Time(value.as_microsecond());
    Zoned => |value| Self::from(value.timestamp());
    &Zoned => |value| Self::from(value.timestamp());
    // With all digits, so that texts sort as the times do.
    DateTime => |value| Self::Text(format!("{value:.6}"));
    Date => |value| Self::Text(value.to_string());
    Time => |value| Self::Text(format!("{value:.6}"));
}

elements!(Timestamp Zoned DateTime Date Time);

impl FromValue for Timestamp {
    fn from_value(value: &Value) -> Result<Self, String> {
        let moment = match value {
            Value::Time(micros) => Self::from_microsecond(*micros).ok(),
            // SQLite's own `CURRENT_TIMESTAMP` says no zone, and means UTC.
            Value::Text(text) => text.parse().ok().or_else(|| {
                let local: DateTime = text.parse().ok()?;
                Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp())
            }),
            _ => None,
        };
        moment.map_or_else(|| wrong(value, "a time"), Ok)
    }
}

impl FromValue for DateTime {
    fn from_value(value: &Value) -> Result<Self, String> {
        if let Value::Text(text) = value
            && let Ok(local) = text.parse()
        {
            return Ok(local);
        }
        Timestamp::from_value(value).map(|moment| moment.to_zoned(TimeZone::UTC).datetime())
    }
}

impl FromValue for Date {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            // A time that begins with the date is more than a date.
            Value::Text(text) if text.len() <= "-009999-01-01".len() => {
                text.parse().or_else(|_| wrong(value, "a date"))
            }
            value => wrong(value, "a date"),
        }
    }
}

impl FromValue for Time {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) if !text.contains(['-', 'T']) => {
                text.parse().or_else(|_| wrong(value, "a time of day"))
            }
            value => wrong(value, "a time of day"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_what_it_is() {
        let text = |text: &str| Value::Text(text.to_owned());
        let moment: Timestamp = "2026-11-15T09:16:47.445123Z".parse().unwrap();
        let local: DateTime = "2026-11-15T09:16:47.445123".parse().unwrap();
        assert_eq!(Value::from(local), text("2026-11-15T09:16:47.445123"));
        for value in [Value::from(moment), Value::from(local), text(&moment.to_string())] {
            assert_eq!(Timestamp::from_value(&value), Ok(moment));
            assert_eq!(DateTime::from_value(&value), Ok(local));
        }
        let now = text("2026-11-15 09:16:47"); // SQLite's CURRENT_TIMESTAMP
        assert_eq!(Timestamp::from_value(&now).unwrap().as_second(), moment.as_second());
        assert_eq!(Date::from_value(&Value::from(local.date())), Ok(local.date()));
        assert_eq!(Time::from_value(&Value::from(local.time())), Ok(local.time()));
        let problem = Date::from_value(&Value::from(local)).unwrap_err();
        assert_eq!(problem, "is the text \"2026-11-15T09:16:47.445123\", not a date");
        assert!(Time::from_value(&Value::from(local)).is_err());
        assert!(Timestamp::from_value(&text("2026-02-30")).is_err());
        assert!(Timestamp::from_value(&Value::Time(i64::MAX)).is_err());
        assert!(String::from_value(&Value::Time(i64::MAX)).is_err());
    }
}
