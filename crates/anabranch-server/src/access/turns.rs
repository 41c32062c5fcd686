//! Who looks up secrets in the database at the same time.
//!
//! A slow lookup holds up only those who need the same answer, and unknown callers from the same address.

use super::tries::network;
use crate::secret::Hash;
use std::hash::{DefaultHasher, Hasher};
use std::net::IpAddr;
use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

/// Over how many locks secrets and addresses are spread. Those that share one by chance wait for each other.
const PLACES: usize = 64;
/// How many unknown callers from one address are looked up at the same time. A burst can exceed the limit of wrong tries
/// by one less than this.
pub(super) const STRANGERS: usize = 4;

pub(super) struct Turns {
    secrets: [Mutex<()>; PLACES],
    addresses: [Semaphore; PLACES],
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            secrets: std::array::from_fn(|_| Mutex::default()),
            addresses: std::array::from_fn(|_| Semaphore::new(STRANGERS)),
        }
    }

    /// One at a time for the same secret: the others then find what the first one found.
    pub(super) async fn of_secret(&self, hash: &Hash) -> MutexGuard<'_, ()> {
        self.secrets[place(hash)].lock().await
    }

    /// A few at a time for the same address.
    pub(super) async fn of_stranger(&self, source: Option<IpAddr>) -> Option<SemaphorePermit<'_>> {
        // Nobody closes it.
        self.addresses[place(&source.map(network))].acquire().await.ok()
    }
}

fn place(of: &impl std::hash::Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    (hasher.finish() % PLACES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{Kind, Secret};
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_lookup_holds_up_no_other_secret() {
        let turns = Turns::new();
        let hash = || Secret::random().hash(Kind::Token);
        let slow = hash();
        let _held = turns.of_secret(&slow).await;
        assert!(turns.of_secret(&slow).now_or_never().is_none(), "the same one waits");
        let free = (0..100).filter(|_| turns.of_secret(&hash()).now_or_never().is_some()).count();
        assert!(free > 80, "{free} of 100 others went on");
    }

    #[tokio::test]
    async fn strangers_of_an_address_take_turns_and_others_go_on() {
        let turns = Turns::new();
        let address = |number: u32| Some(IpAddr::from(number.to_be_bytes()));
        let mut held = Vec::new();
        for _ in 0..STRANGERS {
            held.push(turns.of_stranger(address(1)).await);
        }
        assert!(turns.of_stranger(address(1)).now_or_never().is_none());
        let free = (2..102).filter(|of| turns.of_stranger(address(*of)).now_or_never().is_some());
        assert!(free.count() > 80);
    }
}
