//! The page of the events has all of them, and no others.

use anabranch::events::{Happening, Notice};
use std::collections::BTreeSet;

#[test]
fn the_page_has_every_event_and_every_notice() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events-of-the-engine.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (events, notices) = page.split_once("## Notices").unwrap();
    let named = |part: &str| -> BTreeSet<String> {
        let rows = part.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.filter_map(|row| row.split_once('`')).map(|(name, _)| name.to_owned()).collect()
    };
    let known: BTreeSet<String> = Happening::NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(named(events), known);
    let kind = |notice: &Notice| serde_json::to_value(notice).unwrap().as_str().unwrap().to_owned();
    assert_eq!(named(notices), Notice::ALL.iter().map(kind).collect());
    for notice in Notice::ALL {
        let (kind, text) = (kind(notice), notice.text());
        let row = format!("| `{kind}` | {:?} | {text} |", notice.severity()).to_lowercase();
        assert!(notices.to_lowercase().contains(&row), "{row}");
    }
}
