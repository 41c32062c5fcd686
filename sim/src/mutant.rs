//! Mechanisms broken on purpose: laws that nothing can break would say nothing.

use std::str::FromStr;

/// What is broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mutant {
    /// Nothing.
    #[default]
    None,
    /// A commit matches its row by the id alone: whoever has lost it goes on.
    Fence,
    /// Slots that are let go stand where the furthest part of their lane stands.
    Split,
    /// A reader goes up to the head, whatever is in flight.
    Horizon,
    /// The row that is left by a split keeps its epoch: a repeated commit matches it.
    Epoch,
    /// What was read before slots were let go is handled all the same.
    Stale,
    /// A lane goes on with a cursor although a claim tells of a later one.
    Loss,
    /// A worker holds slots of a new generation while others still hold older ones.
    Recreate,
}

impl Mutant {
    /// All that break something.
    pub const ALL: [Self; 7] = [
        Self::Fence,
        Self::Split,
        Self::Horizon,
        Self::Epoch,
        Self::Stale,
        Self::Loss,
        Self::Recreate,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fence => "fence",
            Self::Split => "split",
            Self::Horizon => "horizon",
            Self::Epoch => "epoch",
            Self::Stale => "stale",
            Self::Loss => "loss",
            Self::Recreate => "recreate",
        }
    }
}

impl FromStr for Mutant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter().chain([Self::None]);
        all.find(|mutant| mutant.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|mutant| mutant.name()).collect();
            format!("there is no mutant `{name}`; there are {}", names.join(", "))
        })
    }
}
