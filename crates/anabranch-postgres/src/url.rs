//! What a URL says, and what of it may be shown. It holds a password, so it is looked at before the driver
//! is: an `@` in a password that is not encoded would put the rest of it into the name of a host, a
//! database or an option, and from there into messages.

use crate::encryption::Said;
use anabranch_core::{InputError, InputProblem};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

const ENCODED: &str = "write these characters of the password (and of the user) percent-encoded: \
    @ as %40, / as %2F, : as %3A, ? as %3F, # as %23, % as %25";
const OPTIONS: &str = "there are user, password, dbname, options, \
    application_name, sslmode, sslrootcert, sslnegotiation, host, hostaddr, port, connect_timeout, \
    tcp_user_timeout, keepalives, keepalives_idle, keepalives_interval, keepalives_retries, \
    target_session_attrs, channel_binding and load_balance_hosts; & in a password is %26";

const CLIENT: &str = "is not read: certificates of clients are not supported";

/// Reads a URL: what the driver is told, and what is said of encryption. Its errors repeat nothing of it.
pub(crate) fn parse(url: &str) -> Result<(Config, Said), InputError> {
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
    let (said, others) = Said::take_out_of(url).map_err(refuse)?;
    let config = others.parse().map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error);
        let cause = cause.map_or_else(|| error.to_string(), ToString::to_string);
        match cause.strip_prefix("unknown option `").and_then(|name| name.strip_suffix('`')) {
            Some(name) => refuse(&unknown(name, url)),
            None => refuse(&cause),
        }
    })?;
    Ok((config, said))
}

/// What is said of an option that is not read. The name of one may be what follows an & of the password, where
/// that is an option too.
fn unknown(name: &str, url: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let options = url.split_once('?').map_or("", |(_, options)| options);
    match name {
        "sslcert" | "sslkey" => format!("`{name}` {CLIENT}"),
        name if is_plain && !options.contains("password") => {
            format!("has the option `{name}`, which is not read; {OPTIONS}")
        }
        _ => format!("has an option that is not read; {OPTIONS}"),
    }
}

fn refuse(problem: &str) -> InputError {
    let problem = format!("{problem}; write it as postgres://user:password@host:5432/database");
    InputError::new("PostgreSQL URL", InputProblem::BadUrl(problem))
}

/// `postgres://user@host:port/database`.
pub(crate) fn describe(config: &Config) -> String {
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let hosts = hosts(config);
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{user}{hosts}/{database}")
}

/// `host:port`, of all of them.
pub(crate) fn hosts(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(number, host)| {
        let port = ports.get(number).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(host) if host.contains(':') => format!("[{host}]:{port}"),
            Host::Tcp(host) => format!("{host}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    hosts.collect::<Vec<_>>().join(",")
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
                    Ok((config, said)) => {
                        assert_hidden(&format!("{said:?}"), &password, &url);
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
    fn an_option_that_is_not_read_is_named_with_what_to_do() {
        for (option, said) in [
            ("sslmode=allow", "sslmode is disable, prefer (encrypted if"),
            ("sslmode=verify-ca", "without sslrootcert=FILE"),
            ("sslmode=require&sslkey=a", "`sslkey` is not read: certificates of clients"),
            ("schema=public", "`schema`, which is not read; there are user, password"),
            ("sslmode=disable&pgbouncer=true", "`pgbouncer`, which is not read"),
            ("connect_timeout=soon", "invalid value for option `connect_timeout`"),
            ("target_session_attrs=primary", "invalid value for option `target_session_attrs`"),
        ] {
            let url = format!("postgres://app:pass@db/shop?{option}");
            let error = parse(&url).unwrap_err().to_string();
            assert!(error.contains(said), "{url}: {error}");
        }
        // What may be a part of a password is not repeated.
        for option in ["password=a&schema=public", "schema", "Sch%C3%A4ma=1", "a b=1"] {
            let error = parse(&format!("postgres://app@db/shop?{option}")).unwrap_err().to_string();
            assert!(!error.contains("schema") && !error.contains("ma="), "{error}");
        }
    }

    #[test]
    fn addresses_of_version_6_stand_in_brackets() {
        let (config, _) = parse("postgres://app:x@[::1]:36003,db,127.0.0.1:7/shop").unwrap();
        assert_eq!(describe(&config), "postgres://app@[::1]:36003,db:5432,127.0.0.1:7/shop");
    }

    #[test]
    fn a_password_that_is_written_so_arrives_as_it_is() {
        for password in passwords() {
            let encoded: String = password.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let (config, _) = parse(&format!("postgres://app:{encoded}@db:6543/shop")).unwrap();
            assert_eq!(config.get_password(), Some(password.as_bytes()));
            assert_eq!(describe(&config), "postgres://app@db:6543/shop");
        }
        for plain in ["a:b", "a#b", "a&b=c", "100%", "a,b;c d!"] {
            let (config, _) = parse(&format!("postgres://app:{plain}@db/shop")).unwrap();
            assert_eq!(config.get_password(), Some(plain.as_bytes()));
        }
    }
}
