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
    /// The log that the cursors belong to, and the generation of the consumer in which they were claimed.
    belongs_to: Option<(Uuid, i64)>,
    /// An event that was seen at the end of the log.
    event: Option<Anchor>,
}

impl Witness {
    pub(super) fn new(tables: &Tables) -> Self {
        Self { tables: tables.clone(), belongs_to: None, event: None }
    }

    /// Cursors were claimed: somebody may have said meanwhile where the consumer goes on.
    pub(super) fn ask_again(&mut self) {
        self.belongs_to = None;
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
        // Not beyond the last event that is there: in a gap behind it new events could come to be after a wind-back, and
        // the anchor would not tell.
        if let Some(last) = last.filter(ahead) {
            page.cursor = last.position.get();
        }
        Ok(Checked { page, anchor: last })
    }

    /// Looks at the log, and refuses it if it is not the one that was read before.
    async fn look(&mut self, anchors: &[Anchor], up_to: Position) -> Result<Seen, StoreError> {
        let (log, generation) = match self.witness.belongs_to {
            Some(belongs_to) => belongs_to,
            None => {
                let belonging = self.witness.tables.belonging(&self.consumer.name).await?;
                *self.witness.belongs_to.insert((belonging.log, belonging.generation))
            }
        };
        let seen = self.log.store().look(Look { anchors: anchors.to_vec(), up_to }).await?;
        let Err(wound) = seen.is_log(log).and_then(|()| seen.compare(anchors)) else {
            return Ok(seen);
        };
        self.keep(log, generation).await;
        Err(standing::wound_back(&self.log, &self.witness.tables, &self.consumer.name, &wound))
    }

    /// Writes down that the log was wound back, if lanes have been given something that is not there any more: they
    /// may have passed it by now. Where only events were lost that nobody has read, nothing has to be decided.
    async fn keep(&self, log: Uuid, generation: i64) {
        let (tables, name) = (&self.witness.tables, &self.consumer.name);
        let anchors: Vec<Anchor> = self.units.iter().filter_map(|unit| unit.anchor).collect();
        match self.log.store().look(Look { anchors: anchors.clone(), ..Look::default() }).await {
            Ok(seen) => {
                if let Err(wound) = seen.is_log(log).and_then(|()| seen.compare(&anchors)) {
                    standing::keep(tables, name, generation, &wound).await;
                }
            }
            Err(error) => standing::not_kept(tables, name, &error),
        }
    }
}
