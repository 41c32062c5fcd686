//! What a token may be used for.

use anabranch::errors::UnknownName;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a token may be used for.
///
/// ```
/// use anabranch_server::Scope;
/// assert_eq!("read-masked".parse(), Ok(Scope::ReadMasked));
/// assert!(Scope::Operate.includes(Scope::ReadMasked) && !Scope::Operate.includes(Scope::Read));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Look at everything, the bodies of events included.
    Read,
    /// Look at everything except the bodies of events, payloads and results.
    ReadMasked,
    /// Change the state of consumers and tasks, and make tokens. It includes [`ReadMasked`](Self::ReadMasked), so that
    /// operators see what they act on.
    Operate,
    /// Append events, enqueue tasks, send commands. It includes nothing else.
    Append,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::ReadMasked, Self::Operate, Self::Append];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadMasked => "read-masked",
            Self::Operate => "operate",
            Self::Append => "append",
        }
    }

    /// Whether it allows what another scope is needed for.
    #[must_use]
    pub const fn includes(self, needed: Self) -> bool {
        match needed {
            Self::ReadMasked => matches!(self, Self::Read | Self::ReadMasked | Self::Operate),
            Self::Read => matches!(self, Self::Read),
            Self::Operate => matches!(self, Self::Operate),
            Self::Append => matches!(self, Self::Append),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|scope| scope.name() == name);
        found.ok_or_else(|| UnknownName::new("scope", name, "read, read-masked, operate or append"))
    }
}
