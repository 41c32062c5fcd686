//! The console for browsers: files that the program holds, at `/` and below `/console/`. They hold no data, so nobody needs
//! a token for them; all that they show comes from the API.
//!
//! | module | subject |
//! |---|---|
//! | `files` | the list of the files |

mod files;

use crate::problem::Problem;
use crate::routes::{Needs, Route};
use crate::state::Shared;
use anabranch::errors::ErrorCode;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use files::FILES;
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// The page; the other files are its parts.
const INDEX: &str = "index.html";
/// Where the page says where it is mounted.
const MOUNT: &str = "{mount}";
/// Only what comes from here is run, shown or asked, and nobody frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/", Needs::Nothing, page).page(),
        Route::get("/console/{*file}", Needs::Nothing, file).page(),
    ]
}

/// The files as they are served.
pub(crate) struct Console {
    page: File,
    parts: HashMap<&'static str, File>,
}

/// A file, with what is said of it.
struct File {
    text: Bytes,
    kind: HeaderValue,
    /// What it is known by: another text has another one.
    tag: HeaderValue,
}

impl Console {
    /// Of a router that is mounted there.
    pub(crate) fn new(mount: &str) -> Self {
        let mut page = File::new(INDEX, Bytes::new());
        let mut parts = HashMap::new();
        for (name, text) in FILES {
            match *name {
                INDEX => {
                    let text = String::from_utf8_lossy(text);
                    let text = text.replace(MOUNT, &escaped(prefix(mount)));
                    page = File::new(INDEX, text.into());
                }
                name => {
                    parts.insert(name, File::new(name, Bytes::from_static(text)));
                }
            }
        }
        Self { page, parts }
    }
}

impl File {
    fn new(name: &str, text: Bytes) -> Self {
        let hash = Sha256::digest(&text);
        let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let tag = HeaderValue::from_str(&format!("\"{hash}\""));
        // Digits in quotes are a header.
        let tag = tag.unwrap_or(HeaderValue::from_static("\"\""));
        Self { kind: HeaderValue::from_static(kind(name)), text, tag }
    }

    /// The file, or that it is what the browser has already.
    fn answer(&self, asked: &HeaderMap) -> Response {
        let headers: [(HeaderName, HeaderValue); 4] = [
            (CONTENT_TYPE, self.kind.clone()),
            (ETAG, self.tag.clone()),
            // Kept, and asked about each time: a new version of the program is seen at once.
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        ];
        match is_known(&self.tag, asked) {
            true => (StatusCode::NOT_MODIFIED, headers).into_response(),
            false => (headers, self.text.clone()).into_response(),
        }
    }
}

async fn page(State(state): State<Shared>, headers: HeaderMap) -> Result<Response, Problem> {
    Ok(console(&state)?.page.answer(&headers))
}

async fn file(
    State(state): State<Shared>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    match console(&state)?.parts.get(name.as_str()) {
        Some(file) => Ok(file.answer(&headers)),
        None => Err(Problem::new(ErrorCode::NoSuchRoute, "the console has no such file")),
    }
}

fn console(state: &Shared) -> Result<&Console, Problem> {
    let none = || Problem::new(ErrorCode::NoSuchRoute, "there is no console here");
    state.console.as_ref().ok_or_else(none)
}

/// What stands before the paths of the API: nothing at the root.
pub(crate) fn prefix(mount: &str) -> &str {
    mount.trim_end_matches('/')
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// The type of a file, by the end of its name.
fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, end)| end) {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}

/// Whether a browser has the file with this tag. A proxy that compresses makes weak tags of strong ones.
fn is_known(tag: &HeaderValue, asked: &HeaderMap) -> bool {
    let given = asked.get_all(IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    let mut given = given.flat_map(|tags| tags.split(','));
    given.any(|one| {
        let one = one.trim();
        one == "*" || one.strip_prefix("W/").unwrap_or(one).as_bytes() == tag.as_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(mount: &str) -> String {
        String::from_utf8(Console::new(mount).page.text.to_vec()).unwrap()
    }

    #[test]
    fn the_page_says_where_it_is_mounted() {
        assert!(page("/").contains("src=\"/console/app.js\""));
        for mount in ["/deep/events", "/deep/events/"] {
            assert!(page(mount).contains("src=\"/deep/events/console/app.js\""), "{mount}");
            assert!(page(mount).contains("name=\"anabranch-mount\" content=\"/deep/events\""));
        }
        let strange = page("/a\"><script>'&");
        assert!(strange.contains("content=\"/a&quot;&gt;&lt;script&gt;&#39;&amp;\""), "{strange}");
        assert!(!strange.contains(MOUNT) && !strange.contains("<script>"));
    }

    #[test]
    fn other_texts_have_other_tags() {
        let tag = |mount| Console::new(mount).page.tag;
        assert_eq!(tag("/"), tag("/"));
        assert_ne!(tag("/"), tag("/events"));
    }

    #[test]
    fn a_browser_is_told_that_it_has_a_file_only_if_it_has() {
        let tag = HeaderValue::from_static("\"ab\"");
        let knows = |given: &'static str| {
            let headers = [(IF_NONE_MATCH, HeaderValue::from_static(given))];
            is_known(&tag, &headers.into_iter().collect())
        };
        for given in ["\"ab\"", "W/\"ab\"", "\"x\", \"ab\"", "*"] {
            assert!(knows(given), "{given}");
        }
        for given in ["", "ab", "\"a\"", "\"abc\""] {
            assert!(!knows(given), "{given}");
        }
    }

    #[test]
    fn files_have_their_types() {
        for (name, text) in FILES {
            assert_ne!(kind(name), "text/plain; charset=utf-8", "{name}");
            assert!(!text.is_empty(), "{name}");
        }
        assert_eq!(kind("pages/a.js"), "text/javascript; charset=utf-8");
    }
}
