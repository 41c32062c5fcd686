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
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use files::FILES;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io::Write;
use std::sync::OnceLock;

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
    /// The text compressed, once somebody has asked for it; nothing if that is not smaller.
    zipped: OnceLock<Option<Bytes>>,
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
        Self { kind: HeaderValue::from_static(kind(name)), text, zipped: OnceLock::new(), tag }
    }

    fn zipped(&self) -> Option<Bytes> {
        self.zipped.get_or_init(|| zipped(&self.text)).clone()
    }

    /// The file, or that it is what the browser has already.
    fn answer(&self, asked: &HeaderMap) -> Response {
        let headers: [(HeaderName, HeaderValue); 5] = [
            (CONTENT_TYPE, self.kind.clone()),
            (ETAG, self.tag.clone()),
            (VARY, HeaderValue::from_static("accept-encoding")),
            // Kept, and asked about each time: a new version of the program is seen at once.
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        ];
        if is_known(&self.tag, asked) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let Some(zipped) = takes_gzip(asked).then(|| self.zipped()).flatten() else {
            return (headers, self.text.clone()).into_response();
        };
        let mut response = (headers, zipped).into_response();
        let (answer, zip) = (response.headers_mut(), HeaderValue::from_static("gzip"));
        answer.insert(CONTENT_ENCODING, zip);
        // Other bytes than the plain ones: the tag says that they mean the same.
        let tag = self.tag.to_str().map(|tag| format!("W/{tag}")).unwrap_or_default();
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            answer.insert(ETAG, tag);
        }
        response
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
fn prefix(mount: &str) -> &str {
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

/// Nothing if compressing does not make it smaller.
fn zipped(text: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // What is written to memory does not fail.
    let zipped = encoder.write_all(text).and_then(|()| encoder.finish()).ok()?;
    (zipped.len() < text.len()).then(|| zipped.into())
}

/// Whether an answer may be compressed by gzip: it is named, and not as what is not wanted.
fn takes_gzip(asked: &HeaderMap) -> bool {
    let given = asked.get_all(ACCEPT_ENCODING).iter().filter_map(|all| all.to_str().ok());
    let mut given = given.flat_map(|all| all.split(','));
    given.any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|q| q.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_none_or(|weight| weight > 0.0)
    })
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

    /// All files together, as browsers get them: the console is there within a second on a slow line, too.
    const MOST_BYTES: usize = 150_000;

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
    fn who_takes_gzip_gets_the_same_text_compressed() {
        use std::io::Read;
        let takes = |given: &'static str| {
            let headers = [(ACCEPT_ENCODING, HeaderValue::from_static(given))];
            headers.into_iter().collect::<HeaderMap>()
        };
        for given in ["gzip", "br, gzip;q=0.5", "deflate,GZIP"] {
            assert!(takes_gzip(&takes(given)), "{given}");
        }
        for given in ["", "br", "gzip;q=0", "identity;q=1, gzip;q=0.0"] {
            assert!(!takes_gzip(&takes(given)), "{given}");
        }
        let page = Console::new("/").page;
        let mut plain = String::new();
        flate2::read::GzDecoder::new(&*page.zipped().unwrap()).read_to_string(&mut plain).unwrap();
        assert_eq!(plain.as_bytes(), page.text);
        let (zipped, whole) = (page.answer(&takes("gzip")), page.answer(&takes("br")));
        assert_eq!(zipped.headers()[CONTENT_ENCODING], "gzip");
        assert!(!whole.headers().contains_key(CONTENT_ENCODING));
        assert_ne!(zipped.headers()[ETAG], whole.headers()[ETAG]);
        assert!(
            zipped.headers()[VARY] == "accept-encoding"
                && whole.headers()[VARY] == "accept-encoding"
        );
        assert_eq!(zipped_size("not compressible"), None);
    }

    fn zipped_size(text: &str) -> Option<usize> {
        zipped(text.as_bytes()).map(|zipped| zipped.len())
    }

    #[test]
    fn the_console_is_small() {
        let sent = |(name, text): &(&str, &[u8])| {
            zipped_size(str::from_utf8(text).expect(name)).unwrap_or(text.len())
        };
        let bytes: usize = FILES.iter().map(sent).sum();
        assert!(bytes <= MOST_BYTES, "the console has {bytes} bytes compressed");
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
