//! Slots: `hash(key) % 5040`, fixed for ever.
//!
//! 5040 is divisible by 1 to 10, 12, 14, 15, 16, 18, 20, … so for each of those N the partition that
//! people already deploy, `hash % N`, is exactly `slot % N`.

use crate::UnknownName;
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How many slots there are.
pub const SLOTS: u16 = 5040;

/// One of the [`SLOTS`] slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(u16);

impl Slot {
    /// The first slot: the only one of a consumer whose events are all one sequence, and the place of
    /// events without a key.
    pub const ZERO: Self = Self(0);

    /// The slot with this number, if there is one.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        if number < SLOTS { Some(Self(number)) } else { None }
    }

    /// The number of this slot.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How keys become slots. A log has one rule, chosen when it is created, because the slots are
/// stored with the events.
///
/// ```
/// use anabranch_core::HashRule;
/// let slot = HashRule::Fnv1a.slot("ord-123");
/// // For any N that divides 5040, this is the partition of `fnv1a32(id) % N`.
/// assert_eq!(slot.get() % 6, (HashRule::fnv1a32("ord-123") % 6) as u16);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashRule {
    /// FNV-1a, 32 bits, of the key's UTF-8 bytes.
    #[default]
    Fnv1a,
    /// MD5 of the key's UTF-8 bytes, read as a 128-bit big-endian number.
    Md5,
    /// A key that is a decimal integer, of any length, by its value (so that −1 is the last slot); any
    /// other key by FNV-1a.
    Integer,
}

impl HashRule {
    /// The slot of a key.
    #[must_use]
    pub fn slot(self, key: &str) -> Slot {
        let slots = u32::from(SLOTS);
        let number = match self {
            Self::Fnv1a => Self::fnv1a32(key) % slots,
            Self::Md5 => (Self::md5_128(key) % u128::from(SLOTS)) as u32,
            Self::Integer => {
                Self::integer(key, slots).unwrap_or_else(|| Self::fnv1a32(key) % slots)
            }
        };
        Slot(number as u16)
    }

    /// What is left of a decimal integer of any length when it is divided: 0 to `divisor` − 1, also for
    /// numbers below zero. Nothing if the text is no decimal integer, or the divisor is 0.
    ///
    /// ```
    /// use anabranch_core::HashRule;
    /// assert_eq!(HashRule::integer("7", 3), Some(1));
    /// assert_eq!(HashRule::integer("-1", 3), Some(2));
    /// assert_eq!(HashRule::integer("100000000000000000000000000000000000000007", 10), Some(7));
    /// assert_eq!(HashRule::integer("1.5", 3), None);
    /// ```
    #[must_use]
    pub fn integer(text: &str, divisor: u32) -> Option<u32> {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || divisor == 0 {
            return None;
        }
        let wide = u64::from(divisor);
        let left = digits.bytes().fold(0, |left, byte| (left * 10 + u64::from(byte - b'0')) % wide);
        let is_below = text.starts_with('-') && left > 0;
        Some(if is_below { wide - left } else { left } as u32)
    }

    /// FNV-1a, 32 bits.
    #[must_use]
    pub fn fnv1a32(key: &str) -> u32 {
        key.bytes()
            .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }

    /// MD5 as a 128-bit big-endian number.
    #[must_use]
    pub fn md5_128(key: &str) -> u128 {
        u128::from_be_bytes(Md5::digest(key).into())
    }

    /// The name that is stored with the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fnv1a => "fnv1a",
            Self::Md5 => "md5",
            Self::Integer => "integer",
        }
    }
}

impl fmt::Display for HashRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for HashRule {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        [Self::Fnv1a, Self::Md5, Self::Integer]
            .into_iter()
            .find(|rule| rule.name() == name)
            .ok_or_else(|| UnknownName::new("hash rule", name, "fnv1a, md5 or integer"))
    }
}

/// The slots that are stored with an event, so that a consumer can be filtered at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slots {
    /// The slot of the stream's id.
    pub entity: Slot,
    /// The slot of the customer, if the event names one.
    pub customer: Option<Slot>,
    /// The slot of the correlation, if the event has one.
    pub saga: Option<Slot>,
}

