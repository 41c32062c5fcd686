//! How many connections the server has room for: how many there may be, and how many there are.

use crate::session::lock;
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A process opens more sessions than it must have while fewer than so many of the server's are in use.
const AMPLE: f64 = 0.5;
/// From here on others may need what is idle.
const TIGHT: f64 = 0.9;
/// What was seen longer ago says nothing.
const FRESH: Duration = Duration::from_secs(10);

/// What to ask the server: how many connections it may have, how many of them ordinary roles cannot have,
/// and how many there are. The last is counted by the server for everybody, unlike `pg_stat_activity`.
pub(crate) const LOOK: &str = "SELECT current_setting('max_connections')::int AS most, \
    current_setting('superuser_reserved_connections')::int \
    + coalesce(current_setting('reserved_connections', true)::int, 0) AS reserved, \
    (SELECT coalesce(sum(numbackends), 0)::int FROM pg_stat_database) AS used";

/// What a server has room for, as it was last seen. All sessions of a process share it.
#[derive(Default)]
pub(crate) struct Room {
    seen: Mutex<Option<(Seen, Instant)>>,
    /// The limit of the role or of the database, if that is the one that was reached last, and when.
    own_limit: Mutex<Option<(String, Instant)>>,
    /// Told when a session could not be opened: others should close what they do not need.
    pub(crate) wanted: Notify,
}

/// The connections of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) most: i32,
    pub(crate) reserved: i32,
    pub(crate) used: i32,
}

impl Room {
    pub(crate) fn saw(&self, seen: Seen) {
        *lock(&self.seen) = Some((seen, Instant::now()));
    }

    /// What was last seen, whenever that was.
    pub(crate) fn seen(&self) -> Option<Seen> {
        lock(&self.seen).map(|(seen, _)| seen)
    }

    /// How much is in use, if that is known.
    fn share(&self) -> Option<f64> {
        let seen = lock(&self.seen).filter(|(_, at)| at.elapsed() < FRESH);
        seen.map(|(seen, _)| seen.share())
    }

    /// How many connections there may be: what the limit is that was reached a moment ago, or else the server's.
    pub(crate) fn limit(&self) -> String {
        let own = lock(&self.own_limit).clone().filter(|(_, at)| at.elapsed() < FRESH);
        let servers =
            || self.seen().map_or("see max_connections".to_owned(), |seen| seen.to_string());
        own.map_or_else(servers, |(limit, _)| limit)
    }

    /// The server has said that there is none left, perhaps for this role or this database only.
    pub(crate) fn is_full(&self, own_limit: Option<String>) {
        *lock(&self.own_limit) = own_limit.map(|limit| (limit, Instant::now()));
        self.is_asked_for();
        self.wanted.notify_one();
    }

    /// Another process has said so.
    pub(crate) fn is_asked_for(&self) {
        if let Some((seen, at)) = lock(&self.seen).as_mut() {
            seen.used = seen.used.max(seen.most - seen.reserved);
            *at = Instant::now();
        }
    }

    /// Whether a session that is not needed would be in nobody's way.
    pub(crate) fn is_ample(&self) -> bool {
        self.share().is_none_or(|share| share < AMPLE)
    }

    /// Whether somebody may need what is idle here.
    pub(crate) fn is_tight(&self) -> bool {
        self.share().is_some_and(|share| share >= TIGHT)
    }
}

impl Seen {
    /// How much of what ordinary roles may have is in use.
    fn share(self) -> f64 {
        f64::from(self.used) / f64::from((self.most - self.reserved).max(1))
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { most, reserved, .. } = self;
        write!(f, "max_connections is {most}, of which {reserved} are reserved")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_not_there_for_us() {
        let room = Room::default();
        assert!(room.is_ample() && !room.is_tight(), "nobody has looked yet");
        let at = |used| {
            room.saw(Seen { most: 100, reserved: 10, used });
            (room.is_ample(), room.is_tight())
        };
        assert_eq!(at(44), (true, false));
        assert_eq!(at(45), (false, false));
        assert_eq!(at(81), (false, true));
        at(20);
        room.is_full(Some("that of the role".to_owned()));
        assert!(room.is_tight(), "the server has said so");
        assert_eq!(room.limit(), "that of the role");
        room.is_full(None);
        assert_eq!(room.limit(), "max_connections is 100, of which 10 are reserved");
    }
}
