//! What identifies a consumer beside its name: stored when it first runs, compared ever after.
//!
//! A consumer's cursors hold slots and positions. Another partition would find other keys in those
//! slots, another scope other events behind those positions: events would be lost or handled twice,
//! and nobody would know.

use crate::scope::Scope;
use anabranch_core::Position;
use thiserror::Error;

/// What a program says that a consumer is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) kind: &'static str,
    /// How its keys become slots; see [`Partition::identity`](anabranch_core::Partition::identity).
    pub(crate) partition: String,
    /// Without its names or categories, as programs of the last version stored it.
    pub(crate) strategy: String,
    /// Which events it handles, in the one way to write it.
    pub(crate) scope: Scope,
    pub(crate) version: u32,
    /// Its code, if it says which.
    pub(crate) code: Option<String>,
}

/// What is stored. A part that no program has stored yet is adopted from the first that does.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) kind: String,
    pub(crate) partition: Option<String>,
    pub(crate) strategy: String,
    /// As text: another program may write what this one cannot read, and that must stop nobody.
    pub(crate) scope: Option<String>,
    /// What a program asked for, and nobody has accepted yet.
    pub(crate) wanted_scope: Option<String>,
    pub(crate) version: u32,
    /// The code that is accepted, if one has been stored.
    pub(crate) code: Option<String>,
    /// The code that a program has, and nobody has accepted yet.
    pub(crate) wanted_code: Option<String>,
    /// The end of the log when it was found to stand beyond it.
    pub(crate) beyond_log: Option<Position>,
}

/// How a consumer differs from what is stored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Difference {
    #[error(
        "it was a {was} and now is a {is}, which leaves other traces; give it a new name, or \
         `anabranch forget` the old one"
    )]
    Kind { was: String, is: &'static str },
    #[error(
        "it was partitioned by {was} and now is by {is}; its cursors hold slots of the old keys, so \
         events would be lost and others handled twice: give it a new name and tables of its own, \
         or, if it is a projection, raise its version and rebuild it (docs/changing-a-projection.md)"
    )]
    Partition { was: String, is: String },
    #[error(
        "the database has version {was} of it and this program version {is}; go back to \
         that version, or build the new one beside it (docs/changing-a-projection.md)"
    )]
    Version { was: u32, is: u32 },
    #[error("it handles ({is}) here and ({}) in the database", Scope::in_words(was))]
    Scope { was: String, is: Box<Scope> },
    /// All else is the same: this comes last.
    #[error("its code is {is} here, and {was} is the accepted one")]
    Code { was: String, is: String },
}

impl Identity {
    /// Finds the first thing in which what is stored differs.
    pub(crate) fn compare(&self, stored: &Stored) -> Result<(), Difference> {
        if stored.kind != self.kind {
            return Err(Difference::Kind { was: stored.kind.clone(), is: self.kind });
        }
        let (was, is) = match &stored.partition {
            Some(partition) => (partition, &self.partition),
            None => (&stored.strategy, &self.strategy),
        };
        if was != is {
            return Err(Difference::Partition { was: was.clone(), is: is.clone() });
        }
        if stored.version != self.version {
            return Err(Difference::Version { was: stored.version, is: self.version });
        }
        match &stored.scope {
            Some(was) if *was != self.scope.text() => {
                let (was, is) = (was.clone(), Box::new(self.scope.clone()));
                return Err(Difference::Scope { was, is });
            }
            _ => {}
        }
        match (&stored.code, &self.code) {
            (Some(was), Some(is)) if was != is => {
                Err(Difference::Code { was: was.clone(), is: is.clone() })
            }
            // Who says nothing of it is not held to it.
            _ => Ok(()),
        }
    }
}

impl Stored {
    /// Whether a program of the last version wrote it, which left out what it did not know.
    pub(crate) fn is_partial(&self) -> bool {
        self.partition.is_none() || self.scope.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            kind: "projection",
            partition: "entity \"Order\", fnv1a".to_owned(),
            strategy: "entity, fnv1a".to_owned(),
            scope: Scope::types(["A"]),
            version: 2,
            code: Some("a".to_owned()),
        }
    }

    fn stored() -> Stored {
        let Identity { kind, partition, strategy, scope, version, code } = identity();
        let (partition, scope) = (Some(partition), Some(scope.text()));
        let (kind, wanted_scope, wanted_code, beyond_log) = (kind.to_owned(), None, None, None);
        Stored {
            kind,
            partition,
            strategy,
            scope,
            wanted_scope,
            version,
            code,
            wanted_code,
            beyond_log,
        }
    }

    #[test]
    fn every_part_is_compared() {
        assert_eq!(identity().compare(&stored()), Ok(()));
        let differs = |change: fn(&mut Stored)| {
            let mut stored = stored();
            change(&mut stored);
            identity().compare(&stored).unwrap_err()
        };
        let kind = differs(|stored| stored.kind = "view".to_owned());
        assert!(matches!(kind, Difference::Kind { .. }), "{kind}");
        let partition = differs(|stored| stored.partition = Some("entity, fnv1a".to_owned()));
        assert!(matches!(partition, Difference::Partition { .. }), "{partition}");
        let version = differs(|stored| stored.version = 1);
        assert_eq!(version, Difference::Version { was: 1, is: 2 });
        let scope = differs(|stored| stored.scope = Some(Scope::all().text()));
        assert!(matches!(scope, Difference::Scope { .. }), "{scope}");
        let code = differs(|stored| stored.code = Some("b".to_owned()));
        assert_eq!(code, Difference::Code { was: "b".to_owned(), is: "a".to_owned() });
    }

    #[test]
    fn who_says_nothing_of_its_code_is_not_held_to_it() {
        assert_eq!(identity().compare(&Stored { code: None, ..stored() }), Ok(()));
        assert_eq!(Identity { code: None, ..identity() }.compare(&stored()), Ok(()));
    }

    #[test]
    fn of_the_last_version_only_the_strategy_is_known() {
        let old = Stored { partition: None, scope: None, ..stored() };
        assert!(old.is_partial());
        assert_eq!(identity().compare(&old), Ok(()));
        let other = Stored { strategy: "customer, fnv1a".to_owned(), ..old };
        let difference = identity().compare(&other).unwrap_err();
        let said = "it was partitioned by customer, fnv1a and now is by entity, fnv1a";
        assert!(difference.to_string().starts_with(said), "{difference}");
    }
}
