//! Secrets: tokens and the contents of cookies. What is stored of them is their hash.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::fmt;
use std::hint::black_box;
use uuid::Uuid;

/// What a token begins with, so that a search for lost ones finds it.
const PREFIX: &str = "anb_";
/// How many characters a secret has behind that.
const CHARACTERS: usize = 43;

/// A new secret: 32 random bytes.
///
/// `Debug` never prints it; [`reveal`](Self::reveal) shows it, once, to whoever made it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A secret of 256 bits from the system's source of random numbers, by way of three random UUIDs (122 bits each) that
    /// are hashed together.
    pub(crate) fn random() -> Self {
        let mut hash = Sha256::new();
        for _ in 0..3 {
            hash.update(Uuid::new_v4().as_bytes());
        }
        Self(URL_SAFE_NO_PAD.encode(hash.finalize()))
    }

    /// The secret of a token, `anb_…`; none if the text is not a token.
    pub(crate) fn of_token(text: &str) -> Option<Self> {
        Self::shaped(text.strip_prefix(PREFIX)?)
    }

    /// The secret of a cookie; none if the text is not one.
    pub(crate) fn of_cookie(text: &str) -> Option<Self> {
        Self::shaped(text)
    }

    fn shaped(text: &str) -> Option<Self> {
        let is_one = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_shaped = text.len() == CHARACTERS && text.bytes().all(is_one);
        is_shaped.then(|| Self(text.to_owned()))
    }

    /// The text of a token.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", self.0)
    }

    /// The text of a cookie.
    pub(crate) fn cookie(&self) -> &str {
        &self.0
    }

    /// What is stored of it. The kinds differ, so that no cookie is a token.
    pub(crate) fn hash(&self, kind: Kind) -> Hash {
        let mut hash = Sha256::new();
        hash.update(kind.name());
        hash.update(&self.0);
        Hash(hash.finalize().into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What a secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Token,
    Session,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Token => PREFIX,
            Self::Session => "session ",
        }
    }
}

/// What is stored of a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hash([u8; 32]);

impl Hash {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it equals what was stored, compared in a time that does not depend on where they differ.
    pub(crate) fn is(&self, stored: &[u8]) -> bool {
        if stored.len() != self.0.len() {
            return false;
        }
        let differences = self.0.iter().zip(stored);
        black_box(differences.fold(0, |all, (one, other)| black_box(all | (one ^ other)))) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_are_never_printed() {
        let (one, other) = (Secret::random(), Secret::random());
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(one.reveal().len(), PREFIX.len() + CHARACTERS);
        assert_eq!(format!("{one:?}"), "Secret(…)");
    }

    #[test]
    fn a_token_is_read_back_and_nothing_else_is_taken_for_one() {
        let secret = Secret::random();
        let read = Secret::of_token(&secret.reveal()).unwrap();
        assert!(read.hash(Kind::Token) == secret.hash(Kind::Token));
        for wrong in ["", "anb_", "anb_x", secret.cookie(), &format!("{} ", secret.reveal())] {
            assert!(Secret::of_token(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_cookie_is_no_token() {
        let secret = Secret::random();
        assert!(secret.hash(Kind::Token) != secret.hash(Kind::Session));
    }

    #[test]
    fn hashes_are_the_same_only_if_all_of_them_is() {
        let hash = Secret::random().hash(Kind::Token);
        assert!(hash.is(hash.bytes()));
        for place in 0..32 {
            let mut other = hash.bytes().to_vec();
            other[place] ^= 1;
            assert!(!hash.is(&other), "the byte {place}");
        }
        assert!(!hash.is(&hash.bytes()[..31]) && !hash.is(&[]));
    }
}
