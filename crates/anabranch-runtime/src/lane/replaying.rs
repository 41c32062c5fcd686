//! A key whose events are handled again: they are collected, what was made of them is undone, and the key is tried.
//!
//! From the first step on the later events of the key wait behind it. What lies behind the cursor is read page by page,
//! a page between two batches, so the other keys go on. What is found is stored apart; only the last step, one
//! transaction, undoes what was made of the key, puts all of it behind the key, and says that it is done. Whoever takes
//! over before that begins anew, and finds nothing changed.

use super::Lane;
use super::aside::Parked;
use super::transact::Outcome;
use super::words::Wish;
use crate::handler::{HandlerError, HandlerResult, RepeatedKey};
use crate::run_error::RunError;
use crate::tables::parked::Attempt;
use crate::tx::Tx;
use anabranch_core::{Cursor, Event, Happening, Notice, Position, SlotSet};
use anabranch_store::database::{End, Statement};
use anabranch_store::{Page, PageEnd, ReadRequest, Scope, SlotFilter};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many positions are looked at between two batches of other keys: tens of milliseconds.
const LOOK: u64 = 50_000;
/// How long it waits for appends in flight that hold up a page.
const PENDING: Duration = Duration::from_millis(50);

/// Why an audited consumer does not handle a key again.
pub(crate) const AUDITED: &str = "its record says that each event is handled once, and would not fit any more; prove it, \
                                  end the audit (`anabranch audit NAME --stop --yes`), repeat this, and begin the audit anew";
/// Why a handler that is no longer the one that was asked does not.
const NO_RESET: &str = "this program cannot undo what it made of one key (`Projection::reset_key`)";

/// The events of a key, as they are collected.
#[derive(Clone, Debug)]
pub(super) struct KeyReplay {
    wish: Wish,
    /// In which life of the lane that began, and how often it had let go of slots then.
    tenure: u64,
    sheds: u64,
    /// How far it has looked.
    looked: u64,
    /// Where the cursor stood when later events began to wait.
    up_to: Position,
    /// When it looks further.
    next: Instant,
}

impl Lane {
    /// A key is to be handled again: from here on its later events wait. One key at a time, since each costs reading.
    /// The next heartbeat tells of the others again.
    pub(super) async fn begin_replay(&mut self, wish: Wish) -> Result<(), RunError> {
        if self.replay.is_some() {
            return Ok(());
        }
        let (tables, name) = (self.setup.tables.clone(), self.setup.consumer.name.clone());
        let Some(holder) = self.parts.holder(wish.slot).cloned() else { return Ok(()) };
        if let Some(problem) = self.cannot_repeat(&holder) {
            return self.give_up(&wish, problem).await;
        }
        // A commit whose answer was lost may have passed events of the key that this lane thinks are to come.
        let statements = vec![
            tables.is_asked(&name, &wish.key, wish.asked),
            tables.clear_replayed(&name, &wish.key),
            tables.stands(&holder),
        ];
        match tables.database.control().run(statements, End::Commit).await {
            Ok(_) => {}
            // It is done already, or withdrawn.
            Err(failed) if failed.is_unmatched() && failed.statement == Some(0) => {
                self.is_not_asked(&wish.key);
                return Ok(());
            }
            Err(failed) if failed.is_unmatched() => {
                self.lost();
                return Ok(());
            }
            Err(failed) => return self.wait_out(tables.error(failed)).await,
        }
        self.parking
            .put(&wish.key, Parked { comes_again: true, due: None, ..Parked::afresh(wish.slot) });
        let (tenure, sheds, next) = (self.parts.tenure(), self.sheds, Instant::now());
        let up_to = holder.position;
        self.replay = Some(KeyReplay { wish, tenure, sheds, looked: 0, up_to, next });
        Ok(())
    }

    /// When it looks for more events of the key that is being collected.
    pub(super) fn collects_next(&self) -> Option<Instant> {
        self.replay.as_ref().map(|replay| replay.next)
    }

