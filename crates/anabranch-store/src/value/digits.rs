//! Decimal digits of numbers: whether two texts are the same number. For backends.

/// A number without its sign, whichever way it is written: its digits, without zeros around them, and the power of
/// ten of the last of them.
///
/// ```
/// # use anabranch_store::value::Digits;
/// assert_eq!(Digits::of("0120.50"), Digits::of("1.205e2"));
/// assert_ne!(Digits::of("0.1"), Digits::of("0.01"));
/// for none in ["three", "", ".", "-", "--1", "1e", "1ex", "1e+-2"] {
///     assert_eq!(Digits::of(none), None);
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digits {
    digits: String,
    power: i64,
}

impl Digits {
    /// The digits of a text, if it is a decimal number.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let text = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(&all) || !is_number(power.strip_prefix(['+', '-']).unwrap_or(power)) {
            return None;
        }
        let from_first = all.trim_start_matches('0');
        let digits = from_first.trim_end_matches('0');
        if digits.is_empty() {
            return Some(Self { digits: String::new(), power: 0 });
        }
        let zeros = from_first.len() - digits.len();
        // One that does not fit is beyond every number.
        let beyond = if power.starts_with('-') { i64::MIN } else { i64::MAX };
        let power: i64 = power.parse().unwrap_or(beyond);
        let power = power.saturating_add(zeros as i64).saturating_sub(fraction.len() as i64);
        Some(Self { digits: digits.to_owned(), power })
    }

    /// Whether the number is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The number without an exponent, if it has at most this many digits so: `0.0012`, `1200`.
    ///
    /// ```
    /// # use anabranch_store::value::Digits;
    /// let plain = |text| Digits::of(text).unwrap().plain(20);
    /// assert_eq!(plain("12e-4"), Some("0.0012".to_owned()));
    /// assert_eq!(plain("1.2e3"), Some("1200".to_owned()));
    /// assert_eq!(plain("1.25e1"), Some("12.5".to_owned()));
    /// assert_eq!((plain("0e9"), plain("1e21")), (Some("0".to_owned()), None));
    /// ```
    #[must_use]
    pub fn plain(&self, at_most: usize) -> Option<String> {
        let Self { digits, power } = self;
        let size = usize::try_from(power.unsigned_abs()).ok().filter(|size| *size <= at_most)?;
        let plain = match (digits.as_str(), *power < 0) {
            ("", _) => "0".to_owned(),
            (digits, false) => format!("{digits}{}", "0".repeat(size)),
            (digits, true) => {
                let digits = format!("{digits:0>width$}", width = size + 1);
                let (whole, fraction) = digits.split_at(digits.len() - size);
                format!("{whole}.{fraction}")
            }
        };
        (plain.len() <= at_most).then_some(plain)
    }
}