impl Slots {
    /// The slots of an event with these keys.
    #[must_use]
    pub fn from_keys(
        rule: HashRule,
        stream_id: &str,
        customer: Option<&str>,
        correlation: Option<&str>,
    ) -> Self {
        Self {
            entity: rule.slot(stream_id),
            customer: customer.map(|key| rule.slot(key)),
            saga: correlation.map(|key| rule.slot(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Vectors published with FNV-1a, and `md5sum` of the same keys.
    #[test]
    fn golden_vectors() {
        for (key, fnv, md5) in [
            ("", 0x811c_9dc5, 0xd41d_8cd9_8f00_b204_e980_0998_ecf8_427e_u128),
            ("a", 0xe40c_292c, 0x0cc1_75b9_c0f1_b6a8_31c3_99e2_6977_2661),
            ("foobar", 0xbf9c_f968, 0x3858_f622_30ac_3c91_5f30_0c66_4312_c63f),
        ] {
            assert_eq!(HashRule::fnv1a32(key), fnv, "FNV-1a of {key:?}");
            assert_eq!(HashRule::md5_128(key), md5, "MD5 of {key:?}");
        }
        assert_eq!(HashRule::Integer.slot("5041").get(), 1);
        assert_eq!(HashRule::Integer.slot("-1").get(), 5039);
        for (key, slot) in [
            // 2^63 and 2^64, and the same below zero; 10^40.
            ("9223372036854775808", 2528),
            ("18446744073709551616", 16),
            ("-9223372036854775809", 2511),
            ("10000000000000000000000000000000000000000", 4960),
        ] {
            assert_eq!(HashRule::Integer.slot(key).get(), slot, "{key}");
        }
        for text in ["ord-1", "", "-", "+", "--1", "1e3", "1.0", " 1", "٣"] {
            assert_eq!(HashRule::Integer.slot(text), HashRule::Fnv1a.slot(text), "{text}");
        }
    }

    #[test]
    fn rules_are_found_by_name() {
        assert_eq!("md5".parse(), Ok(HashRule::Md5));
        let unknown = "sha1".parse::<HashRule>().unwrap_err().to_string();
        assert!(unknown.contains("use fnv1a, md5 or integer"));
    }

    proptest! {
        /// The number is made from its remainder, by long multiplication, so that nothing here divides.
        #[test]
        fn integers_of_any_length_follow_id_modulo_n(
            times in proptest::collection::vec(0..10_u32, 0..60), rest in 0..SLOTS,
            sign in prop_oneof![Just(""), Just("+"), Just("-")], zeros in 0..3_usize,
        ) {
            let mut carry = u32::from(rest);
            let mut digits = Vec::new();
            for digit in times.iter().rev() {
                let sum = digit * u32::from(SLOTS) + carry;
                digits.push(sum % 10);
                carry = sum / 10;
            }
            let head = if carry > 0 { carry.to_string() } else { String::new() };
            let tail: String = digits.iter().rev().map(u32::to_string).collect();
            let key = format!("{sign}{}{head}{tail}0", "0".repeat(zeros));
            // A zero behind it is ten times as much.
            let rest = u32::from(rest) * 10 % u32::from(SLOTS);
            let is_below = sign == "-" && rest > 0;
            let expected = if is_below { u32::from(SLOTS) - rest } else { rest };
            prop_assert_eq!(u32::from(HashRule::Integer.slot(&key).get()), expected, "{}", key);
        }

        #[test]
        fn slots_agree_with_deployed_partitions(key in ".*", id in any::<i64>()) {
            for n in (1..=SLOTS).filter(|n| SLOTS.is_multiple_of(*n)) {
                let of = |rule: HashRule| u32::from(rule.slot(&key).get() % n);
                prop_assert_eq!(of(HashRule::Fnv1a), HashRule::fnv1a32(&key) % u32::from(n));
                let md5 = HashRule::md5_128(&key) % u128::from(n);
                prop_assert_eq!(u128::from(of(HashRule::Md5)), md5);
                let integer = HashRule::Integer.slot(&id.to_string()).get() % n;
                prop_assert_eq!(i64::from(integer), id.rem_euclid(i64::from(n)));
            }
        }
    }
}
