//! What a URL says of encryption, and what holds for each host: whether its connections are encrypted, and what of the
//! server's certificate is verified. Pure; the certificates themselves are looked at in `tls`.

use std::path::PathBuf;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

const MODES: &str = "sslmode is disable, prefer (encrypted if the server can, whatever its certificate), verify-ca \
    (encrypted, and the certificate is of the authority that sslrootcert names), verify-full (that it is for the \
    host as well) or require (the same as verify-full); without it, verify-full holds for hosts that are not local, \
    and prefer for those that are";
const UNSPECIFIC: &str = "says sslmode=verify-ca without sslrootcert=FILE: authorities of the system sign for anybody, \
    so name the file of your own, or write sslmode=verify-full";
const NO_FILE: &str =
    "has an empty sslrootcert; it is the file with the authority's certificate (PEM), or system";
const OF_NO_USE: &str = "has sslrootcert, and a sslmode with which no certificate is verified; write \
    sslmode=verify-full (or verify-ca, or require), or leave sslrootcert out";

/// What a URL says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    asked: Option<Asked>,
    /// Whose certificates are trusted, if that is said.
    pub(crate) authority: Option<Authority>,
}

/// A `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// Whose certificates are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Authority {
    /// Those that the machine trusts.
    System,
    /// Those in a file.
    File(PathBuf),
}

/// Where a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Behind a socket of this machine, which has no encryption.
    Socket,
    /// At an address that leads to this machine.
    Local,
    /// Anywhere else, so that others may listen, or answer in its place.
    Remote,
}

/// How a host is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    /// Encrypted if the server can, with whatever certificate it has.
    Prefer,
    /// Encrypted, by a server whose certificate is trusted, and is for the `name` of the host.
    Verify {
        name: bool,
    },
}

impl Said {
    /// Takes what a URL says out of it, since the driver knows less. Errors are what is wrong with the URL, and
    /// repeat nothing of it.
    pub(crate) fn take_out_of(url: &str) -> Result<(Self, String), &'static str> {
        let mut said = Self::default();
        let Some((before, mut rest)) = url.split_once('?') else {
            return Ok((said, url.to_owned()));
        };
        let mut others = Vec::new();
        // As the driver reads them: a name goes up to the next =, whatever stands in it.
        while let Some((name, after)) = rest.split_once('=') {
            let (value, next) = after.split_once('&').unwrap_or((after, ""));
            match (decode(name).as_deref(), decode(value)) {
                (Some("sslmode"), Some(value)) => said.asked = Some(Asked::read(&value)?),
                (Some("sslrootcert"), Some(value)) => {
                    said.authority = Some(Authority::read(value)?);
                }
                _ => others.push(&rest[..name.len() + 1 + value.len()]),
            }
            rest = next;
        }
        if !rest.is_empty() {
            others.push(rest);
        }
        said.check()?;
        let sign = if others.is_empty() { "" } else { "?" };
        Ok((said, format!("{before}{sign}{}", others.join("&"))))
    }

    fn check(&self) -> Result<(), &'static str> {
        match (self.asked, &self.authority) {
            (Some(Asked::Disable | Asked::Prefer), Some(_)) => Err(OF_NO_USE),
            (Some(Asked::VerifyCa), None | Some(Authority::System)) => Err(UNSPECIFIC),
            _ => Ok(()),
        }
    }

    /// How a host is connected to.
    pub(crate) fn mode_for(&self, place: Place) -> Mode {
        let full = Mode::Verify { name: true };
        match (place, self.asked) {
            // PostgreSQL encrypts no sockets, and its own programs do not read `sslmode` for them either.
            (Place::Socket, _) | (_, Some(Asked::Disable)) => Mode::Plain,
            (_, Some(Asked::Prefer)) => Mode::Prefer,
            (_, Some(Asked::VerifyCa)) => Mode::Verify { name: false },
            (_, Some(Asked::Require | Asked::VerifyFull)) => full,
            // Whoever names an authority wants it to be looked at.
            (Place::Local, None) if self.authority.is_none() => Mode::Prefer,
            (Place::Local | Place::Remote, None) => full,
        }
    }

    /// Why a host is verified, for messages.
    pub(crate) fn reason(&self) -> String {
        match (self.asked, &self.authority) {
            (Some(asked), _) => format!("the URL says sslmode={}", asked.text()),
            (None, Some(_)) => {
                "the URL has sslrootcert, which means sslmode=verify-full".to_owned()
            }
            (None, None) => {
                "a host that is not local must prove who it is: without sslmode in the URL that is \
                             sslmode=verify-full"
                    .to_owned()
            }
        }
    }
}

impl Asked {
    fn read(value: &str) -> Result<Self, &'static str> {
        let all = [Self::Disable, Self::Prefer, Self::Require, Self::VerifyCa, Self::VerifyFull];
        all.into_iter().find(|asked| asked.text() == value).ok_or(MODES)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}

impl Authority {
    fn read(value: String) -> Result<Self, &'static str> {
        match value.as_str() {
            "" => Err(NO_FILE),
            "system" => Ok(Self::System),
            _ => Ok(Self::File(value.into())),
        }
    }
}

