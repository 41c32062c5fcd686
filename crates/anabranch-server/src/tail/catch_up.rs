//! A page of the log for one tail that is behind the ring.

use super::entry::written;
use super::hub::Hub;
use super::run::Run;
use crate::events::wanted::Wanted;
use anabranch::{Position, StoreError};

/// How much a page may send.
const SENDS: usize = 64 * 1024;
/// How many events it looks at: those that match the query and not the rest count too.
const LOOKS_AT: usize = 2_048;
/// How much text it looks at.
const LOOKS_AT_BYTES: usize = 4 << 20;

/// What was read.
pub(crate) struct Page {
    /// What is sent.
    pub(crate) text: Vec<u8>,
    /// How many events that are.
    pub(crate) events: usize,
    /// Up to this position everything has been sent.
    pub(crate) cursor: u64,
}

/// Why there is no page.
pub(crate) enum NoPage {
    Store(StoreError),
    Unwritable(String),
}

/// The next page after a position.
///
/// The top of the ring is read *before* the log. What the ring had seen was decided by then, so a read that comes to its end
/// has seen all of it, too: its tail is then where the ring was, or beyond, and goes on there without a gap.
pub(crate) async fn page(
    hub: &Hub,
    run: &Run,
    wanted: &Wanted,
    masked: bool,
    cursor: u64,
) -> Result<Page, NoPage> {
    // Never closed.
    let _turn = hub.turns.acquire().await;
    run.counts.read_page();
    let top = run.top();
    let read = hub.log().read(wanted.query.clone()).after(Position::new(cursor));
    let mut events = read.limit(LOOKS_AT).events();
    let mut page = Page { text: Vec::new(), events: 0, cursor };
    let (mut looked_at, mut bytes) = (0, 0);
    while let Some(event) = events.next().await {
        let event = event.map_err(NoPage::Store)?;
        if wanted.passes_beside_query(&event) {
            match written(&event, masked) {
                Ok(text) => page.text.extend(text),
                // First what stands before it.
                Err(_) if page.events > 0 => return Ok(page),
                Err(why) => return Err(NoPage::Unwritable(why)),
            }
            page.events += 1;
        }
        page.cursor = event.position().get();
        looked_at += 1;
        bytes += event.text_bytes();
        if looked_at == LOOKS_AT || bytes >= LOOKS_AT_BYTES || page.text.len() >= SENDS {
            return Ok(page);
        }
    }
    page.cursor = page.cursor.max(top);
    Ok(page)
}
