//! What the customer, the bank and the parcel service do, by the number of the order: so the proof knows
//! how each has to end.

use super::order::{Method, Stage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Story {
    /// A card that works.
    Card,
    /// A payment provider that fails the first two times.
    Flaky,
    Declined,
    /// A transfer at once.
    Transfer,
    /// A transfer once the reminder has come.
    Forgetful,
    /// No transfer.
    Never,
    /// A transfer once the order is cancelled: it goes back.
    TooLate,
    /// Paid, but nobody can ship it: the money goes back.
    NoAddress,
}

impl Story {
    /// Orders are called `ord-NUMBER`.
    pub fn of(order: &str) -> Self {
        let number = order.rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
        match number.unwrap_or_default() % 20 {
            3 | 13 => Self::Flaky,
            5 | 15 => Self::Declined,
            6 | 16 => Self::Transfer,
            7 => Self::Forgetful,
            8 => Self::Never,
            18 => Self::TooLate,
            9 | 19 => Self::NoAddress,
            _ => Self::Card,
        }
    }

    pub fn method(self) -> Method {
        match self {
            Self::Card | Self::Flaky | Self::Declined | Self::NoAddress => Method::Card,
            Self::Transfer | Self::Forgetful | Self::Never | Self::TooLate => Method::Transfer,
        }
    }

    /// Where it ends, if everybody is in time. On a machine that stalls a deadline may come first.
    pub fn end(self) -> Stage {
        match self {
            Self::Card | Self::Flaky | Self::Transfer | Self::Forgetful => Stage::Shipped,
            Self::Declined | Self::Never | Self::TooLate => Stage::Cancelled,
            Self::NoAddress => Stage::Failed,
        }
    }
}
