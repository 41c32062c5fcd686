//! Keys that failed: set aside, tried again, let go.
//!
//! A failing event is set aside at once, with the later events of its key, and tried again from
//! there: so its backoff holds up no other key. While it has attempts left its key is *retrying*; when
//! they are used up it is *parked* and waits for somebody.

use super::aside::Parked;
use super::halt::Why;
use super::transact::{Extra, Outcome};
use super::{Batch, Lane};
use crate::handler::HandlerError;
use crate::run_error::RunError;
use crate::standing;
use crate::tables::audit::Entry;
use crate::tables::parked::Attempt;
use anabranch_core::audit::RecordKind;
use anabranch_core::cursor::Point;
use anabranch_core::{Again, Event, Failure, Happening, Position, Query, Retry, StoreError};
use anabranch_store::backoff::random;
use anabranch_store::{Filter, Log, Look, ReadRequest, Scope};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How many parked events are tried in one transaction.
const DRAIN: usize = 64;
/// How long keys that were set aside are tried before the others have their turn.
const TURN: Duration = Duration::from_millis(250);

/// The first events behind a key.
struct Behind {
    events: Vec<Event>,
    /// Where the next one should be, and is not any more.
    gone: Option<Position>,
}

/// An event that has failed.
struct Failed<'a> {
    key: &'a str,
    position: Position,
    /// Its type, stream and version, or nothing if only its place is known.
    subject: &'a str,
    attempts: u32,
    error: &'a str,
}