    /// Collects a page of the key that is to be handled again; undoes what was made of it once all is there.
    pub(super) async fn collect(&mut self) -> Result<(), RunError> {
        let Some(mut replay) = self.replay.take_if(|replay| replay.next <= Instant::now()) else {
            return Ok(());
        };
        if replay.tenure != self.parts.tenure() || replay.sheds != self.sheds {
            // Its slot was let go, perhaps, and is back: the next heartbeat tells of it.
            return Ok(());
        }
        let Some(holder) = self.parts.holder(replay.wish.slot).cloned() else { return Ok(()) };
        if replay.looked >= replay.up_to.get() {
            let wish = replay.wish.clone();
            // Until it is done, it is to be done.
            self.replay = Some(replay);
            return self.handle_again(&wish, &holder).await;
        }
        let log = self.setup.log.clone();
        let read = match log.store().read(self.look_for(&replay)).await {
            Ok(page) => self.must_stand(&log).await.map(|()| page),
            Err(error) => Err(error),
        };
        match read {
            Ok(page) => {
                if self.keep_page(&replay, &holder, &page).await? {
                    replay.has_read(&page);
                    self.replay = Some(replay);
                }
                Ok(())
            }
            Err(error) => {
                self.replay = Some(replay);
                self.wait_out(error).await
            }
        }
    }

    /// The next page of events that may be of the key.
    fn look_for(&self, replay: &KeyReplay) -> ReadRequest {
        let (consumer, rule) = (&self.setup.consumer, self.rule);
        let mut filter = consumer.settings.scope.filter(consumer.partition.category());
        filter.slots = consumer.partition.server_slot(rule).map(|column| {
            let slots = Arc::new(SlotSet::from_slot(replay.wish.slot));
            SlotFilter { column, slots }
        });
        ReadRequest {
            scope: Scope::Log(consumer.settings.scope.query().clone()),
            filter,
            cursor: replay.looked,
            up_to: replay.up_to_now(),
            backwards: false,
            max_events: Page::MAX_EVENTS,
        }
    }

    /// Stores what a page has of the key. Says whether it goes on.
    async fn keep_page(
        &mut self,
        replay: &KeyReplay,
        holder: &Cursor,
        page: &Page,
    ) -> Result<bool, RunError> {
        let Wish { key, slot, .. } = &replay.wish;
        let is_its = |event: &&Event| {
            let (its_key, its_slot) = self.key_of(event);
            its_key == *key && its_slot == *slot
        };
        let found = page.events.iter().filter(is_its);
        let found: Vec<_> =
            found.map(|event| (event.position(), self.handler.row_of(event))).collect();
        if found.is_empty() {
            return Ok(true);
        }
        let (tables, name) = (self.setup.tables.clone(), &self.setup.consumer.name);
        let keep = tables.keep_replayed(name, key, found);
        let statements = vec![keep, tables.hold(holder.id, holder.epoch)];
        match tables.database.control().run(statements, End::Commit).await {
            Ok(_) => Ok(true),
            Err(failed) if failed.is_unmatched() => {
                self.lost();
                Ok(false)
            }
            Err(failed) => {
                // It is read again.
                self.replay = Some(replay.clone());
                self.wait_out(tables.error(failed)).await.map(|()| false)
            }
        }
    }

    /// Undoes what was made of the events that were collected, and puts them behind their key, which is tried then.
    pub(super) async fn handle_again(
        &mut self,
        wish: &Wish,
        holder: &Cursor,
    ) -> Result<(), RunError> {
        if let Some(problem) = self.cannot_repeat(holder) {
            return self.give_up(wish, problem).await;
        }
        let Wish { key, slot, .. } = wish;
        let (tables, name) = (self.setup.tables.clone(), self.setup.consumer.name.clone());
        let mut tx = self.begin();
        let undone = AssertUnwindSafe(self.undo(wish, &mut tx)).catch_unwind().await;
        let undone = undone.unwrap_or_else(|_| Err(HandlerError::new("the hook panicked")));
        let outcome = match (tx.failure(), undone) {
            (Some(failure), _) => self.failed(failure),
            (None, Err(error)) => Outcome::Failed { event: None, error },
            (None, Ok(false)) => {
                // What is asked instead, if something is, comes with the next heartbeat.
                self.is_not_asked(key);
                return Ok(());
            }
            (None, Ok(true)) => {
                let mut fence =
                    vec![tables.answered(&name, wish), tables.hold(holder.id, holder.epoch)];
                fence.extend(tables.put_behind(&name, key, holder));
                fence.extend(self.tried_now(wish));
                self.finish(tx, fence, &[]).await
            }
        };
        match outcome {
            Outcome::Committed { .. } => {
                self.is_not_asked(key);
                self.setup.events.emit(Happening::key_replay_began(key.clone()));
                self.parking.put(key, Parked::afresh(*slot));
                // At its turn: it may have many events.
                Ok(())
            }
            Outcome::Fenced => {
                self.lost();
                Ok(())
            }
            Outcome::Away(error) => self.wait_out(error).await,
            Outcome::Broken(error) => Err(error.into()),
            Outcome::Failed { error, .. } => {
                self.give_up(wish, &format!("undoing it failed: {error}")).await
            }
        }
    }

