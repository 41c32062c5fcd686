//! Without the feature `tls`: connections are not encrypted. A URL that asks for it is refused, and so is a host that is
//! not local, unless the URL says that nothing is to be encrypted.

use crate::encryption::{Mode, Place, Said};
use tokio_postgres::NoTls;

/// What makes connections encrypted: nothing.
pub(crate) type Connector = NoTls;

/// What connects a host in this mode, if that can be meant.
pub(crate) fn connector(how: (Mode, Place), said: &Said, host: &str) -> Result<Connector, String> {
    let reason = match how {
        (Mode::Verify { .. }, _) => said.reason(),
        // It encrypts if the server can, and this program never could.
        (Mode::Prefer, Place::Remote) => format!("{host} is not local"),
        (Mode::Plain | Mode::Prefer, _) => return Ok(NoTls),
    };
    Err(format!(
        "this program was built without TLS, and {reason}; build it with the feature `tls` of anabranch, or write \
         sslmode=disable if nobody can listen or answer on the way to {host}"
    ))
}

/// Nothing is encrypted here, so nothing of it fails.
pub(crate) fn why_not_trusted(_: &tokio_postgres::Error, _: &Said, _: &str) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> Option<String> {
        let (said, rest) = Said::take_out_of(url).unwrap();
        let place = Place::of(&rest.parse().unwrap());
        connector((said.mode_for(place), place), &said, "db:5432").err()
    }

    #[test]
    fn what_cannot_be_encrypted_is_refused() {
        for url in [
            "postgres://localhost/x",
            "postgres://%2Frun/x?sslmode=require",
            "postgres://localhost/x?sslmode=prefer",
            "postgres://db/x?sslmode=disable",
        ] {
            assert_eq!(refusal(url), None, "{url}");
        }
        for url in [
            "postgres://db/x",
            "postgres://db/x?sslmode=prefer",
            "postgres://db/x?sslmode=require",
            "postgres://localhost/x?sslmode=verify-full",
            "postgres://localhost/x?sslrootcert=ca.pem",
        ] {
            let said = refusal(url).unwrap();
            assert!(said.contains("feature `tls`") && said.contains("sslmode=disable"), "{said}");
        }
    }
}
