//! Times of the database, in the one type that the API has for times.

use jiff::Timestamp;

/// The time this many microseconds after 1970. What no [`Timestamp`] can hold is 1970: a database that stores
/// microseconds of its own clock has no such time.
///
/// ```
/// let time = anabranch_core::time::from_micros(1_700_000_000_000_001);
/// assert_eq!(time.to_string(), "2023-11-14T22:13:20.000001Z");
/// ```
#[must_use]
pub fn from_micros(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
}
