//! Times of `jiff`, through which those of other crates go as well.

use super::arrays::elements;
use super::from_value::wrong;
use super::{FromValue, Value, ValueError, from, times};
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
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        let utc = DateTime::from_value(value)?.to_zoned(TimeZone::UTC);
        let beyond =
            |_| ValueError::new(format!("is {value}, beyond what a jiff::Timestamp can be"));
        utc.map(|utc| utc.timestamp()).map_err(beyond)
    }
}

impl FromValue for DateTime {
    /// In UTC, if it is a moment. A text without a zone is taken for UTC: SQLite's own `CURRENT_TIMESTAMP` means it.
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Time(micros) => {
                times::utc_of(*micros).map_or_else(|| wrong(value, "a time"), Ok)
            }
            Value::Text(text) => match times::said(text) {
                Ok((utc, _)) => Ok(utc),
                Err(problem) => unlike(value, "a time", problem),
            },
            value => wrong(value, "a time"),
        }
    }
}

impl FromValue for Date {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Text(text) => {
                times::day(text).or_else(|problem| unlike(value, "a date", problem))
            }
            value => wrong(value, "a date"),
        }
    }
}

impl FromValue for Time {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Text(text) => {
                times::hour(text).or_else(|problem| unlike(value, "a time of day", problem))
            }
            value => wrong(value, "a time of day"),
        }
    }
}

/// A text is something else than what was wanted. PostgreSQL's `infinity` is one that is often met.
fn unlike<T>(value: &Value, wanted: &str, problem: ValueError) -> Result<T, ValueError> {
    match value {
        Value::Text(end) if matches!(end.as_str(), "infinity" | "-infinity") => {
            Err(format!("is {end}, which is not {wanted}; read it as text").into())
        }
        value => Err(format!("is {value}, not {wanted}: {problem}").into()),
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
        let expected =
            "is the text \"2026-11-15T09:16:47.445123\", not a date: it is more than a date";
        assert_eq!(problem.to_string(), expected);
        assert!(Time::from_value(&Value::from(local)).is_err());
        assert!(Timestamp::from_value(&text("2026-02-30")).is_err());
        assert!(Timestamp::from_value(&Value::Time(i64::MAX)).is_err());
        assert!(String::from_value(&Value::Time(i64::MAX)).is_err());
    }
}
