//! The cookie of a browser that is logged in.

use crate::access::SESSION;
use crate::secret::Secret;
use crate::state::Settings;
use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};

const NAME: &str = "anabranch_session";

/// What the cookie of a request holds, if it has one that can be a session.
pub(crate) fn of(headers: &HeaderMap) -> Option<Secret> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';'));
    let mut ours =
        pairs.filter_map(|pair| pair.trim().split_once('=')).filter(|(name, _)| *name == NAME);
    ours.find_map(|(_, value)| Secret::of_cookie(value))
}

/// The header that sets it.
pub(crate) fn set(secret: &Secret, settings: &Settings, is_encrypted: bool) -> Option<HeaderValue> {
    header(secret.cookie(), SESSION.as_secs(), settings, is_encrypted)
}

/// The header that takes it away.
pub(crate) fn clear(settings: &Settings, is_encrypted: bool) -> Option<HeaderValue> {
    header("", 0, settings, is_encrypted)
}

/// No script reads it, no other site makes a browser send it, and where the connection is encrypted it goes over no
/// other.
fn header(value: &str, age: u64, settings: &Settings, is_encrypted: bool) -> Option<HeaderValue> {
    let secure = if settings.is_encrypted || is_encrypted { "; Secure" } else { "" };
    let path = &settings.mount;
    let text =
        format!("{NAME}={value}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    let mut header = HeaderValue::from_str(&text).ok()?;
    header.set_sensitive(true);
    Some(header)
}
