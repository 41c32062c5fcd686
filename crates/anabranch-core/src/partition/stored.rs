//! A partition from what is stored of it: the way back from [`Partition::identity`].

use super::{Partition, Strategy};
use crate::HashRule;

impl Partition {
    /// The partition with this [`identity`](Self::identity). None for a custom one, whose function nobody else has, and
    /// for a text that is no identity.
    ///
    /// ```
    /// use anabranch_core::{HashRule, Partition};
    /// let stored = Partition::entity("Order").identity(HashRule::Fnv1a);
    /// let found = Partition::from_identity(&stored).unwrap();
    /// assert_eq!(found.identity(HashRule::Md5), stored);
    /// assert!(Partition::from_identity("custom \"by-region\", fnv1a").is_none());
    /// ```
    #[must_use]
    pub fn from_identity(text: &str) -> Option<Self> {
        if text == Strategy::Global.to_string() {
            return Some(Self::global());
        }
        let (what, rule) = text.rsplit_once(", ")?;
        let rule: HashRule = rule.parse().ok()?;
        let (strategy, name) = match what.split_once(' ') {
            Some((strategy, name)) => (strategy, Some(unquoted(name)?)),
            None => (what, None),
        };
        let partition = match (strategy.parse().ok()?, name) {
            (Strategy::Entity, Some(name)) => Self::entity(name),
            (Strategy::Entity, None) => Self::entities(),
            (Strategy::Customer, None) => Self::customer(),
            (Strategy::Saga, None) => Self::saga(),
            (Strategy::Dcb, Some(name)) => Self::dcb(name),
            _ => return None,
        };
        Some(partition.with_rule(rule))
    }
}

/// A name as `{:?}` has written it.
fn unquoted(text: &str) -> Option<String> {
    let mut chars = text.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut name = String::new();
    while let Some(char) = chars.next() {
        let char = match char {
            '\\' => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'u' => {
                    let rest = chars.as_str().strip_prefix('{')?;
                    let (code, rest) = rest.split_once('}')?;
                    chars = rest.chars();
                    char::from_u32(u32::from_str_radix(code, 16).ok()?)?
                }
                plain => plain,
            },
            plain => plain,
        };
        name.push(char);
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_but_a_custom_one_comes_back() {
        let names = ["Order", "a b, c", "q\"uote\\", "tab\tnew\nline\0", "ü \u{200b} \u{7f} '"];
        let named = names.iter().flat_map(|name| [Partition::entity(*name), Partition::dcb(*name)]);
        let plain =
            [Partition::entities(), Partition::customer(), Partition::saga(), Partition::global()];
        for partition in named.chain(plain) {
            for rule in [HashRule::Fnv1a, HashRule::Md5] {
                let stored = partition.identity(rule);
                let found = Partition::from_identity(&stored);
                let found = found.unwrap_or_else(|| panic!("{stored}"));
                assert_eq!(found.identity(rule), stored);
                assert_eq!(found.category(), partition.category());
            }
        }
    }

    #[test]
    fn what_is_no_identity_is_none() {
        for text in ["", "entity", "entity \"a, fnv1a", "custom \"a\", fnv1a", "entity, sha9"] {
            assert!(Partition::from_identity(text).is_none(), "{text}");
        }
    }
}
