//! Which backend a URL names.

#[cfg(not(all(feature = "sqlite", feature = "postgres")))]
use anabranch_core::StoreError;
use anabranch_core::{InputError, InputProblem};

/// A backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Sqlite,
    Postgres,
}

/// The error of a backend that this program was built without.
#[cfg(not(all(feature = "sqlite", feature = "postgres")))]
pub(crate) fn not_built(feature: &str) -> StoreError {
    let problem = format!(
        "this program was built without the feature `{feature}` of anabranch; add it to Cargo.toml, or use \
         another database"
    );
    let subject = format!("URL `{feature}:…`");
    InputError::new(subject, InputProblem::BadUrl(problem)).into()
}

/// A backend, and what it has to open. Names the scheme in its errors and nothing else of the URL, which may hold a password.
pub(crate) fn parse(url: &str) -> Result<(Backend, &str), InputError> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    let bad = |problem: &str| {
        // Without the slashes it may be anything, such as a user or a password.
        let subject = match url.split_once("://") {
            Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                format!("URL `{scheme}:…`")
            }
            _ => "URL".to_owned(),
        };
        Err(InputError::new(subject, InputProblem::BadUrl(problem.to_owned())))
    };
    match scheme {
        Some("sqlite") => {
            let path = &url["sqlite:".len()..];
            // `sqlite://orders.db` is common elsewhere, and means the same.
            Ok((Backend::Sqlite, path.strip_prefix("//").unwrap_or(path)))
        }
        Some("postgres" | "postgresql") => Ok((Backend::Postgres, url)),
        _ => bad("names no database that we know; write sqlite:orders.db, sqlite::memory: or \
             postgres://user:password@host:5432/database"),
    }
}

#[cfg(test)]
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
            assert_eq!(parse(url).unwrap(), (Backend::Sqlite, path), "{url}");
        }
        assert_eq!(parse("postgresql://x/y").unwrap(), (Backend::Postgres, "postgresql://x/y"));
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