impl Place {
    /// Where the only host of a configuration is. Its address counts before its name, since that is where the
    /// connection goes.
    pub(crate) fn of(config: &Config) -> Self {
        let is_local = match (config.get_hostaddrs().first(), config.get_hosts().first()) {
            (Some(address), _) => address.to_canonical().is_loopback(),
            #[cfg(unix)]
            (None, Some(Host::Unix(_))) => return Self::Socket,
            (None, Some(Host::Tcp(name))) => is_this_machine(name),
            (None, None) => false,
        };
        if is_local { Self::Local } else { Self::Remote }
    }
}

fn is_this_machine(name: &str) -> bool {
    match name.parse::<std::net::IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

impl Mode {
    /// What of it the driver knows. It has no fall-back from `Require`.
    pub(crate) fn for_driver(self) -> SslMode {
        match self {
            Self::Plain => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Verify { .. } => SslMode::Require,
        }
    }
}

/// Percent-encoding as the driver reads it: what is no code stands for itself. None if it is no text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digit = |place: usize| char::from(*after.get(place)?).to_digit(16);
        if let (b'%', Some(high), Some(low)) = (first, digit(0), digit(1)) {
            bytes.push((high * 16 + low) as u8);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Plain, Prefer, Verify};

    const FULL: Mode = Verify { name: true };

    fn mode(host: &str, options: &str) -> Mode {
        let (said, rest) = Said::take_out_of(&format!("postgres://{host}/shop{options}")).unwrap();
        said.mode_for(Place::of(&rest.parse().unwrap()))
    }

    #[test]
    fn a_host_that_is_not_local_is_verified_unless_the_url_says_otherwise() {
        for local in
            ["localhost", "LocalHost", "127.0.0.1", "127.9.8.7", "[::1]", "[::ffff:127.0.0.1]"]
        {
            assert_eq!(mode(local, ""), Prefer, "{local}");
        }
        for remote in [
            "db",
            "10.0.0.7",
            "0.0.0.0",
            "128.0.0.1",
            "[::]",
            "[::2]",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "127.1",
            "mylocalhost",
            "[::ffff:10.0.0.1]",
        ] {
            assert_eq!(mode(remote, ""), FULL, "{remote}");
        }
        for socket in ["%2Frun%2Fpostgresql", "%2F"] {
            assert_eq!(mode(socket, ""), Plain, "{socket}");
            assert_eq!(mode(socket, "?sslmode=verify-full"), Plain, "{socket}");
        }
    }

    #[test]
    fn where_the_connection_goes_counts_not_the_name() {
        assert_eq!(mode("localhost", "?hostaddr=10.0.0.7"), FULL);
        assert_eq!(mode("db", "?hostaddr=127.0.0.1"), Prefer);
        assert_eq!(mode("", "?hostaddr=10.0.0.7"), FULL);
        assert_eq!(mode("", "?hostaddr=%3A%3A1"), Prefer);
    }

    #[test]
    fn a_mode_that_is_said_is_obeyed_wherever_the_host_is() {
        for host in ["localhost", "db"] {
            for (options, expected) in [
                ("?sslmode=disable", Plain),
                ("?sslmode=prefer", Prefer),
                ("?sslmode=require", FULL),
                ("?sslmode=verify-full", FULL),
                ("?sslmode=require&sslrootcert=ca.pem", FULL),
                ("?sslmode=verify-ca&sslrootcert=ca.pem", Verify { name: false }),
                ("?sslrootcert=ca.pem&sslmode=verify-full", FULL),
                ("?sslrootcert=system", FULL),
                ("?sslrootcert=ca.pem", FULL),
                ("?sslm%6Fde=disa%62le", Plain),
                ("?sslmode=prefer&sslmode=disable", Plain),
            ] {
                assert_eq!(mode(host, options), expected, "{host}{options}");
            }
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (options, said) in [
            ("sslmode=allow", "sslmode is disable, prefer"),
            ("sslmode=", "sslmode is disable, prefer"),
            ("sslmode=verify-ca", "without sslrootcert=FILE"),
            ("sslmode=verify-ca&sslrootcert=system", "without sslrootcert=FILE"),
            ("sslrootcert=", "has an empty sslrootcert"),
            ("sslrootcert=a&sslmode=disable", "no certificate is verified"),
            ("sslmode=prefer&sslrootcert=a", "no certificate is verified"),
        ] {
            let error = Said::take_out_of(&format!("postgres://db/shop?{options}")).unwrap_err();
            assert!(error.contains(said), "{options}: {error}");
        }
    }

    #[test]
    fn the_other_options_stay_as_they_are() {
        for (from, to) in [
            ("postgres://a:b@db/x", "postgres://a:b@db/x"),
            ("postgres://db/x?sslmode=disable", "postgres://db/x"),
            ("postgres://db/x?port=1&sslmode=disable&a=%62", "postgres://db/x?port=1&a=%62"),
            // The driver reads one option with the name `odd&sslmode`, and refuses it.
            ("postgres://db/x?odd&sslmode=disable", "postgres://db/x?odd&sslmode=disable"),
            ("postgres://db/x?a=b&", "postgres://db/x?a=b"),
            ("postgres://db/x?a=b&odd", "postgres://db/x?a=b&odd"),
            ("postgres://db/x?a=&b=c=d", "postgres://db/x?a=&b=c=d"),
        ] {
            assert_eq!(Said::take_out_of(from).unwrap().1, to);
        }
        let (said, _) =
            Said::take_out_of("postgres://db/x?sslrootcert=%2Fetc%2Fa b%zz.pem").unwrap();
        assert_eq!(said.authority, Some(Authority::File("/etc/a b%zz.pem".into())));
    }
}
