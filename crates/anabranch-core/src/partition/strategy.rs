//! The strategies by name.

use crate::UnknownName;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A way to key events; see [`Partition`](crate::Partition).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// By stream.
    Entity,
    /// By customer.
    Customer,
    /// By correlation.
    Saga,
    /// One sequence.
    Global,
    /// By tenant and tag.
    Dcb,
    /// By a function.
    Custom,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Entity, Self::Customer, Self::Saga, Self::Global, Self::Dcb, Self::Custom];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Entity => "entity",
            Self::Customer => "customer",
            Self::Saga => "saga",
            Self::Global => "global",
            Self::Dcb => "dcb",
            Self::Custom => "custom",
        }
    }

    /// How many lanes to begin with. There are many more entities than customers, and few of either
    /// are busy at once; one sequence has one lane.
    #[must_use]
    pub const fn recommended_lanes(self) -> usize {
        match self {
            Self::Entity => 10,
            Self::Customer | Self::Saga | Self::Dcb | Self::Custom => 5,
            Self::Global => 1,
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Strategy {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name).ok_or_else(|| {
            let known = "entity, customer, saga, global, dcb or custom";
            UnknownName::new("partition strategy", name, known)
        })
    }
}