    /// Undoes what was made of a key, if that still is to be done.
    async fn undo(&mut self, wish: &Wish, tx: &mut Tx) -> HandlerResult<bool> {
        let tables = self.setup.tables.clone();
        let Wish { key, slot, asked, .. } = wish;
        let consumer = self.setup.consumer.name.clone();
        let rows = tx.query_own(tables.select_asked(&consumer, key)).await?;
        let now: Option<String> = rows.first().map(|row| row.get("asked")).transpose()?.flatten();
        if now.as_deref() != Some(asked.name()) {
            return Ok(false);
        }
        let (key, slot, events) = (key.clone(), *slot, tables.replayed_events.clone());
        let repeated = RepeatedKey { consumer, key, slot, events };
        self.handler.reset_key(&repeated, tx).await.map(|()| true)
    }

    /// Nobody asks for a key to be handled again: if it waited for that, it is tried.
    fn is_not_asked(&mut self, key: &str) {
        self.replay = self.replay.take().filter(|replay| !replay.is_of(key));
        let aside = self.parking.keys.get(key).filter(|parked| parked.comes_again);
        if let Some(slot) = aside.map(|parked| parked.slot) {
            self.parking.put(key, Parked::afresh(slot));
        }
    }

    /// Why a key cannot be handled again here, if it cannot.
    fn cannot_repeat(&self, holder: &Cursor) -> Option<&'static str> {
        match holder.record {
            Some(_) => Some(AUDITED),
            None => (!self.setup.code.resets_keys()).then_some(NO_RESET),
        }
    }

    /// The statements after which a key is tried at once, as if it had never failed, or let go if nothing is behind it.
    fn tried_now(&self, wish: &Wish) -> [Statement; 2] {
        let (tables, name) = (&self.setup.tables, &self.setup.consumer.name);
        let (key, slot, error) = (&wish.key, wish.slot, "asked to handle it again");
        let retry_in = Some(Duration::ZERO);
        let attempt = Attempt { key, slot, attempts: 0, error, retry_in };
        [tables.park(name, &attempt), tables.unpark(name, key)]
    }

    /// It is not done, and not asked for any more: what waited meanwhile is tried. `status` says why.
    async fn give_up(&mut self, wish: &Wish, why: &str) -> Result<(), RunError> {
        let (tables, name) = (self.setup.tables.clone(), self.setup.consumer.name.clone());
        let Some(holder) = self.parts.holder(wish.slot).cloned() else { return Ok(()) };
        let Wish { key, slot, asked, .. } = wish;
        let problem = format!(
            "the key `{key}` is not handled again ({}): {}",
            asked.name(),
            why.replace("NAME", &name)
        );
        let mut statements = vec![
            tables.answered(&name, wish),
            tables.hold(holder.id, holder.epoch),
            tables.clear_replayed(&name, key),
            tables.note_problem(&name, &problem),
        ];
        statements.extend(self.tried_now(wish));
        match tables.database.control().run(statements, End::Commit).await {
            Ok(_) => {
                self.is_not_asked(key);
                self.notice(Notice::CannotReplay, &problem);
                self.parking.put(key, Parked::afresh(*slot));
                Ok(())
            }
            Err(failed) if failed.is_unmatched() && failed.statement == Some(0) => {
                self.is_not_asked(key);
                Ok(())
            }
            Err(failed) if failed.is_unmatched() => {
                self.lost();
                Ok(())
            }
            Err(failed) => self.wait_out(tables.error(failed)).await,
        }
    }
}

impl KeyReplay {
    /// Whether it is about this key.
    pub(super) fn is_of(&self, key: &str) -> bool {
        self.wish.key == key
    }

    /// How far one look goes.
    fn up_to_now(&self) -> Position {
        self.up_to.min(Position::new(self.looked.saturating_add(LOOK)))
    }

    /// It has looked as far as this page goes.
    fn has_read(&mut self, page: &Page) {
        self.next = Instant::now();
        match page.end {
            // The cursor was here, so all of it is decided: what is not there is gone.
            PageEnd::Last => self.looked = self.up_to_now().get(),
            PageEnd::Pending if page.cursor <= self.looked => self.next += PENDING,
            PageEnd::More | PageEnd::Pending => self.looked = page.cursor,
        }
    }
}
