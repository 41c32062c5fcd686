//! Why a slot does not go on, in the few words and the colour that fit a map.

use anabranch::operate::{KeyState, Reason};

/// A reason, without what is particular to one cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Why {
    /// In a legend.
    pub(super) label: &'static str,
    /// Where there are no colours.
    pub(super) letter: char,
    pub(super) colour: u8,
}

const fn why(label: &'static str, letter: char, colour: u8) -> Why {
    Why { label, letter, colour }
}

/// Nobody has it.
pub(super) const GREY: u8 = 240;
/// It does not go on, for whatever reason.
pub(super) const RED: u8 = 196;

const AWAITS_RELEASE: Why = why("about to change hands", 'h', 75);
pub(super) const PARKED: Why = why("parked key", 'p', 220);
pub(super) const RETRYING: Why = why("key tried again by itself", 't', 179);

impl Why {
    /// Of a cursor: its first reason, since those that stop it come before those that only slow it down. Keys that have
    /// failed are no reason of it, but of their own slots.
    pub(super) fn of(reasons: &[Reason]) -> Option<Self> {
        reasons.iter().find_map(Self::of_reason)
    }

    fn of_reason(reason: &Reason) -> Option<Self> {
        Some(match reason {
            Reason::ParkedKeys { .. } | Reason::RetryingKeys { .. } => return None,
            Reason::BeyondLog { .. } => why("beyond the log", 'B', 201),
            Reason::WoundBack { .. } => why("the log was wound back", 'V', 201),
            Reason::OtherLog { .. } => why("its events are in another log", 'L', 201),
            Reason::Paused => why("paused", 'P', 33),
            Reason::Outage(_) => why("stopped by itself", 'S', 160),
            Reason::ReplayAsked => why("replay asked", 'R', 117),
            Reason::Unassigned => why("no worker runs it", 'u', GREY),
            Reason::OutsidePartitions { .. } => why("only other slots are run", 'u', GREY),
            Reason::AwaitsGeneration { .. } => why("about to be assigned", 'a', 109),
            Reason::Unable { .. } => why("workers cannot run it", 'U', 130),
            Reason::OtherCode { .. } => why("other code than the accepted", 'C', 133),
            Reason::AwaitsClaim { .. } => why("about to be claimed", 'a', 109),
            Reason::AwaitsRelease { .. } => AWAITS_RELEASE,
            Reason::OwnerDead => why("its owner is dead", 'D', 124),
            Reason::Blocked { .. } => why("blocked in the database", 'K', 163),
            Reason::Failing { .. } => why("handler fails", 'F', RED),
            Reason::Waiting { .. } => why("waits for the database", 'W', 208),
            Reason::Busy { .. } => why("busy with one batch", 'y', 143),
            Reason::NoWake { .. } => why("no wakes arrive", 'n', 67),
            Reason::FewSessions { .. } => why("lanes take turns", 's', 67),
            _ => why("another reason", 'x', RED),
        })
    }

    /// Of a slot with a key that has failed.
    pub(super) fn of_key(state: KeyState) -> Self {
        match state {
            KeyState::Parked => PARKED,
            KeyState::Retrying => RETRYING,
        }
    }

    /// Whether a map of owners shows it: a slot that changes hands as planned is as it should be.
    pub(super) fn is_trouble(self) -> bool {
        self != AWAITS_RELEASE
    }
}
