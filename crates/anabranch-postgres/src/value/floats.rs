//! Numbers on their way into `real` and `double precision`: with all their digits, or refused.

use super::Cause;
use super::words::{NOT_ONE, OUT_OF_RANGE};
use anabranch_store::value::Digits;
use std::fmt::{Display, LowerExp};
use std::num::ParseFloatError;
use std::str::FromStr;

/// A `real`. That it has fewer binary digits is in its nature, and `0.1` is none of them in either.
pub(super) fn real(number: f64) -> Result<f32, Cause> {
    let real = number as f32;
    let is_lost = (real.is_infinite() && number.is_finite()) || (real == 0.0 && number != 0.0);
    if is_lost { Err(OUT_OF_RANGE.into()) } else { Ok(real) }
}

/// The float whose text this is. Whole numbers are that exactly; of others, all decimal digits come back.
pub(super) fn parse<T>(text: &str) -> Result<T, Cause>
where
    T: FromStr<Err = ParseFloatError> + Display + LowerExp,
{
    let number: T = text.parse().map_err(|_| NOT_ONE)?;
    // `NaN`, `inf`
    let Some(given) = Digits::of(text) else { return Ok(number) };
    let Some(kept) = Digits::of(&format!("{number:e}")) else { return Err(OUT_OF_RANGE.into()) };
    if kept.is_zero() && !given.is_zero() {
        return Err(OUT_OF_RANGE.into());
    }
    let is_same = match text.contains(['.', 'e', 'E']) {
        true => kept == given,
        false => Digits::of(&format!("{number:.0}")) == Some(given),
    };
    if is_same {
        return Ok(number);
    }
    let remedy = "use a numeric column, or give an f64";
    Err(format!("it would be rounded to {number}; {remedy}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_has_all_digits_or_is_refused() {
        for text in
            ["0", "-0.0", "0.1", "1e23", "1E-3", "+5.50", "007", "9007199254740992", "NaN", "-inf"]
        {
            let number = parse::<f64>(text).unwrap();
            assert_eq!(number.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
        }
        for text in ["9007199254740993", "100000000000000000000000", "0.12345678901234567890"] {
            let said = parse::<f64>(text).unwrap_err().to_string();
            assert!(said.starts_with("it would be rounded to "), "{said}");
        }
        for text in ["1e999", "-1e-999", "1e99999999999999999999", "1e-99999999999999999999"] {
            assert_eq!(parse::<f64>(text).unwrap_err().to_string(), OUT_OF_RANGE);
        }
        assert!(parse::<f64>("three").is_err() && parse::<f64>("").is_err());
        assert!(real(0.1).is_ok() && real(f64::INFINITY).is_ok() && real(f64::NAN).is_ok());
        assert!(real(1e39).is_err() && real(-1e-60).is_err());
    }
}
