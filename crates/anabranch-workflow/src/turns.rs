//! Who wants the same instance takes turns, so that the tasks of a process never race each other
//! for its next version.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// A lock for each key that somebody wants now.
#[derive(Default)]
pub(crate) struct Turns {
    wanted: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

/// A turn, until it is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    key: &'a str,
    lock: Arc<tokio::sync::Mutex<()>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits for those who came before.
    pub(crate) async fn take<'a>(&'a self, key: &'a str) -> Turn<'a> {
        let lock = {
            let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(wanted.entry(key.to_owned()).or_default())
        };
        // It is there before the wait, so that who gives up waiting leaves nothing behind.
        let mut turn = Turn { turns: self, key, lock, guard: None };
        turn.guard = Some(Arc::clone(&turn.lock).lock_owned().await);
        turn
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut wanted = self.turns.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's and this one: nobody else wants it.
        if Arc::strong_count(&self.lock) == 2 {
            wanted.remove(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::poll;

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_left_behind() {
        let turns = Turns::default();
        let first = turns.take("a").await;
        let _other = turns.take("b").await;
        let mut second = Box::pin(turns.take("a"));
        let mut third = Box::pin(turns.take("a"));
        assert!(poll!(second.as_mut()).is_pending());
        assert!(poll!(third.as_mut()).is_pending());
        drop(first);
        assert!(poll!(third.as_mut()).is_pending(), "they come in order");
        drop(second.await);
        drop(third);
        assert_eq!(turns.wanted.lock().unwrap().len(), 1, "only `b` is wanted");
    }
}
