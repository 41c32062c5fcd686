//! What happens in a run: counted, hashed, and the last of it remembered.

use std::collections::VecDeque;
use std::fmt;

/// How many steps a failure shows.
const SHOWN: usize = 40;

macro_rules! what {
    ($($name:ident $text:literal,)*) => {
        /// What can happen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum What {
            $(#[doc = $text] $name,)*
        }

        impl What {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// In words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

what! {
    AppendMarked "append: takes its mark",
    AppendDrawn "append: draws positions",
    AppendCommitted "append: commits",
    AppendRolledBack "append: rolls back",
    Started "fault: a process starts",
    Crashed "fault: a process crashes",
    Paused "fault: a process is paused",
    PausedBeyondLease "fault: a process is paused beyond its lease",
    AskedToLeave "fault: a process is asked to leave",
    Calm "the faults end",
    Slow "fault: a transaction is slow",
    RequestLost "fault: a request is lost",
    AnswerLost "fault: an answer is lost",
    Vanished "fault: a transaction vanishes with its process",
    WakeLost "fault: a wake is lost",
    WakeLate "fault: a wake is late",
    Woken "wake",
    GaveUp "gives up waiting for an answer",
    Joined "joins",
    Beat "sign of life",
    Settled "has settled a generation",
    HeldBack "may not hold its slots yet",
    FoundDead "finds itself dead",
    Died "tick: finds workers dead",
    Noticed "tick: finds that processes are gone",
    NewGeneration "tick: a new generation",
    Claimed "claim",
    ClaimRefused "claim: refused, the lease is over",
    ClaimFailed "claim: no answer",
    Left "leaves",
    Read "reads",
    BehindAppends "reads less, appends are in flight",
    ReadApart "reads parts apart",
    VoidChunk "drops a chunk from before it lost all",
    Narrowed "drops events of slots that it let go",
    Took "takes cursors",
    KnewThem "was told of cursors that it knows",
    Forgot "forgets all",
    LearntOfLoss "learns by a claim that it has lost cursors",
    RunBegins "handler begins",
    SlowHandler "fault: a handler takes long",
    PartOfBatch "handler takes a part of a batch",
    Sent "sends a commit",
    Committed "commit",
    Merged "commit: cursors become one",
    ShedInBatch "commit: lets go of slots with a batch",
    ShedIdle "commit: lets go of slots without events",
    Watermark "commit: how far it has looked",
    Fenced "fenced",
    FencedByItself "fenced: its own commit has happened",
    ZombieCommitted "a commit comes after its process was paused or gone",
    ZombieFenced "fenced: its process was paused or gone",
}

/// One thing that happened.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// When.
    pub at: u64,
    /// In which process; none for the log and the store.
    pub process: Option<u8>,
    /// In which lane of which consumer.
    pub lane: Option<(u8, u8)>,
    /// What.
    pub what: What,
    /// A figure that goes with it, mostly a position or a count.
    pub figure: u64,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>5}  ", self.at)?;
        match (self.process, self.lane) {
            (Some(process), Some((consumer, lane))) => {
                write!(f, "{:<16}", format!("p{process} c{consumer} lane {lane}"))?;
            }
            (Some(process), None) => write!(f, "{:<16}", format!("p{process}"))?,
            _ => write!(f, "{:<16}", "")?,
        }
        write!(f, "{} ({})", self.what.text(), self.figure)
    }
}

/// What has happened.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    count: u64,
    counts: Vec<u64>,
    last: VecDeque<Step>,
    keep_all: bool,
}

impl Trace {
    pub(crate) fn new(keep_all: bool) -> Self {
        let counts = vec![0; What::ALL.len()];
        Self { hash: 0xcbf2_9ce4_8422_2325, count: 0, counts, last: VecDeque::new(), keep_all }
    }

    pub(crate) fn record(&mut self, step: Step) {
        self.count += 1;
        self.counts[step.what as usize] += 1;
        let place = u64::from(step.process.map_or(255, |process| process))
            | step.lane.map_or(0, |(c, l)| 1 << 16 | u64::from(c) << 17 | u64::from(l) << 20);
        for word in [step.at, place, step.what as u64, step.figure] {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if !self.keep_all && self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back(step);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn into_parts(self) -> (Vec<u64>, Vec<Step>) {
        (self.counts, self.last.into())
    }
}
