//! Reading from a log that is on another server than the cursors: with each page it is made sure that the log was not
//! wound back.
//!
//! Several statements are not one moment. So an event at the end of the log is the witness: it was there before the
//! page was read, the page ends with it at the latest, and it is there afterwards. Then nothing up to it has
//! changed meanwhile, and the page, the anchors before it and the one at its end are of one log.

use super::Feed;
use crate::standing;
use crate::tables::Tables;
use anabranch_core::cursor::Anchor;
use anabranch_core::{Position, StoreError};
use anabranch_store::{Look, Page, PageEnd, ReadRequest, Seen};
use uuid::Uuid;

/// A page, and the last event of the log up to its end, if the log is elsewhere.
pub(super) struct Checked {
    pub(super) page: Page,
    pub(super) anchor: Option<Anchor>,
}

impl From<Page> for Checked {
    fn from(page: Page) -> Self {
        Self { page, anchor: None }
    }
}

/// What a feed knows of a log that is elsewhere.
pub(super) struct Witness {
    tables: Tables,
    /// The log that the cursors belong to.
    log: Option<Uuid>,
    /// An event that was seen at the end of the log.
    event: Option<Anchor>,
}

impl Witness {
    pub(super) fn new(tables: &Tables) -> Self {
        Self { tables: tables.clone(), log: None, event: None }
    }
}

impl Feed {
    /// Reads a page for these units, and makes sure of it.
    pub(super) async fn read_checked(
        &mut self,
        group: &[usize],
        request: ReadRequest,
    ) -> Result<Checked, StoreError> {
        let at = Position::new(request.cursor);
        let mut anchors: Vec<Anchor> =
            group.iter().filter_map(|number| self.units[*number].anchor).collect();
        anchors.sort_unstable();
        anchors.dedup();
        let ahead = |event: &Anchor| event.position > at;
        let witness = match self.witness.event.filter(ahead) {
            Some(witness) => witness,
            None => match self.look(&anchors, at).await?.head.filter(ahead) {
                Some(witness) => witness,
                None => {
                    let nothing = Page { events: Vec::new(), cursor: at.get(), end: PageEnd::Last };
                    return Ok(nothing.into());
                }
            },
        };
        let request = ReadRequest { up_to: request.up_to.min(witness.position), ..request };
        let mut page = self.log.store().read(request).await?;
        anchors.push(witness);
        // Whatever comes of it, the next page has another one.
        self.witness.event = None;
        let Seen { last, head, .. } = self.look(&anchors, Position::new(page.cursor)).await?;
        self.witness.event = head;
        let is_end = head.is_none_or(|head| head.position.get() <= page.cursor);
        if is_end && page.end == PageEnd::More {
            page.end = PageEnd::Last;
        }
        Ok(Checked { page, anchor: last })
    }

    /// Looks at the log, and refuses it if it is not the one that was read before.
    async fn look(&mut self, anchors: &[Anchor], up_to: Position) -> Result<Seen, StoreError> {
        let log = match self.witness.log {
            Some(log) => log,
            None => {
                let belonging = self.witness.tables.belonging(&self.consumer.name).await?;
                *self.witness.log.insert(belonging.log)
            }
        };
        let seen = self.log.store().look(Look { anchors: anchors.to_vec(), up_to }).await?;
        let compared = seen.is_log(log).and_then(|()| seen.compare(anchors));
        compared.map_err(|wound| standing::wound_back(&self.log, &wound))?;
        Ok(seen)
    }
}
