//! What is said of a server that is not trusted: what is wrong with it, why that matters, and what to do.

use crate::encryption::{Authority, Said};
use rustls::CertificateError::{
    Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
    NotValidYetContext, UnknownIssuer,
};
use rustls::{CertificateError, Error};
use std::error::Error as Cause;

/// What the driver says of a server that answers the question for encryption with no. It has no code for it; a test
/// with such a server tells if its text changes.
const NO_TLS: &str = "server does not support TLS";

/// Why a session with a host was not opened, if that is because the host is not trusted.
pub(crate) fn why_not_trusted(
    error: &tokio_postgres::Error,
    said: &Said,
    host: &str,
) -> Option<String> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.to_string() == NO_TLS {
            return Some(no_tls(said, host));
        }
        // What it stands in hands on the causes of what it holds, and not that itself.
        let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let found = held.and_then(|held| held.downcast_ref()).or_else(|| error.downcast_ref());
        if let Some(Error::InvalidCertificate(problem)) = found {
            return Some(of_certificate(problem, said, host));
        }
        cause = error.source();
    }
    None
}

fn no_tls(said: &Said, host: &str) -> String {
    let reason = said.reason();
    format!(
        "{host} has no TLS, and {reason}; switch it on at the server (ssl = on), or write sslmode=disable if nobody \
         can listen or answer on the way there"
    )
}

fn of_certificate(problem: &CertificateError, said: &Said, host: &str) -> String {
    let (what, remedy) = match problem {
        UnknownIssuer => (
            format!("is of no authority that {} trusted", trusted(said)),
            "name the file of its authority by sslrootcert=FILE, or that of the certificate itself if it is \
             self-signed",
        ),
        NotValidForNameContext { presented, .. } => (is_for(presented), OTHER_NAME),
        NotValidForName => ("is not for this host".to_owned(), OTHER_NAME),
        Expired | ExpiredContext { .. } => ("has expired".to_owned(), "renew it at the server"),
        NotValidYet | NotValidYetContext { .. } => (
            "is not valid yet".to_owned(),
            "compare the clock of this machine with that of who made it",
        ),
        other => (format!("does not verify ({other})"), "give the server another one"),
    };
    let reason = said.reason();
    format!("the certificate of {host} {what}, and {reason}; {remedy}")
}

const OTHER_NAME: &str = "write a host that it is for (hostaddr=ADDRESS says where that is), or sslmode=verify-ca with \
    sslrootcert=FILE, which does not compare the host";

fn trusted(said: &Said) -> String {
    match &said.authority {
        Some(Authority::File(file)) => {
            format!("the file {} names, and no other is", file.display())
        }
        Some(Authority::System) | None => "this machine knows, and no other is".to_owned(),
    }
}

/// Whom a certificate is for. The names stand in what kind of name they are: `DnsName("db")`.
fn is_for(presented: &[String]) -> String {
    let plain = |name: &String| {
        let inner = name.split_once('(').map_or(name.as_str(), |(_, inner)| inner);
        inner.trim_end_matches(')').trim_matches('"').to_owned()
    };
    match presented {
        [] => "names no host (subjectAltName; a common name is not read)".to_owned(),
        names => {
            let names: Vec<_> = names.iter().map(plain).collect();
            format!("is for {}, not for this host", names.join(", "))
        }
    }
}