impl Lane {
    /// An event of the batch has failed: what stands before it is committed, and what becomes of it
    /// and its key is the policy's. Breaks if the batch is over for this lane.
    pub(super) async fn fail(
        &mut self,
        batch: &mut Batch,
        event: usize,
        error: HandlerError,
    ) -> Result<ControlFlow<()>, RunError> {
        let failed = batch.events[event].clone();
        let (key, slot) = self.key_of(&failed);
        if self.policy() == Failure::Stop {
            return self.try_or_stop(batch, event, error).await;
        }
        let retry = self.setup.consumer.retry;
        let again = error.again();
        let is_answer = error.is_answer();
        let is_try = self.trying && again != Again::Never && !is_answer;
        let retry = match is_try {
            // It is not what is to blame: it has all its attempts when that is cured.
            true => Retry { attempts: retry.attempts.max(2), ..retry },
            false => retry,
        };
        let retry_in = retry.after(1, again, random());
        let attempts = u32::from(!is_try);
        if event > 0 {
            // What stands before it in the batch has worked.
            let worked = batch.events[..event].iter().map(|event| self.key_of(event).0);
            self.setup.streak.works(worked);
        }
        // One that cannot run is not tried with this event either: it stays where it is.
        let why = Why::of(&error);
        if error.is_unable()
            || (!self.trying && self.setup.streak.fails(&key, retry_in.is_none(), &error))
        {
            self.has_failed(&failed, why);
            return Ok(ControlFlow::Break(()));
        }
        let may_try_another = self.may_try_another(&failed, &error);
        let error = error.to_string();
        let is_skipped = retry_in.is_none() && self.policy() == Failure::Skip;
        let (consumer, position) = (self.setup.consumer.name.clone(), failed.position());
        let name = name_of(&failed);
        let mut extra = Extra::default();
        if is_skipped {
            extra.skipped = Some((slot, position));
        } else {
            let tables = &self.setup.tables;
            let attempt = Attempt { key: &key, slot, attempts, error: &error, retry_in };
            extra.statements.push(tables.park(&consumer, &attempt));
            extra.statements.push(tables.park_events(&consumer, [(key.as_str(), position)]));
            extra.aside = Some((slot, position));
        }
        // The events before it, and its own place in the log.
        let up_to = self.point_of(&failed);
        if let Some(flow) = self.commit_before(batch, event, up_to, extra).await? {
            return Ok(flow);
        }
        batch.events.remove(0);
        let failed_at = Failed { key: &key, position, subject: &name, attempts, error: &error };
        self.say_failed(failed_at, retry_in, is_skipped);
        if !is_skipped {
            let clock = self.setup.tables.database.clock();
            let due = retry_in.map(|wait| Instant::now() + clock.wait(wait));
            self.parking.put(&key, Parked { attempts, due, ..Parked::afresh(slot) });
        }
        self.publish();
        if self.trying && is_answer {
            self.has_worked(&[]);
        }
        if self.trying && !may_try_another {
            // One event each time, even if it is to blame itself.
            self.has_failed(&failed, why);
            return Ok(ControlFlow::Break(()));
        }
        let done =
            batch.events.is_empty() && batch.aside.iter().all(|aside| aside.position <= position);
        Ok(if done && batch.up_to.position == position {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    /// Commits what stands before an event that has failed, up to a position, together with `extra`
    /// statements: that event is the first of the batch afterwards. Otherwise what becomes of the batch.
    pub(super) async fn commit_before(
        &mut self,
        batch: &mut Batch,
        event: usize,
        up_to: Point,
        extra: Extra,
    ) -> Result<Option<ControlFlow<()>>, RunError> {
        let mut events: Vec<Event> = batch.events.drain(..event).collect();
        if self.handler.is_external() {
            // They are delivered, and no rollback takes that back.
            self.has_handled(&events, (self.handling, Duration::ZERO));
            batch.delivered.append(&mut events);
        }
        let (delivered, aside) = (batch.delivered.clone(), batch.aside.clone());
        let (parts, tenure, sheds) = (batch.parts.clone(), batch.tenure, batch.sheds);
        // The rest of the batch comes after it, so nothing is let go yet.
        let is_last = false;
        let mut prefix = Batch { parts, tenure, events, delivered, aside, up_to, is_last, sheds };
        loop {
            match self.transact(&prefix, prefix.events.len(), extra.clone()).await {
                Outcome::Committed { events } if events == prefix.events.len() => {
                    batch.delivered.clear();
                    if events > 0 {
                        self.has_worked(&prefix.events);
                    }
                    return Ok(None);
                }
                Outcome::Committed { events } => drop(prefix.events.drain(..events)),
                Outcome::Fenced => {
                    self.lost();
                    return Ok(Some(ControlFlow::Break(())));
                }
                Outcome::Away(error) => {
                    self.wait_out(error).await?;
                    if self.is_over(batch) {
                        return Ok(Some(ControlFlow::Break(())));
                    }
                }
                Outcome::Broken(error) => return Err(error.into()),
                // What worked a moment ago fails: perhaps the wrong one was blamed. One at a time
                // there is no doubt.
                Outcome::Failed { .. } => {
                    self.singly = prefix.events.len() + 1;
                    batch.events.splice(0..0, prefix.events);
                    return Ok(Some(ControlFlow::Continue(())));
                }
            }
        }
    }

    pub(super) fn stopped(&self, event: &Event, error: String, remedy: &'static str) -> RunError {
        RunError::Stopped {
            consumer: self.setup.consumer.name.clone(),
            position: event.position(),
            event: name_of(event),
            error,
            remedy,
        }
    }

    /// Tries the keys whose time has come, for a while: then the others go on.
    pub(super) async fn retry_due(&mut self) -> Result<(), RunError> {
        let began = Instant::now();
        while let Some(key) = self.parking.due().filter(|_| began.elapsed() < TURN) {
            self.drain(&key).await?;
            if self.stopping || !self.setup.orders.is_empty() || self.must_shed() {
                break;
            }
        }
        self.publish();
        Ok(())
    }

    /// Handles the events behind a key in order, until they are done or the first fails again. If they are many, the rest
    /// is due after the others have had their turn.
    pub(super) async fn drain(&mut self, key: &str) -> Result<(), RunError> {
        let (tables, name) = (self.setup.tables.clone(), self.setup.consumer.name.clone());
        let began = Instant::now();
        if let Some(parked) = self.parking.keys.get(key).filter(|parked| !parked.goes_on) {
            let retried = Happening::event_retried(key.to_owned(), parked.attempts);
            self.setup.events.emit(retried);
        }
        let drain = if self.handler.is_external() { self.handler.together() } else { DRAIN };
        let mut at_most = if self.trying { 1 } else { drain };
        while let Some(parked) = self.parking.keys.get(key).copied() {
            if self.stopping || self.must_shed() {
                // The rest is done by whoever has the slot then, perhaps this lane.
                return Ok(());
            }
            let Some(holder) = self.parts.holder(parked.slot).cloned() else {
                self.parking.remove(key);
                return Ok(());
            };
            let events = match self.parked_events(key, at_most).await {
                Ok(Behind { events, gone: Some(gone) }) if events.is_empty() => {
                    let error = format!(
                        "the event at position {gone} is not in the log any more; leave it out \
                         (`anabranch parked skip`)"
                    );
                    return self
                        .failed_again(key, parked, (gone, ""), HandlerError::for_good(error))
                        .await;
                }
                Ok(Behind { events, .. }) => events,
                Err(error) => {
                    self.wait_out(error).await?;
                    continue;
                }
            };
            let hold = vec![tables.hold(holder.id, holder.epoch)];
            let prepared = self.prepare(&events, hold).await;
            let mut tx = self.begin();
            let called = match prepared {
                Ok(()) => self.call_handler(&events, &mut tx).await,
                Err(outcome) => Err(outcome),
            };
            let outcome = match called {
                Ok(handled) => {
                    let events = &events[..handled];
                    let mut fence = Vec::new();
                    if let Some(last) = events.last() {
                        let (last, count) = (last.position(), events.len());
                        fence.push(tables.unpark_events(&name, key, last, count));
                    }
                    fence.push(tables.unpark(&name, key));
                    match holder.record.is_some() && !events.is_empty() {
                        true => {
                            let entry = Entry::of(events, true);
                            fence.extend(tables.record_at(&holder, RecordKind::Retry, &entry));
                        }
                        false => fence.push(tables.hold(holder.id, holder.epoch)),
                    }
                    self.finish(tx, fence, events).await
                }
                Err(outcome) => {
                    // Rolled back before anything else is written: on SQLite that would wait for it.
                    drop(tx);
                    outcome
                }
            };
            match outcome {
                Outcome::Committed { events: 0 } => {
                    self.parking.remove(key);
                    self.setup.events.emit(Happening::event_unparked(key.to_owned()));
                }
                Outcome::Committed { events: handled } => {
                    self.has_worked(&events[..handled]);
                    at_most = drain;
                    self.parking.put(key, Parked { goes_on: true, ..Parked::afresh(parked.slot) });
                    if began.elapsed() > TURN {
                        return Ok(());
                    }
                }
                Outcome::Fenced => {
                    self.lost();
                    return Ok(());
                }
                Outcome::Away(error) => self.wait_out(error).await?,
                Outcome::Broken(error) => return Err(error.into()),
                // Those before the one that failed, or half of them, can still be done.
                Outcome::Failed { event: Some(event), .. } if event > 0 => at_most = event,
                Outcome::Failed { event: None, error }
                    if events.len() > 1 && !error.is_unable() =>
                {
                    at_most = events.len() / 2
                }
                Outcome::Failed { error, .. } => {
                    let (why, is_answer) = (Why::of(&error), error.is_answer());
                    if let Some(first) = events.first().cloned()
                        && self.blames_handler(key, parked.attempts + 1, &error)
                    {
                        if !self.may_try_another(&first, &error) {
                            self.has_failed(&first, why);
                        }
                        return Ok(());
                    }
                    let tenure = self.parts.tenure();
                    let first = events.first();
                    let position = first.map(Event::position).unwrap_or_default();
                    let name = first.map(name_of).unwrap_or_default();
                    self.failed_again(key, parked, (position, &name), error).await?;
                    if self.trying && is_answer {
                        self.has_worked(&[]);
                    }
                    if self.trying
                        && tenure == self.parts.tenure()
                        && let Some(failed) = events.first()
                    {
                        // One event each time, even if it is to blame itself.
                        self.has_failed(failed, why);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The first event behind a key has failed once more: the one at this position, with this name if it is known.
    async fn failed_again(
        &mut self,
        key: &str,
        parked: Parked,
        (first, name_of_first): (Position, &str),
        error: HandlerError,
    ) -> Result<(), RunError> {
        let (tables, name) = (self.setup.tables.clone(), self.setup.consumer.name.clone());
        let attempts = parked.attempts + 1;
        let retry_in = self.setup.consumer.retry.after(attempts, error.again(), random());
        let error = &error.to_string();
        let is_skipped = retry_in.is_none() && self.policy() == Failure::Skip;
        let Some(holder) = self.parts.holder(parked.slot) else {
            return Ok(());
        };
        let mut statements = match is_skipped {
            true => tables.record_skipped(holder, &[first]),
            false => vec![tables.hold(holder.id, holder.epoch)],
        };
        let slot = parked.slot;
        let failed = attempts;
        let (due, attempts) = if is_skipped {
            statements.push(tables.unpark_events(&name, key, first, 1));
            let now = Some(Duration::ZERO);
            let attempt = Attempt { key, slot, attempts: 0, error, retry_in: now };
            statements.push(tables.park(&name, &attempt));
            (now, 0)
        } else {
            statements.push(tables.park(&name, &Attempt { key, slot, attempts, error, retry_in }));
            (retry_in, attempts)
        };
        let tx = self.begin();
        match self.finish(tx, statements, &[]).await {
            Outcome::Fenced => self.lost(),
            Outcome::Away(error) => self.wait_out(error).await?,
            Outcome::Broken(error) => return Err(error.into()),
            Outcome::Committed { .. } | Outcome::Failed { .. } => {
                let failed = Failed {
                    key,
                    position: first,
                    subject: name_of_first,
                    attempts: failed,
                    error,
                };
                self.say_failed(failed, retry_in, is_skipped);
                let clock = tables.database.clock();
                let due = due.map(|wait| Instant::now() + clock.wait(wait));
                self.parking.put(key, Parked { attempts, due, ..Parked::afresh(slot) });
            }
        }
        Ok(())
    }

    /// Says that an event has failed, and what becomes of it. Not before it is stored: else it fails again.
    fn say_failed(&self, failed: Failed<'_>, retry_in: Option<Duration>, is_skipped: bool) {
        let Failed { key, position, subject, attempts, error } = failed;
        let (key, error) = (key.to_owned(), error.to_owned());
        let of_event = (!subject.is_empty()).then(|| subject.to_owned());
        let subject = match &of_event {
            Some(name) => format!("{name} at position {position}"),
            None => format!("position {position}"),
        };
        let events = &self.setup.events;
        events.emit(Happening::event_failed(
            key.clone(),
            position,
            subject.clone(),
            attempts,
            error.clone(),
            retry_in,
        ));
        if is_skipped {
            events.emit(Happening::event_skipped(key, Some(position), of_event, Some(error)));
        } else if retry_in.is_none() {
            events.emit(Happening::event_parked(key, position, subject, attempts, error));
        }
    }

    /// The first events behind a key, read from the log again.
    async fn parked_events(&mut self, key: &str, limit: usize) -> Result<Behind, StoreError> {
        let (tables, name) = (self.setup.tables.clone(), self.setup.consumer.name.clone());
        let (log, mut events) = (self.setup.log.clone(), Vec::new());
        for position in tables.parked_positions(&name, key, Position::END, limit).await? {
            match parked_event(&log, position, self.setup.consumer.settings.scope.query()).await? {
                Some(event) => events.push(event),
                None => return Ok(Behind { events, gone: Some(position) }),
            }
        }
        if !events.is_empty() {
            self.must_stand(&log).await?;
        }
        Ok(Behind { events, gone: None })
    }

    /// What is parked is known by its position: in a log elsewhere that was wound back, others may stand there.
    pub(super) async fn must_stand(&mut self, log: &Log) -> Result<(), StoreError> {
        let anchors = self.parts.anchors();
        if !log.is_apart() || anchors.is_empty() {
            return Ok(());
        }
        let seen = log.store().look(Look { anchors: anchors.clone(), ..Look::default() }).await?;
        let Err(wound) = seen.compare(&anchors) else { return Ok(()) };
        // That writes it down, if it is so of the cursors as they are stored: somebody may just have said where
        // the consumer goes on.
        let (tables, name) = (&self.setup.tables, &self.setup.consumer.name);
        if let Err(RunError::Store(error)) = standing::check(log, tables, name).await {
            standing::not_kept(tables, name, &error);
        }
        Err(standing::wound_back(log, tables, name, &wound))
    }
}

/// An event as people read it.
fn name_of(event: &Event) -> String {
    format!("{} {}@{}", event.event_type(), event.stream(), event.version())
}

/// The event at a position that was set aside, if it is still there.
///
/// It is read by the consumer's own scope: an append in flight that holds it up in no way must not do so here. The
/// scope may be narrower by now than when the event was set aside.
pub(crate) async fn parked_event(
    log: &Log,
    position: Position,
    scope: &Query,
) -> Result<Option<Event>, StoreError> {
    match event_at(log, position, scope.clone()).await? {
        None => event_at(log, position, Query::all()).await,
        found => Ok(found),
    }
}

/// The event at a position, if it matches and is still there.
async fn event_at(
    log: &Log,
    position: Position,
    query: Query,
) -> Result<Option<Event>, StoreError> {
    let request = ReadRequest {
        scope: Scope::Log(query),
        filter: Filter::default(),
        cursor: position.get() - 1,
        up_to: position,
        backwards: false,
        max_events: 1,
    };
    let page = log.store().read(request).await?;
    if page.events.is_empty() && page.cursor < position.get() {
        let (at, source) = (log.at().to_owned(), "an append is in flight".into());
        return Err(StoreError::Busy { at, source });
    }
    Ok(page.events.into_iter().next())
}
