//! The digest of what a commit handed to the handler: in which order which events.
//!
//! A polynomial over two lanes modulo 2^61 − 1: `Σ h(position, id) · r^(n−1−i)`. So what it would be with one
//! event less, one more or two swapped follows from sums of prefixes, and the prover finds the event that is
//! wrong. It protects against bugs, not against somebody who forges rows: the constants are no secret.

use crate::Position;
use std::fmt;
use uuid::Uuid;

/// The size of a digest in bytes, as it is stored.
pub const DIGEST_BYTES: usize = 16;

/// 2^61 − 1, a prime.
const MODULUS: u64 = (1 << 61) - 1;
/// The base of each lane. These are digits of π, as are the seeds: nobody has chosen them.
const BASES: [u64; 2] = [0x043f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];
const SEEDS: [u64; 2] = [0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];

/// Which events were handed to the handler, and in which order.
///
/// ```
/// use anabranch_core::Position;
/// use anabranch_core::audit::{Digest, Digester};
/// let (a, b) = (uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(2));
/// let digest = |events: &[(u64, uuid::Uuid)]| {
///     let mut digester = Digester::new();
///     events.iter().for_each(|(at, id)| digester.add(Position::new(*at), id));
///     digester.finish()
/// };
/// assert_eq!(digest(&[]), None);
/// let in_order = digest(&[(1, a), (2, b)]).unwrap();
/// assert_ne!(Some(in_order), digest(&[(2, b), (1, a)]));
/// assert_eq!(Digest::from_bytes(&in_order.to_bytes()), Some(in_order));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub(super) Lanes);

impl Digest {
    /// The digest as it is stored.
    #[must_use]
    pub fn to_bytes(self) -> [u8; DIGEST_BYTES] {
        let [first, second] = self.0.0;
        ((u128::from(first) << 64) | u128::from(second)).to_be_bytes()
    }

    /// The digest from its stored bytes, if they are one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = u128::from_be_bytes(bytes.try_into().ok()?);
        let lanes = [(number >> 64) as u64, number as u64];
        lanes.iter().all(|lane| *lane < MODULUS).then_some(Self(Lanes(lanes)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.to_bytes()))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Makes a [`Digest`], one event after the other.
#[derive(Clone, Debug, Default)]
pub struct Digester {
    sum: Lanes,
    count: u64,
}

impl Digester {
    /// Of no event yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The handler receives this event next.
    pub fn add(&mut self, position: Position, id: &Uuid) {
        self.push(Lanes::event(position, id));
    }

    pub(super) fn push(&mut self, event: Lanes) {
        self.sum = self.sum.times(Lanes::BASE).plus(event);
        self.count += 1;
    }

    /// How many events it has.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The digest of all of them; `None` without any.
    #[must_use]
    pub fn finish(&self) -> Option<Digest> {
        (self.count > 0).then_some(Digest(self.sum))
    }
}

/// A number in each lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lanes([u64; 2]);

impl Lanes {
    pub(super) const ONE: Self = Self([1, 1]);
    pub(super) const BASE: Self = Self(BASES);

    /// What one event adds.
    pub(super) fn event(position: Position, id: &Uuid) -> Self {
        let (high, low) = id.as_u64_pair();
        Self(SEEDS.map(|seed| {
            let hash = mix(mix(mix(seed ^ position.get()) ^ high) ^ low);
            reduce(u128::from(hash))
        }))
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.zip(other, |a, b| reduce(u128::from(a) + u128::from(b)))
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.zip(other, |a, b| reduce(u128::from(a) + u128::from(MODULUS - b)))
    }

    pub(super) fn times(self, other: Self) -> Self {
        self.zip(other, |a, b| reduce(u128::from(a) * u128::from(b)))
    }

    fn zip(self, other: Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self([both(self.0[0], other.0[0]), both(self.0[1], other.0[1])])
    }
}

/// The remainder of a number below 2^122.
fn reduce(number: u128) -> u64 {
    // 2^61 is 1 here, so the upper bits count like the lower ones.
    let sum = (number as u64 & MODULUS) + (number >> 61) as u64;
    if sum >= MODULUS { sum - MODULUS } else { sum }
}

/// Spreads each bit over all others (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests;
