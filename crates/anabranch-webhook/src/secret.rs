//! Secrets, and the signatures that are made with them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use thiserror::Error;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// How many bytes it has.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The secrets of an endpoint. While one is replaced by another there are two: each message is signed with both, so the
/// receiver may know either.
///
/// ```
/// use anabranch_webhook::Secrets;
/// let secrets = Secrets::of(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])?;
/// let signature = secrets.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, br#"{"test": 2432232314}"#);
/// assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
/// # Ok::<(), anabranch_webhook::SecretError>(())
/// ```
#[derive(Clone)]
pub struct Secrets {
    keys: Vec<Hmac<Sha256>>,
}

/// Why something is no secret. It does not say what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the secret is not `whsec_` and base64 of 24 to 64 bytes; make one, for example: \
     echo whsec_$(head -c 32 /dev/urandom | base64)"
)]
pub struct SecretError;

impl Secrets {
    /// Reads secrets: `whsec_` and base64 of 24 to 64 bytes each.
    pub fn of<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Result<Self, SecretError> {
        let key = |text: S| -> Result<Hmac<Sha256>, SecretError> {
            let base64 = text.as_ref().trim().strip_prefix(PREFIX).ok_or(SecretError)?;
            let bytes = STANDARD.decode(base64).map_err(|_| SecretError)?;
            if !BYTES.contains(&bytes.len()) {
                return Err(SecretError);
            }
            Hmac::new_from_slice(&bytes).map_err(|_| SecretError)
        };
        Ok(Self { keys: texts.into_iter().map(key).collect::<Result<_, _>>()? })
    }

    /// The value of the header `webhook-signature`: one signature for each secret.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let signature = |key: &Hmac<Sha256>| {
            let mut mac = key.clone();
            mac.update(format!("{id}.{timestamp}.").as_bytes());
            mac.update(body);
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        };
        self.keys.iter().map(signature).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.keys.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const TWO: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    #[test]
    fn what_is_no_secret_is_refused_without_being_told() {
        for wrong in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_?"]
        {
            let error = Secrets::of([wrong]).unwrap_err().to_string();
            assert!(!error.contains("c2hvcnQ"), "{error}");
        }
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        assert_eq!(Secrets::of([long]).unwrap_err(), SecretError);
        assert_eq!(format!("{:?}", Secrets::of([ONE, TWO]).unwrap()), "Secrets(2)");
    }

    /// By the implementation that the specification comes with.
    #[test]
    fn signatures_are_verified_by_others() {
        let now = jiff::Timestamp::now().as_second();
        let (id, body) = ("msg_1", br#"{"type":"OrderPlaced","data":{"total":40}}"#);
        let signature = Secrets::of([ONE, TWO]).unwrap().sign(id, now, body);
        let headers = |signature: &str, id: &str| {
            let mut headers = hyper::HeaderMap::new();
            headers.insert("webhook-id", id.parse().unwrap());
            headers.insert("webhook-timestamp", now.to_string().parse().unwrap());
            headers.insert("webhook-signature", signature.parse().unwrap());
            headers
        };
        for secret in [ONE, TWO] {
            let theirs = standardwebhooks::Webhook::new(secret).unwrap();
            theirs.verify(body, &headers(&signature, id)).unwrap();
            theirs.verify(b"{}", &headers(&signature, id)).unwrap_err();
            theirs.verify(body, &headers(&signature, "msg_2")).unwrap_err();
            assert!(signature.contains(&theirs.sign(id, now, body).unwrap()));
        }
        let other = Secrets::of([TWO]).unwrap().sign(id, now, body);
        let theirs = standardwebhooks::Webhook::new(ONE).unwrap();
        theirs.verify(body, &headers(&other, id)).unwrap_err();
    }
}
