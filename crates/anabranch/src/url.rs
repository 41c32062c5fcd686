//! Which backend a URL names.

use anabranch_core::{InputError, InputProblem};

/// A backend, and what it has to open.
pub(crate) enum Backend<'a> {
    #[cfg(feature = "sqlite")]
    Sqlite(&'a str),
    #[cfg(feature = "postgres")]
    Postgres(&'a str),
}

/// Names the scheme in its errors and nothing else of the URL, which may hold a password.
pub(crate) fn parse(url: &str) -> Result<Backend<'_>, InputError> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    let bad = |problem: &str| {
        // Without the slashes it may be anything, such as a user or a password.
        let subject = match url.split_once("://") {
            Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                format!("URL `{scheme}:…`")
            }
            _ => "URL".to_owned(),
        };
        Err(InputError { subject, problem: InputProblem::BadUrl(problem.to_owned()) })
    };
    match scheme {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => {
            let path = &url["sqlite:".len()..];
            // `sqlite://orders.db` is common elsewhere, and means the same.
            Ok(Backend::Sqlite(path.strip_prefix("//").unwrap_or(path)))
        }
        #[cfg(not(feature = "sqlite"))]
        Some("sqlite") => bad("this program was built without the feature `sqlite`"),
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(Backend::Postgres(url)),
        #[cfg(not(feature = "postgres"))]
        Some("postgres" | "postgresql") => {
            bad("this program was built without the feature `postgres`")
        }
        _ => bad("names no database that we know; write sqlite:orders.db, sqlite::memory: or \
             postgres://user:password@host:5432/database"),
    }
}

#[cfg(all(test, feature = "sqlite", feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_backend() {
        for (url, path) in [
            ("sqlite:orders.db", "orders.db"),
            ("sqlite://orders.db", "orders.db"),
            ("sqlite:///var/orders.db", "/var/orders.db"),
            ("sqlite::memory:", ":memory:"),
        ] {
            assert!(matches!(parse(url), Ok(Backend::Sqlite(found)) if found == path), "{url}");
        }
        assert!(matches!(parse("postgresql://x/y"), Ok(Backend::Postgres("postgresql://x/y"))));
        for bad in [
            "",
            "orders.db",
            "mysql://root:secret@x/y",
            "Sqlite:x",
            "secret:x@host/y",
            "se/cret://x",
            " postgres://app:secret@x/y",
        ] {
            let Err(error) = parse(bad) else { panic!("{bad}") };
            assert!(error.to_string().contains("write sqlite:orders.db"), "{error}");
            assert!(!error.to_string().contains("cret"), "{error}");
        }
    }
}
