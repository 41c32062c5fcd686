//! Refuses requests that come from another web site through the browser of an authorised user.

use crate::problem::Problem;
use crate::state::Settings;
use anabranch::errors::ErrorCode;
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use std::net::{IpAddr, Ipv6Addr};

/// Refuses host names that are not ours. A page can be loaded by a name that is then made to lead here (DNS rebinding), and
/// would be of our own origin. This cannot happen with an IP address.
pub(super) fn check_host(parts: &Parts, settings: &Settings) -> Result<(), Problem> {
    let Some(host) = host(parts) else {
        return Err(Problem::new(ErrorCode::WrongHost, "the request names no host, or several"));
    };
    let name = name_of(host);
    if is_address(name) || name.eq_ignore_ascii_case("localhost") {
        return Ok(());
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    if settings.hosts.contains(&name) {
        return Ok(());
    }
    let name: String = name.chars().take(100).collect();
    let said = format!(
        "the server does not answer for the host `{}`; use its address, or start it with that name: --host",
        name.escape_debug()
    );
    Err(Problem::new(ErrorCode::WrongHost, said))
}

/// Refuses what a browser says comes from another site. Clients that are not browsers send neither header.
pub(super) fn check_origin(parts: &Parts) -> Result<(), Problem> {
    let said = |name: &str| {
        let mut all = parts.headers.get_all(name).iter();
        let first = all.next()?.to_str().unwrap_or("not text");
        // No browser sends two, and others may read the other one.
        Some(if all.next().is_none() { first } else { "said twice" })
    };
    let refuse = |from: &str| {
        let from: String = from.chars().take(100).collect();
        let said = format!("a request from another site ({}) is refused", from.escape_debug());
        Err(Problem::new(ErrorCode::CrossSite, said))
    };
    // A link may lead here: the other site cannot read what it shows, and no cookie is sent with it.
    let is_link = parts.method == Method::GET && said("sec-fetch-mode") == Some("navigate");
    match said("sec-fetch-site") {
        None | Some("same-origin" | "none") => {}
        Some(_) if is_link => return Ok(()),
        Some(site) => return refuse(site),
    }
    let Some(origin) = said(ORIGIN.as_str()) else { return Ok(()) };
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    let is_ours = |authority: &str| host(parts).is_some_and(|host| is_same(host, authority));
    match authority {
        Some(authority) if is_ours(authority) => Ok(()),
        _ => refuse(origin),
    }
}

/// The host that a request is for; none if it names two.
fn host(parts: &Parts) -> Option<&str> {
    // A request line with a whole address counts for more than the header (RFC 9112).
    if let Some(authority) = parts.uri.authority() {
        return Some(authority.as_str());
    }
    one(&parts.headers)
}

fn one(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(HOST).iter();
    match (all.next(), all.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    }
}

/// A proxy that ends TLS may add or drop the usual port.
fn is_same(host: &str, authority: &str) -> bool {
    let usual = |of: &str| -> String {
        let of = of.strip_suffix(":443").or_else(|| of.strip_suffix(":80")).unwrap_or(of);
        of.to_ascii_lowercase()
    };
    usual(host) == usual(authority)
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map_or(host, |(address, _)| address);
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok() || name.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let request =
            headers.iter().fold(Request::get("/v1/consumers"), |request, (name, value)| {
                request.header(*name, *value)
            });
        request.body(()).unwrap().into_parts().0
    }

    fn settings() -> Settings {
        Settings { hosts: ["events.example".to_owned()].into(), ..Settings::default() }
    }

    #[test]
    fn addresses_localhost_and_named_hosts_are_answered_and_no_others() {
        let takes = |host: &str| check_host(&parts(&[("host", host)]), &settings()).is_ok();
        for host in [
            "127.0.0.1",
            "127.0.0.1:7070",
            "[::1]:7070",
            "10.1.2.3:80",
            "localhost",
            "LocalHost:7070",
            "events.example",
            "Events.Example:443",
            "events.example.",
        ] {
            assert!(takes(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:7070",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "events.example.evil",
            "xevents.example",
            "[::1",
            "1",
        ] {
            assert!(!takes(host), "{host}");
        }
        assert!(check_host(&parts(&[]), &settings()).is_err(), "no host");
        let two = parts(&[("host", "localhost"), ("host", "evil.example")]);
        assert!(check_host(&two, &settings()).is_err(), "two hosts");
    }

    #[test]
    fn other_sites_are_refused() {
        let takes = |headers: &[(&str, &str)]| check_origin(&parts(headers)).is_ok();
        let host = ("host", "127.0.0.1:7070");
        assert!(takes(&[host]), "no browser");
        assert!(takes(&[host, ("origin", "http://127.0.0.1:7070")]));
        assert!(takes(&[("host", "e.example"), ("origin", "https://e.example:443")]));
        assert!(takes(&[host, ("sec-fetch-site", "same-origin")]));
        assert!(takes(&[host, ("sec-fetch-site", "none")]));
        assert!(takes(&[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]));
        for other in
            ["https://evil.example", "null", "http://127.0.0.1:8080", "127.0.0.1:7070", "é"]
        {
            assert!(!takes(&[host, ("origin", other)]), "{other}");
        }
        for site in ["cross-site", "same-site", "nonsense"] {
            assert!(!takes(&[host, ("sec-fetch-site", site)]), "{site}");
        }
        // One of two could be read here, and the other one elsewhere.
        let ours = ("origin", "http://127.0.0.1:7070");
        for (name, first, second) in [
            ("origin", "http://127.0.0.1:7070", "https://evil.example"),
            ("origin", "http://127.0.0.1:7070", "http://127.0.0.1:7070"),
            ("sec-fetch-site", "same-origin", "cross-site"),
            ("sec-fetch-mode", "navigate", "cors"),
        ] {
            let cross =
                ("sec-fetch-site", if name == "sec-fetch-mode" { "cross-site" } else { "none" });
            let (cross, origin) = match name {
                "origin" => (vec![], vec![]),
                "sec-fetch-site" => (vec![], vec![ours]),
                _ => (vec![cross], vec![]),
            };
            let two = [vec![host, (name, first), (name, second)], cross, origin].concat();
            assert!(!takes(&two), "{two:?}");
        }
    }
}
