use super::*;
use crate::{AppendError, InputError, RunError, StoreError, StreamId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The codes of the page with their kinds, in its order.
fn entries() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(root().join("docs/errors.md")).unwrap();
    let entry = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split('|').map(str::trim).collect();
        let [code, kind, meaning, remedy, ""] = cells[..] else {
            panic!("a row with gaps: {line}")
        };
        assert!(
            meaning.len() > 10 && remedy.len() > 10,
            "say what it means and what to do: {line}"
        );
        Some((code.trim_end_matches('`').to_owned(), kind.to_owned()))
    };
    page.lines().filter_map(entry).collect()
}

#[test]
fn the_page_has_each_code_once_and_no_other() {
    let mut page = BTreeMap::new();
    for (code, kind) in entries() {
        assert_eq!(
            page.insert(code.clone(), kind),
            None,
            "`{code}` stands twice in docs/errors.md"
        );
    }
    let mut codes = BTreeMap::new();
    for code in ErrorCode::ALL {
        let twice = codes.insert(code.name().to_owned(), code.kind().name().to_owned());
        assert_eq!(twice, None, "two errors have the code `{code}`");
    }
    let missing: Vec<_> = codes.iter().filter(|(code, _)| !page.contains_key(*code)).collect();
    let unknown: Vec<_> = page.iter().filter(|(code, _)| !codes.contains_key(*code)).collect();
    assert!(missing.is_empty(), "without an entry in docs/errors.md: {missing:?}");
    assert!(unknown.is_empty(), "entries of docs/errors.md without a code: {unknown:?}");
    assert_eq!(page, codes, "the kinds of docs/errors.md");
}

#[test]
fn codes_are_plain_words_and_come_back_from_their_text() {
    for code in ErrorCode::ALL {
        let name = code.name();
        let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(is_plain && name.len() >= 5, "{name}");
        assert_eq!(name.parse(), Ok(*code));
        assert_eq!(serde_json::to_value(code).unwrap(), name);
    }
    let unknown = "nonsense".parse::<ErrorCode>().unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::UnknownName);
}

/// Everything that is written in the sources, but for the list of codes itself.
fn sources(directory: &Path, all: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.ends_with("errors/tests.rs") => {}
            _ if path.is_dir() => sources(&path, all),
            Some(end) if end == "rs" && !path.ends_with("core/src/code.rs") => {
                *all += &std::fs::read_to_string(&path).unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn no_code_is_without_an_error() {
    let mut all = String::new();
    let entries = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap());
    for folder in entries.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        sources(&folder.join("src"), &mut all);
    }
    for code in ErrorCode::ALL {
        // Followed by nothing that makes it a longer name.
        let name = format!("ErrorCode::{code:?}");
        let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric());
        let by_name = all.split(&name).skip(1).any(ends);
        // The command names them without their type, in its macros.
        let by_macro = all.contains(&format!("refuse!({code:?},"))
            || all.contains(&format!("                {code:?},\n                \""));
        assert!(by_name || by_macro, "nothing has the code `{code}`");
    }
}

/// What an error says, and what it comes from: nothing twice, and nothing left out.
#[test]
fn no_error_repeats_itself_in_its_source() {
    let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    let at = || "postgres://app@db:5432/shop".to_owned();
    let unreachable = || StoreError::Unreachable { at: at(), source: refused().into() };
    let input = || -> InputError { StreamId::new("", "x").unwrap_err() };
    let broken = RunError::Broken { consumer: "orders".to_owned(), error: unreachable() };
    let body = crate::log::DecodeError::Body {
        event_type: "Placed".to_owned(),
        position: crate::Position::new(7),
        source: serde_json::from_str::<u8>("x").unwrap_err(),
    };
    let errors: Vec<Box<dyn Error>> = vec![
        unreachable().into(),
        AppendError::Store(unreachable()).into(),
        AppendError::from(input()).into(),
        StoreError::from(input()).into(),
        RunError::Store(unreachable()).into(),
        broken.into(),
        body.into(),
        crate::operate::OperateError::Store(unreachable()).into(),
        crate::operate::ReplayError::from(unreachable()).into(),
        crate::operate::RebuildError::from(unreachable()).into(),
        crate::operate::ImportError::from(unreachable()).into(),
        crate::backend::database::Failed::store(unreachable()).into(),
    ];
    for error in errors {
        let said = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            assert!(!said.contains(&cause.to_string()), "{said} repeats {cause}");
            source = cause.source();
        }
        let is_whole = ["connection refused", "is empty", "expected value"];
        assert!(is_whole.iter().any(|word| said.contains(word)), "{said} leaves out its cause");
    }
}

#[test]
fn debug_shows_the_code_and_display_does_not() {
    let error = RunError::Store(StoreError::Closed);
    assert_eq!(error.to_string(), "the log is closed; connect again");
    assert_eq!(format!("{error:?}"), "the log is closed; connect again [log_closed]");
}

#[test]
fn the_code_is_found_behind_other_errors() {
    let closed = || AppendError::Store(StoreError::Closed);
    let boxed: Box<dyn Error + Send + Sync> = closed().into();
    assert_eq!(error_code(boxed.as_ref()), Some(ErrorCode::LogClosed));
    let told = anyhow::Error::new(closed()).context("the order");
    assert_eq!(error_code(told.as_ref()), Some(ErrorCode::LogClosed));
    let other = std::io::Error::other("no route");
    assert_eq!(error_code(&other), None);
}
