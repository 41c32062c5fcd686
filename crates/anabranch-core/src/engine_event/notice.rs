//! What is rare: its kind says how much it matters, and in which words.

use super::Severity;
use serde::Serialize;

macro_rules! notices {
    ($($kind:ident $severity:ident $target:literal $text:literal)*) => {
        /// What is rare, by its kind. The names never change; new ones may come with any version.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Notice {
            $(#[doc = $text] $kind,)*
        }

        impl Notice {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// How much it matters.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self { $(Self::$kind => Severity::$severity,)* }
            }

            /// The module that says so.
            #[must_use]
            pub fn target(self) -> &'static str {
                match self { $(Self::$kind => concat!("anabranch_", $target),)* }
            }

            /// What it means, in words; `{}` stands for what it is about.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Self::$kind => $text,)* }
            }
        }
    };
}

notices! {
    BatchBegan Info "batch::batch"
        "a batch begins"
    BatchUneven Warn "batch::batch"
        "{}"
    BatchSourceStored Warn "batch::identity"
        "the job has entries from before its source was stored; from now on it is of {}"
    BatchSourceChanged Warn "batch::identity"
        "the job was of {}"
    BatchSourceUnknown Warn "batch::identity"
        "the job has entries from before its source was stored: nothing shows that they are of {}; the \
        next run stores it"
    BatchSessionLost Warn "batch::session"
        "the lease was over; beginning a new session"
    BatchLeaseNotRenewed Warn "batch::session"
        "cannot renew the lease of a session"
    DeadSessionsEnded Warn "postgres::activity"
        "ended the transactions of a dead worker"
    HostSilent Debug "postgres::hosts"
        "a host of the URL says nothing"
    ListenerGone Debug "postgres::link"
        "the session that listens and shows life is gone"
    AppendRepeated Debug "postgres::store"
        "append is repeated"
    NotNotifiedAtEnd Debug "postgres::wake"
        "cannot notify other processes at the end; they poll"
    NotNotified Debug "postgres::wake"
        "cannot notify other processes"
    FileNotWatched Warn "sqlite::watch"
        "cannot watch the file; readers will poll"
    ScopeAdopted Warn "runtime::consumer::register"
        "a program of the last version made this consumer, and did not store its scope and the names of \
        its partition; what this program says holds from now on"
    BeginsLate Info "runtime::consumer::register"
        "begins with the first event that the log has; positions before it were deleted, or never stored"
    NothingToHandle Warn "runtime::consumer::register"
        "there is nothing for it to handle: are its names spelled as in the log? Where its events are \
        still to come, all is well"
    EventsLost Error "runtime::consumer::register"
        "the log has lost events"
    AuditNotBegun Warn "runtime::consumer::register"
        "it is to be audited, and workers of an older version run it that record nothing: {}; begin with \
        `anabranch audit NAME --start` when they are gone, or start this program again"
    ReleaseUnknown Info "runtime::lane::transact"
        "it is unknown whether slots were released"
    ReleasedByLease Debug "runtime::lane::shed"
        "slots are released by the lease"
    CannotRelease Warn "runtime::lane::shed"
        "cannot release slots"
    Imported Info "runtime::import"
        "imported"
    KeysNotComparable Warn "runtime::key_samples"
        "none of the events whose keys are kept is in the log any more, so a function of its partition \
        that answers otherwise would not be noticed"
    WatermarkNotStored Debug "runtime::lane"
        "how far a lane has looked is not written down"
    WatermarkRefused Warn "runtime::lane"
        "how far a lane has looked is not written down"
    Switched Info "runtime::rebuild::switch"
        "switched to the new version"
    WoundBackNotStored Warn "runtime::standing"
        "cannot write down that its log was wound back"
    ProcessGone Debug "runtime::worker"
        "the process of a worker is gone"
    CannotTakeOver Warn "runtime::worker"
        "cannot take over yet"
    CannotAnnounceLeave Warn "runtime::worker"
        "cannot say that it leaves"
    HandlersUnfinished Warn "runtime::worker"
        "handlers did not finish in time; what they did is rolled back"
    CursorsNotReleased Warn "runtime::worker"
        "cannot release its cursors in time; the lease will"
    CannotSayAble Warn "runtime::worker::ability"
        "cannot say whether it is able to run it yet"
    Unable Warn "runtime::worker::ability"
        "cannot run it for the time being"
    AbleAgain Info "runtime::worker::ability"
        "can run it again"
    CannotReplayYet Warn "runtime::worker::beats"
        "cannot replay yet"
    CannotReplay Error "runtime::worker::beats"
        "cannot replay"
    CannotWithdrawReplay Warn "runtime::worker::beats"
        "cannot withdraw a replay"
    CannotCompareCursors Warn "runtime::worker::beyond"
        "cannot compare its cursors with the log yet"
    FellBack Error "runtime::worker::beyond"
        "the database has fallen back, the log and its cursors together: a standby that was behind has \
        become the primary, or an older backup was restored. What came after is lost; it goes on where \
        the cursors stand now"
    CannotCompareKeys Warn "runtime::worker::beyond"
        "cannot compare keys yet"
    BeyondNotStored Warn "runtime::worker::beyond"
        "cannot write down that it stands beyond the log"
    CannotClaim Warn "runtime::worker::claims"
        "cannot claim yet"
    CannotAskProgress Warn "runtime::worker::last_word"
        "cannot ask how far it got"
    NoAnswerToProgress Warn "runtime::worker::last_word"
        "cannot ask how far it got: the database does not answer in time"
    CannotSeeLimits Debug "runtime::worker::limits"
        "cannot see which limits others know"
    LimitNotHeld Warn "runtime::worker::limits"
        "{}: its max_parallelism does not hold before they are gone"
    CannotEndSessions Warn "runtime::worker::membership"
        "cannot end what a dead worker left behind"
    CannotFollow Warn "runtime::worker::membership"
        "cannot follow the replica set yet"
    CannotSettle Warn "runtime::worker::membership"
        "cannot say yet that everything is released"
    CannotReleaseCursors Warn "runtime::worker::membership"
        "cannot release its cursors; the lease will"
    CannotLeave Warn "runtime::worker::membership"
        "cannot leave; the lease will end"
    HandedOver Error "runtime::worker::outage"
        "is handed over"
    StoppedEverywhere Warn "runtime::worker::outage"
        "is stopped: its handler fails everywhere"
    GoesOn Info "runtime::worker::outage"
        "goes on: its handler works again, or is tried again"
    TryNotStored Warn "runtime::worker::outage"
        "cannot write down what it said"
    CannotGiveBack Warn "runtime::worker::sessions"
        "cannot release what it has no session for yet"
    Replaced Info "runtime::worker::exchange"
        "is replaced by what it is now"
    Added Info "runtime::worker::exchange"
        "is added while the others go on"
    Removed Info "runtime::worker::exchange"
        "is removed, and left to those who still run it"
    FailureRemoved Info "runtime::worker::exchange"
        "what has failed of it is not wanted any more, and not begun again"
    TakesPlace Info "runtime::worker::succession"
        "takes the place of the old version"
    MakesRoom Info "runtime::worker::succession"
        "makes room for the new version"
    ServesNewVersion Info "runtime::worker::succession"
        "serves the new version"
    CannotSayName Warn "runtime::worker::succession"
        "cannot say under which name it runs yet"
    Broken Error "runtime::worker::trouble"
        "cannot run; the others go on"
    OwnsNothing Debug "runtime::worker::trouble"
        "owns nothing"
    CannotGiveBackPermits Warn "runtime::worker::trouble"
        "cannot give its permits back"
    StillBroken Warn "runtime::worker::trouble"
        "still cannot run"
    RunsAgain Info "runtime::worker::trouble"
        "runs again"
    LoadMoved Info "runtime::worker::weighing"
        "slots move for their load"
    CannotWeigh Warn "runtime::worker::weighing"
        "cannot say how heavy slots are"
    EndpointGone Warn "webhook::lane"
        "the endpoint wants no more messages (410 Gone), so the webhook is paused; `anabranch resume` goes on"
    CannotPause Warn "webhook::lane"
        "it could not be paused"
    AttemptNotKept Debug "webhook::lane"
        "an attempt was not written down"
    DeliveriesNotPruned Debug "webhook::lane"
        "old deliveries were not removed"
    SnapshotUnfit Warn "workflow::load"
        "a snapshot does not fit the state; raise `state_version` when it changes"
    CommandRejected Info "workflow::running::commands"
        "a command of a reaction is rejected"
    SnapshotNotKept Warn "workflow::snapshots"
        "a snapshot was not kept"
    FollowersRefused Error "workpool::ending"
        "what was to follow cannot be enqueued"
    CannotPrune Debug "workpool::inside"
        "cannot forget tasks that have ended"
    CheckpointNotSaved Warn "workpool::outside"
        "cannot save a checkpoint"
    PoolNeverRun Warn "workpool::tasks"
        "no worker has run a pool of this name yet: its tasks wait for the first that does"
}
