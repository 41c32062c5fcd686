//! How busy each slot is, as measured, and how heavy that makes it for the planner.

use crate::{SLOTS, Slot, SlotSet};

/// The size of the rates in bytes, as they are stored.
pub const BYTES: usize = SLOTS as usize * size_of::<f32>();

/// What a slot of average rate weighs: fine enough that a slot with a hundredth of it still differs
/// from an idle one.
const MEAN_WEIGHT: u32 = 1_000;
/// The part of it that every slot weighs, however idle: an idle slot may wake up, and it costs a
/// little even while it sleeps.
const IDLE_WEIGHT: u32 = MEAN_WEIGHT / 10;
/// Below this many events per second of all slots together nothing is worth moving.
const LEAST_RATE: f64 = 1.0;

/// Events per second of each slot, as measured.
///
/// ```
/// use anabranch_core::{Rates, Slot, SlotSet};
/// let mut sum = Rates::default();
/// let mut mine = Rates::default();
/// mine.set(Slot::ZERO, 12.5);
/// sum.merge(&mine, &SlotSet::from_slot(Slot::ZERO));
/// assert_eq!(sum.get(Slot::ZERO), 12.5);
/// assert_eq!(Rates::from_bytes(&sum.to_bytes()), Some(sum));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rates(Box<[f32]>);

impl Default for Rates {
    fn default() -> Self {
        Self(vec![0.0; usize::from(SLOTS)].into())
    }
}

impl Rates {
    /// The rate of a slot.
    #[must_use]
    pub fn get(&self, slot: Slot) -> f32 {
        self.0[usize::from(slot.get())]
    }

    /// Sets the rate of a slot.
    pub fn set(&mut self, slot: Slot, rate: f32) {
        self.0[usize::from(slot.get())] = rate;
    }

    /// Takes the other's figures for these slots, as of the worker that has them.
    pub fn merge(&mut self, other: &Self, of: &SlotSet) {
        for slot in of.iter() {
            self.set(slot, other.get(slot));
        }
    }

    /// The rates as they are stored: a little-endian `f32` for each slot.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|rate| rate.to_le_bytes()).collect()
    }

    /// The rates from their stored bytes, if these are [`BYTES`] of them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (rates, rest) = bytes.as_chunks();
        let is_whole = bytes.len() == BYTES && rest.is_empty();
        is_whole.then(|| Self(rates.iter().map(|rate| f32::from_le_bytes(*rate)).collect()))
    }
}

/// How heavy each slot is.
///
/// ```
/// use anabranch_core::{Rates, Slot, SlotSet, Weights};
/// assert_eq!(Weights::even().sum(&SlotSet::all()), 5040);
///
/// let mut rates = Rates::default();
/// rates.set(Slot::ZERO, 200.0);
/// let weights = Weights::from_rates(&rates);
/// let idle = SlotSet::all().difference(&SlotSet::from_slot(Slot::ZERO));
/// // One slot has all the events, yet idle slots weigh a tenth together.
/// assert_eq!(u64::from(weights.get(Slot::ZERO)) / weights.sum(&idle), 9);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights(Option<Box<[u32]>>);

impl Weights {
    /// Every slot weighs 1.
    #[must_use]
    pub fn even() -> Self {
        Self(None)
    }

    /// A tenth of the weight is shared evenly, the rest is in proportion to the rates. Even if the
    /// rates add up to less than one event per second, or to no number.
    #[must_use]
    pub fn from_rates(rates: &Rates) -> Self {
        let total: f64 = rates.0.iter().copied().map(f64::from).sum();
        if !total.is_finite() || total < LEAST_RATE {
            return Self::even();
        }
        let busy = f64::from(MEAN_WEIGHT - IDLE_WEIGHT) * f64::from(SLOTS);
        // The cast saturates, so 5040 weights always fit a u64, whatever was measured.
        let weight =
            |rate: &f32| IDLE_WEIGHT.saturating_add((busy * f64::from(*rate) / total) as u32);
        Self(Some(rates.0.iter().map(weight).collect()))
    }

    /// The weight of a slot, at least 1.
    #[must_use]
    pub fn get(&self, slot: Slot) -> u32 {
        self.0.as_ref().map_or(1, |weights| weights[usize::from(slot.get())])
    }

    /// The weight of all these slots.
    #[must_use]
    pub fn sum(&self, slots: &SlotSet) -> u64 {
        match self.0 {
            None => slots.len() as u64,
            Some(_) => slots.iter().map(|slot| u64::from(self.get(slot))).sum(),
        }
    }

    pub(crate) fn is_even(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u16) -> Slot {
        Slot::new(number).unwrap()
    }

    #[test]
    fn rates_are_stored_as_little_endian_floats() {
        let mut rates = Rates::default();
        rates.set(slot(1), 1.5);
        let bytes = rates.to_bytes();
        assert_eq!(bytes.len(), BYTES);
        assert_eq!(bytes[..8], [0, 0, 0, 0, 0, 0, 0xc0, 0x3f]);
        assert_eq!(Rates::from_bytes(&bytes), Some(rates));
        assert_eq!(Rates::from_bytes(&bytes[1..]), None);
        assert_eq!(Rates::from_bytes(&[0; BYTES + 4]), None);
    }

    #[test]
    fn only_the_figures_of_the_named_slots_are_taken() {
        let (mut sum, mut other) = (Rates::default(), Rates::default());
        for number in 0..3 {
            sum.set(slot(number), 1.0);
            other.set(slot(number), 2.0);
        }
        sum.merge(&other, &SlotSet::from_slot(slot(1)));
        assert_eq!([0, 1, 2].map(|number| sum.get(slot(number))), [1.0, 2.0, 1.0]);
    }

    #[test]
    fn a_tenth_of_the_weight_is_even() {
        let mut rates = Rates::default();
        rates.set(slot(1), 10.0);
        rates.set(slot(2), 30.0);
        let weights = Weights::from_rates(&rates);
        assert_eq!(weights.get(slot(0)), 100);
        assert_eq!(weights.get(slot(1)), 100 + 900 * 5040 / 4);
        assert_eq!(weights.get(slot(2)), 100 + 900 * 5040 * 3 / 4);
        assert_eq!(weights.sum(&SlotSet::all()), 5040 * 1_000);
    }

    #[test]
    fn weights_are_even_where_the_rates_say_nothing() {
        for rate in [0.0, 0.9, -5.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut rates = Rates::default();
            rates.set(slot(7), rate);
            assert_eq!(Weights::from_rates(&rates), Weights::even(), "one slot with {rate}");
        }
    }

    #[test]
    fn absurd_rates_do_not_overflow() {
        let mut rates = Rates::default();
        rates.set(slot(0), f32::MAX);
        rates.set(slot(1), -f32::MAX);
        rates.set(slot(2), 1.0);
        let weights = Weights::from_rates(&rates);
        assert_eq!((weights.get(slot(0)), weights.get(slot(1))), (u32::MAX, IDLE_WEIGHT));
        assert!(weights.sum(&SlotSet::all()) > u64::from(u32::MAX));
    }
}
