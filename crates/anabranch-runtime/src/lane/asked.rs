//! What somebody asks for of a key that is set aside: to try it again, or to leave something out, up to the event that they
//! have seen.

use super::Lane;
use super::aside::Parked;
use super::words::Wish;
use crate::run_error::RunError;
use crate::tables::parked::{Asked, Attempt};
use anabranch_core::{Happening, Position};
use anabranch_store::database::End;
use std::time::Duration;

/// More events than can be behind a key.
const ALL: usize = i64::MAX as usize;

impl Lane {
    /// Does what somebody asked for, once: it may have been heard of more often.
    pub(super) async fn do_asked(&mut self, wish: Wish) -> Result<(), RunError> {
        let (key, slot, asked) = (wish.key.as_str(), wish.slot, wish.asked);
        let (tables, name) = (self.setup.tables.clone(), self.setup.consumer.name.clone());
        let Some(holder) = self.parts.holder(slot) else {
            return Ok(());
        };
        match asked {
            Asked::Replay => return self.begin_replay(wish).await,
            Asked::Resend => {
                let holder = holder.clone();
                return self.handle_again(&wish, &holder).await;
            }
            // What was to be handled again is not, if something else is wanted by now.
            _ => self.replay = self.replay.take().filter(|replay| !replay.is_of(key)),
        }
        let mut statements = vec![tables.answered(&name, &wish), tables.clear_replayed(&name, key)];
        let (mut skipped, is_audited) = (None, holder.record.is_some());
        let up_to = wish.up_to.unwrap_or(Position::END);
        match asked {
            Asked::Retry => statements.push(tables.hold(holder.id, holder.epoch)),
            Asked::Skip => match tables.parked_positions(&name, key, up_to, 1).await {
                Ok(first) => {
                    statements.extend(tables.record_skipped(holder, &first));
                    let skip = |at: &Position| tables.unpark_events(&name, key, *at, 1);
                    statements.extend(first.iter().map(skip));
                    skipped = first.first().map(|at| Some(*at));
                }
                Err(error) => return self.wait_out(error).await,
            },
            Asked::SkipAll => {
                // Only this lane changes what is behind the key, so these are all up to there. There may be none.
                let all = match is_audited {
                    true => tables.parked_positions(&name, key, up_to, ALL).await,
                    false => Ok(Vec::new()),
                };
                match all {
                    Ok(all) => statements.extend(tables.record_skipped(holder, &all)),
                    Err(error) => return self.wait_out(error).await,
                }
                statements.push(tables.clear_events(&name, key, up_to));
                skipped = Some(None);
            }
            Asked::Replay | Asked::Resend => {}
        }
        // From here on the key is tried as if it had never failed: now, or by the next owner.
        let error = "asked to try again";
        let retry_in = Some(Duration::ZERO);
        let attempt = Attempt { key, slot, attempts: 0, error, retry_in };
        statements.push(tables.park(&name, &attempt));
        statements.push(tables.unpark(&name, key));
        match tables.database.control().run(statements, End::Commit).await {
            Ok(_) => {
                if let Some(position) = skipped {
                    let what = Happening::event_skipped(key.to_owned(), position, None, None);
                    self.setup.events.emit(what);
                }
                self.parking.put(key, Parked::afresh(slot));
                self.drain(key).await
            }
            // It is done already, or withdrawn.
            Err(failed) if failed.is_unmatched() && failed.statement == Some(0) => Ok(()),
            Err(failed) if failed.is_unmatched() => {
                self.lost();
                Ok(())
            }
            Err(failed) => self.wait_out(tables.error(failed)).await,
        }
    }
}
