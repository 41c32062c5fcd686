//! How many wrong tokens are allowed, from one address and in all.
//!
//! A token cannot be guessed; this protects the database from those who try.

use crate::problem::Problem;
use anabranch::errors::ErrorCode;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many tries from one address may fail in a minute.
const FROM_ONE: u32 = 20;
/// How many tries from all addresses together.
const FROM_ALL: u32 = 500;
/// How many addresses are told apart; further ones count as one.
const ADDRESSES: usize = 4096;
const WINDOW: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Tries {
    failed: Mutex<Failed>,
}

#[derive(Default)]
struct Failed {
    since: Option<Instant>,
    all: u32,
    by: HashMap<Option<IpAddr>, u32>,
}

impl Tries {
    /// Refuses an address that has failed too often.
    pub(super) fn may(&self, source: Option<IpAddr>) -> Result<(), Problem> {
        self.may_at(source, Instant::now())
    }

    /// Counts a try that has failed.
    pub(super) fn failed(&self, source: Option<IpAddr>) {
        self.failed_at(source, Instant::now());
    }

    fn may_at(&self, source: Option<IpAddr>, now: Instant) -> Result<(), Problem> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.begin(now);
        let from_one = failed.by.get(&failed.place(source)).copied().unwrap_or(0);
        if from_one < FROM_ONE && failed.all < FROM_ALL {
            return Ok(());
        }
        let over = failed.since.map_or(Duration::ZERO, |since| since + WINDOW - now);
        let said = "there were too many wrong tokens in the last minute";
        Err(Problem::new(ErrorCode::TooManyRequests, said).after_seconds(over.as_secs() + 1))
    }

    fn failed_at(&self, source: Option<IpAddr>, now: Instant) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.begin(now);
        failed.all = failed.all.saturating_add(1);
        let place = failed.place(source);
        *failed.by.entry(place).or_default() += 1;
    }
}

impl Failed {
    /// Begins a new minute if the last one is over.
    fn begin(&mut self, now: Instant) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            *self = Self { since: Some(now), ..Self::default() };
        }
    }

    /// Where an address is counted.
    fn place(&self, source: Option<IpAddr>) -> Option<IpAddr> {
        let network = source.map(network);
        match self.by.contains_key(&network) || self.by.len() < ADDRESSES {
            true => network,
            false => None,
        }
    }
}

/// A single host may own a whole network of IPv6 addresses.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => IpAddr::V4(address),
            None => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::from([a, b, c, d, 0, 0, 0, 0])
            }
        },
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> Option<IpAddr> {
        Some(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn an_address_that_fails_too_often_waits_and_the_others_do_not() {
        let (tries, now) = (Tries::default(), Instant::now());
        for _ in 0..FROM_ONE {
            assert!(tries.may_at(address(1), now).is_ok());
            tries.failed_at(address(1), now);
        }
        assert_eq!(tries.may_at(address(1), now).unwrap_err().status(), 429);
        assert!(tries.may_at(address(2), now).is_ok());
        assert!(tries.may_at(address(1), now + WINDOW).is_ok(), "a minute later");
    }

    #[test]
    fn all_together_fail_only_so_often() {
        let (tries, now) = (Tries::default(), Instant::now());
        (0..FROM_ALL).for_each(|number| tries.failed_at(address(number), now));
        assert_eq!(tries.may_at(address(9999), now).unwrap_err().status(), 429);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (tries, now) = (Tries::default(), Instant::now());
        (0..100_000).for_each(|number| tries.failed_at(address(number), now));
        assert!(tries.failed.lock().unwrap().by.len() <= ADDRESSES + 1);
    }

    #[test]
    fn a_host_with_many_new_addresses_is_one() {
        let one: IpAddr = "2001:db8:1:2::1".parse().unwrap();
        let other: IpAddr = "2001:db8:1:2:ffff::9".parse().unwrap();
        assert_eq!(network(one), network(other));
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), address(0x0a00_0001).unwrap());
    }
}
