//! What a URL says, and what of it may be shown. It holds a password, so it is looked at before the driver
//! is: an `@` in a password that is not encoded would put the rest of it into the name of a host, a
//! database or an option, and from there into messages.

use anabranch_core::{InputError, InputProblem};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

const ENCODED: &str = "write these characters of the password (and of the user) percent-encoded: \
    @ as %40, / as %2F, : as %3A, ? as %3F, # as %23, % as %25";
const OPTIONS: &str = "has an option that we do not know; there are user, password, dbname, options, \
    application_name, sslmode, sslnegotiation, host, hostaddr, port, connect_timeout, \
    tcp_user_timeout, keepalives, keepalives_idle, keepalives_interval, keepalives_retries, \
    target_session_attrs, channel_binding and load_balance_hosts; & in a password is %26";

/// Reads a URL. Its errors repeat nothing of it.
pub(crate) fn parse(url: &str) -> Result<Config, InputError> {
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
    let Some(rest) = rest else {
        return Err(refuse("does not begin with postgres://"));
    };
    if rest.matches('@').count() > 1 {
        return Err(refuse(&format!("holds more than one @; {ENCODED}")));
    }
    // A password with a / looks just like an @ behind the host.
    if let Some((before, _)) = rest.split_once('@')
        && before.contains(['/', '?'])
    {
        return Err(refuse(&format!("holds a / or ? before its @; {ENCODED}")));
    }
    // Then the password is part of the user, whom the server names in its messages.
    let user = rest.split_once('@').and_then(|(before, _)| before.split(':').next());
    if user.is_some_and(|user| user.to_lowercase().contains("%3a")) {
        return Err(refuse(
            "has an encoded : in its user; the one before the password is a plain :",
        ));
    }
    url.parse().map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error);
        let cause = cause.map_or_else(|| error.to_string(), ToString::to_string);
        // The driver repeats the option's name, which is what follows a & of the password.
        refuse(if cause.starts_with("unknown option") { OPTIONS } else { &cause })
    })
}

fn refuse(problem: &str) -> InputError {
    let problem = format!("{problem}; write it as postgres://user:password@host:5432/database");
    InputError { subject: "PostgreSQL URL".to_owned(), problem: InputProblem::BadUrl(problem) }
}

/// `postgres://user@host:port/database`.
pub(crate) fn describe(config: &Config) -> String {
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(number, host)| {
        let port = ports.get(number).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(host) => format!("{host}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{user}{hosts}/{database}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each with what a password may hold, between parts that would be recognised.
    fn passwords() -> Vec<String> {
        let odd = [
            "@",
            "@@",
            "/",
            "//",
            ":",
            "::",
            "#",
            "?",
            "%",
            "%%",
            "%4",
            "%zz",
            "%40",
            "&",
            "=",
            "?x=",
            "&password=",
            "@/",
            "/@",
            "@:",
            ":@",
            "@?",
            "?@",
            "@#",
            "#@",
            "@&",
            "@x:5432/",
            "@[",
            "]",
            ",",
            "@,",
            ";",
            " ",
            "'",
            "\"",
            "\\",
            "+",
            "ß",
            "%ff",
            "@%ff",
            "://",
            "@%2F",
            "\n",
            "@=",
            "!",
        ];
        let mut all = Vec::new();
        for odd in odd {
            all.push(format!("Kolibri{odd}Zwergmaus"));
            all.push(format!("{odd}Kolibri{odd}{odd}Zwergmaus{odd}"));
        }
        all
    }

    fn assert_hidden(text: &str, password: &str, url: &str) {
        let lower = text.to_lowercase();
        for part in ["kolibri", "zwergmaus"] {
            for start in 0..=part.len() - 4 {
                let fragment = &part[start..start + 4];
                assert!(!lower.contains(fragment), "{password}: {url}: {text}");
            }
        }
    }

    #[test]
    fn nothing_of_a_password_is_ever_shown() {
        for password in passwords() {
            for url in [
                format!("postgres://app:{password}@db.test:5432/shop"),
                format!("postgresql://app:{password}@db.test"),
                format!("postgres://app:{password}@one.test:1,two.test:2/shop?sslmode=disable"),
                format!("postgres://app:{password}@db.test/shop?connect_timeout=x"),
                format!("postgres://app:{password}@db.test/shop?no_such_option=1"),
                format!("postgres://app:{password}@db.test:x/shop"),
                format!("postgres://app@db.test/shop?password={password}"),
                format!("postgres://db.test/shop?user=app&password={password}"),
                format!("postgres:/app:{password}@db.test/shop?sslmode=disable"),
                format!("postgres:app:{password}@db.test/shop?a=b"),
                format!("postgres://app%3A{password}@db.test/shop"),
            ] {
                match parse(&url) {
                    Ok(config) => {
                        assert_hidden(&describe(&config), &password, &url);
                        assert_hidden(&format!("{config:?}"), &password, &url);
                    }
                    Err(error) => {
                        assert_hidden(&format!("{error} {error:?}"), &password, &url);
                        assert!(error.to_string().contains("write it as postgres://"), "{error}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_refused_says_what_to_write() {
        for (password, problem) in [
            ("p@ss", "more than one @"),
            ("p@ss/word", "more than one @"),
            ("p@ss?a=b", "more than one @"),
            ("pa/ss", "a / or ? before its @"),
            ("pa?ss", "a / or ? before its @"),
        ] {
            let url = format!("postgres://app:{password}@db/shop");
            let error = parse(&url).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
            assert!(error.contains("@ as %40, / as %2F, : as %3A, ? as %3F"), "{error}");
        }
    }

    #[test]
    fn a_password_that_is_written_so_arrives_as_it_is() {
        for password in passwords() {
            let encoded: String = password.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let config = parse(&format!("postgres://app:{encoded}@db:6543/shop")).unwrap();
            assert_eq!(config.get_password(), Some(password.as_bytes()));
            assert_eq!(describe(&config), "postgres://app@db:6543/shop");
        }
        for plain in ["a:b", "a#b", "a&b=c", "100%", "a,b;c d!"] {
            let config = parse(&format!("postgres://app:{plain}@db/shop")).unwrap();
            assert_eq!(config.get_password(), Some(plain.as_bytes()));
        }
    }
}
