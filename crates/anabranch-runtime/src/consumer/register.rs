//! A consumer and what is stored of it: registered, compared, put back.

use super::{Consumer, is_folded, strategy_text, twin_problem};
use crate::identity::{Difference, Identity, Stored};
use crate::key_samples::{self, Checked};
use crate::row_watch;
use crate::run_error::RunError;
use crate::scope_change::ScopeChange;
use crate::settings::Start;
use crate::standing;
use crate::tables::Tables;
use crate::tables::consumers::{ParkedEvents, Registered};
use crate::tables::cursors::Locked;
use crate::tx::{Ended, Tx};
use crate::unmatched::Unmatched;
use anabranch_core::audit::RecordKind;
use anabranch_core::{Cursor, Event, HashRule, Position, Query, StoreError};
use anabranch_core::{Happening, Notice};
use anabranch_store::database::Statement;
use anabranch_store::{Filter, Log, PageEnd, ReadRequest, Scope};

impl Consumer {
    /// What identifies it. A consumer keeps it for ever: its cursors hold slots of these keys, and stand
    /// behind these events.
    pub(crate) fn identity(&self, log_rule: HashRule) -> Identity {
        let rule = self.partition.rule(log_rule);
        Identity {
            kind: self.kind,
            partition: self.partition.identity(log_rule),
            strategy: strategy_text(self.partition.strategy(), rule),
            scope: self.settings.scope.canonical(self.partition.category()),
            version: self.settings.version,
            code: self.settings.code.clone(),
        }
    }

    /// Registers it if it is new; refuses it if what is stored was made by something else.
    pub(crate) async fn register(&self, log: &Log, tables: &Tables) -> Result<(), RunError> {
        let identity = self.identity(log.hash_rule());
        let wanted = Registered {
            name: self.name.clone(),
            kind: self.kind.to_owned(),
            strategy: identity.strategy.clone(),
            version: self.settings.version,
            paused: false,
            outage: None,
            reset_to: None,
            reset_log: None,
            problem: None,
            is_set_up: true,
            slots: self.partition.slots(),
            log: None,
            wound_back: None,
            code: None,
            wanted_code: None,
        };
        // Read before the transaction, which may keep all others from the database.
        let start = match self.settings.start {
            Start::Beginning => Position::START.into(),
            Start::Head => standing::point(log, log.head().await?).await?,
        };
        let log_identity = log.identity().await?;
        let mut tx = Tx::begin(&tables.database, self.suffix);
        self.must_be_newer(tables, &mut tx).await?;
        let slots = self.partition.slots();
        let (found, is_new) = tables.register(tx.session(), &wanted, &slots).await?;
        if found.is_set_up && !is_new {
            return self.go_on(log, tables, tx, &identity).await;
        }
        if is_new && let Some(twin) = tables.twin(tx.session(), &self.name).await? {
            return Err(RunError::refused(&self.name, twin_problem(&twin)));
        }
        if found.strategy != wanted.strategy {
            return Err(RunError::refused(
                &self.name,
                format!(
                    "its positions were imported for {} and it is partitioned by {}; import them \
                     again for what it is, or let it use the rule of the old runners \
                     (Partition::with_rule)",
                    found.strategy, wanted.strategy
                ),
            ));
        }
        if is_folded(self.kind) && !is_new {
            let cursors = tables.cursors_in(tx.session(), &self.name, "").await?;
            if cursors.iter().any(|cursor| cursor.position > Position::START) {
                return Err(RunError::refused(
                    &self.name,
                    format!(
                        "its positions were imported, but a view is folded from the first event on; \
                         let it begin at the start (`anabranch forget {}`)",
                        self.name
                    ),
                ));
            }
        }
        let failed = |error: String| self.failed("set-up", &error);
        self.work.hooks().set_up(&mut tx).await.map_err(|error| failed(error.to_string()))?;
        let is_audited = self.is_to_be_audited(tables, &mut tx).await?;
        let mut begin: Vec<Statement> = match is_new {
            true => {
                let record = is_audited.then_some(0);
                let fresh = Cursor { record, ..Cursor::free(slots.clone(), start) };
                let begin = RecordKind::Begin;
                tables.restart_with(
                    &self.name,
                    &[],
                    vec![fresh],
                    ParkedEvents::After(start.position),
                    begin,
                )
            }
            // Its cursors were imported: they stay where they stand, and a record begins there.
            false => {
                let mut statements = vec![tables.is_set_up(&wanted)];
                if is_audited {
                    let cursors = tables.cursors_in(tx.session(), &self.name, "").await?;
                    let record = tables.begin_record(tx.session(), &self.name, &cursors).await?;
                    statements.extend(record);
                }
                statements
            }
        };
        begin.push(tables.keep_identity(&self.name, &identity));
        begin.push(tables.keep_replays_keys(&self.name, self.work.hooks().resets_keys()));
        begin.extend(is_new.then(|| tables.belongs_to(&self.name, log_identity)));
        begin.extend((is_new && is_audited).then(|| tables.mark_audited(&self.name)));
        let own = [tx.named_tables(), self.work.hooks().tables().to_vec()].concat();
        begin.push(tables.keep_own_tables(&self.name, &own));
        self.ended(tables, "set-up", tx.commit(begin).await)?;
        if is_new && !self.has_rows() && self.settings.start == Start::Beginning {
            self.say_where_it_begins(log, tables).await?;
        }
        if is_new && !self.has_rows() {
            self.say_that_nothing_matches(log, tables, &identity).await?;
        }
        row_watch::prepare(self, tables).await
    }

    /// Goes on with what is stored, if that was made by what it is now.
    async fn go_on(
        &self,
        log: &Log,
        tables: &Tables,
        mut tx: Tx,
        identity: &Identity,
    ) -> Result<(), RunError> {
        let stored = tables.identity_in(tx.session(), &self.name).await?;
        let stored =
            stored.ok_or_else(|| tables.corrupt(format!("no consumer `{}`", self.name)))?;
        if let Some(drawn) = stored.beyond_log
            && !tables.wants_reset(tx.session(), &self.name).await?
        {
            let cursors = tables.cursors_in(tx.session(), &self.name, "").await?;
            let position = cursors.iter().map(|cursor| cursor.position).max().unwrap_or_default();
            return Err(RunError::BeyondLog { consumer: self.name.clone(), position, drawn });
        }
        match identity.compare(&stored) {
            Ok(()) => {}
            Err(Difference::Scope { was, is }) => {
                // Written down, so that the change can be accepted without this program.
                let want = vec![tables.want_scope(&self.name, Some(&is))];
                self.ended(tables, "asking for another scope", tx.commit(want).await)?;
                return Err(self.scope_refused(log, tables, (&was, &is)).await?);
            }
            Err(Difference::Version { was, is }) if was > is => return Err(self.is_outdated(was)),
            Err(Difference::Code { was, is }) if !self.is_beside() => {
                // Written down, so that others know of it, and it can be accepted without this program.
                let want = vec![tables.want_code(&self.name, Some(&is))];
                self.ended(tables, "asking for other code", tx.commit(want).await)?;
                return Err(self.has_other_code(was, is));
            }
            Err(difference) => return Err(self.differs(&difference)),
        }
        let mut keep = vec![tables.keep_replays_keys(&self.name, self.work.hooks().resets_keys())];
        if stored.wanted_scope.is_some() {
            // The last program that started has the stored one.
            keep.push(tables.want_scope(&self.name, None));
        }
        if stored.wanted_code.is_some() {
            keep.push(tables.want_code(&self.name, None));
        }
        if let (None, Some(code)) = (&stored.code, &identity.code) {
            keep.push(tables.adopt_code(&self.name, code));
        }
        if stored.is_partial() {
            let detail = format!("partition={:?} scope={}", identity.partition, identity.scope);
            self.notice(tables, Notice::ScopeAdopted, detail);
            let adopted = self.work.hooks().adopt(&mut tx).await;
            adopted.map_err(|error| self.failed("adopting", &error.to_string()))?;
            keep.push(tables.keep_identity(&self.name, identity));
        }
        self.ended(tables, "registering", tx.commit(keep).await)?;
        if !self.has_rows() {
            standing::check(log, tables, &self.name).await?;
        }
        if self.settings.audit {
            self.see_to_audit(tables).await?;
        }
        self.say_what_it_lost(log, tables).await?;
        key_samples::check(self, log, tables, &mut Checked::default()).await?;
        row_watch::prepare(self, tables).await
    }

    /// Whether its record begins with it: if it says so, or if the version is audited beside which it is built.
    async fn is_to_be_audited(&self, tables: &Tables, tx: &mut Tx) -> Result<bool, StoreError> {
        let inherits =
            self.is_beside() && tables.is_audited_in(tx.session(), self.own_name()).await?;
        Ok(!self.has_rows() && (self.settings.audit || inherits))
    }

    /// Begins its record if it is to be audited and is not. Not while workers run it that know nothing of it.
    async fn see_to_audit(&self, tables: &Tables) -> Result<(), StoreError> {
        if tables.edition(&self.name).await?.is_some() {
            return Ok(());
        }
        let old = tables.workers_before_audits(&self.name).await?;
        if !old.is_empty() {
            self.notice(tables, Notice::AuditNotBegun, old.join("; "));
            return Ok(());
        }
        crate::audit::begin(tables, &self.name).await.map(drop)
    }

    async fn scope_refused(
        &self,
        log: &Log,
        tables: &Tables,
        (was, is): (&str, &crate::Scope),
    ) -> Result<RunError, RunError> {
        let cursors = tables.cursors(&self.name).await?;
        let change = ScopeChange::of(log, tables, &self.name, (was, is), &cursors).await?;
        let mut problem = format!(
            "{change}; if that is meant, `anabranch accept-scope {} --yes` and start it again",
            self.name
        );
        if change.left_out > 0 {
            let replay = format!(
                ", and to handle what is left out as well, `anabranch replay {} --from-start`",
                self.name
            );
            problem += &replay;
        }
        Ok(RunError::refused(&self.name, problem))
    }

    /// Another code of it is the accepted one.
    fn has_other_code(&self, accepted: String, own: String) -> RunError {
        RunError::OtherCode { consumer: self.name.clone(), accepted, own }
    }

    pub(crate) fn differs(&self, difference: &Difference) -> RunError {
        let problem = match self.is_beside() {
            false => difference.to_string(),
            true => format!(
                "another program has begun to build it: {difference}. Let that program finish, or throw \
                 away what it has built (`anabranch rebuild abandon {}`), and it is begun anew",
                self.own_name()
            ),
        };
        RunError::refused(&self.name, problem)
    }

    fn failed(&self, what: &str, error: &str) -> RunError {
        RunError::refused(&self.name, format!("{what} failed: {error}"))
    }

    /// What the end of a transaction means for a worker that wants to run it.
    fn ended(&self, tables: &Tables, what: &str, ended: Ended) -> Result<(), RunError> {
        match ended {
            Ended::Committed => Ok(()),
            Ended::Fenced => Err(self.failed(what, "the consumer is gone")),
            Ended::Broken(broken) => Err(tables.error(broken).into()),
            Ended::Failed(failure) if failure.failed.is_worth_waiting() => {
                Err(tables.error(failure.failed).into())
            }
            Ended::Failed(failure) => Err(self.failed(what, &failure.failed.to_string())),
        }
    }

    fn notice(&self, tables: &Tables, kind: Notice, detail: String) {
        tables.events.of(&self.name).emit(Happening::noticed(kind, detail));
    }

    /// A new consumer begins with the first event that the log still has: says so where others were
    /// there before it.
    async fn say_where_it_begins(&self, log: &Log, tables: &Tables) -> Result<(), StoreError> {
        if let Some(first) = first_event(log).await?.filter(|first| first.position().get() > 1) {
            let (position, at) = (first.position(), first.recorded_at());
            let detail = format!("position={position} recorded_at={at}");
            self.notice(tables, Notice::BeginsLate, detail);
        }
        Ok(())
    }

    /// A new consumer whose names no event has would be as quiet as one that has done everything.
    async fn say_that_nothing_matches(
        &self,
        log: &Log,
        tables: &Tables,
        identity: &Identity,
    ) -> Result<(), StoreError> {
        if let Some(unmatched) = Unmatched::of(log, &identity.scope).await? {
            self.notice(tables, Notice::NothingToHandle, unmatched.to_string());
        }
        Ok(())
    }

    /// If the beginning of the log was deleted up to beyond where it stands, events are gone that it has
    /// not handled: nobody can handle them, but somebody must know.
    async fn say_what_it_lost(&self, log: &Log, tables: &Tables) -> Result<(), StoreError> {
        let cursors = tables.cursors(&self.name).await?;
        let lowest = cursors.iter().map(|cursor| cursor.position).min().unwrap_or_default();
        let first = first_event(log).await?.map(|event| event.position());
        let Some(first) = first.filter(|first| first.get() > lowest.get() + 1) else {
            return Ok(());
        };
        if lowest == Position::START || self.has_rows() {
            return Ok(());
        }
        let problem = format!(
            "it stands at position {lowest}, and the log begins with position {first}: events between \
             them were deleted before it had handled them, or were never stored; delete events only \
             up to the lowest position of all consumers (`anabranch offsets`)"
        );
        self.notice(tables, Notice::EventsLost, problem.clone());
        tables.commit(vec![tables.note_problem(&self.name, &problem)]).await.map(drop)
    }

    /// Refuses to go on once something else has taken its place, or it was forgotten.
    pub(crate) fn still_is(
        &self,
        log_rule: HashRule,
        now: Option<&Stored>,
    ) -> Result<(), RunError> {
        let Some(now) = now else {
            return Err(RunError::refused(
                &self.name,
                "it was forgotten; start the program again to let it begin anew".to_owned(),
            ));
        };
        match self.identity(log_rule).compare(now) {
            Ok(()) => Ok(()),
            Err(Difference::Version { was, .. }) => Err(self.is_outdated(was)),
            Err(Difference::Scope { was, is }) => Err(RunError::refused(
                &self.name,
                format!(
                    "its scope is ({}) since that was accepted, and this program's is ({is}); run \
                     the program with the new one",
                    crate::Scope::in_words(&was)
                ),
            )),
            Err(Difference::Code { was, is }) if !self.is_beside() => {
                Err(self.has_other_code(was, is))
            }
            Err(difference) => Err(RunError::refused(&self.name, difference.to_string())),
        }
    }

    /// Puts it back to the requested position, with its own hook, in one transaction. Says whether
    /// there was something to do.
    ///
    /// First its owners are fenced, in a transaction of its own: while a replay is asked for nobody
    /// claims, so the hook finds nobody at work, and a worker that still is fails at its fence without
    /// waiting for this one. (Held here, the cursors would make the two wait for each other.)
    pub(crate) async fn reset(&self, log: &Log, tables: &Tables) -> Result<bool, RunError> {
        let known = tables.registered(Some(&self.name)).await?;
        let Some(asked) = known.iter().find_map(|known| known.reset_to) else {
            // Somebody else was faster, or this was asked of an older heartbeat.
            return Ok(false);
        };
        // Read before the transaction, which may keep all others from the database.
        let (start, log_identity) = (standing::point(log, asked).await?, log.identity().await?);
        tables.commit(tables.fence_all(&self.name)).await?;
        let mut tx = Tx::begin(&tables.database, self.suffix);
        let Locked { reset_to, reset_log, slots, .. } =
            tables.lock_consumer(tx.session(), &self.name).await?;
        // If somewhere else is asked for since, the next heartbeat sees to it.
        let is_here = reset_log.is_none_or(|log| log == log_identity);
        let Some(to) = reset_to.filter(|to| *to == asked && is_here) else {
            tx.commit(Vec::new()).await;
            return Ok(false);
        };
        // Its hook is code as well: what was accepted since the last heartbeat has another one.
        let stored = tables.identity_in(tx.session(), &self.name).await?;
        if self.still_is(log.hash_rule(), stored.as_ref()).is_err() {
            // The next heartbeat says so, and others do it.
            tx.commit(Vec::new()).await;
            return Ok(false);
        }
        let failed = |error: String| self.failed("reset", &error);
        if let Err(error) = self.work.hooks().reset(to, &mut tx).await {
            return Err(match tx.failure() {
                Some(failure) if failure.failed.is_worth_waiting() => {
                    tables.error(failure.failed).into()
                }
                _ => failed(error.to_string()),
            });
        }
        let cursors = tables.cursors_in(tx.session(), &self.name, "").await?;
        if cursors.iter().any(|cursor| cursor.position < to) {
            return Err(failed(format!("it stands before position {to}, and a replay goes back")));
        }
        let mut restart =
            tables.restart_at(&self.name, &cursors, &slots, start, to, RecordKind::Replay);
        restart.push(tables.belongs_to(&self.name, log_identity));
        self.ended(tables, "reset", tx.commit(restart).await).map(|()| true)
    }
}

/// The first event of a log. It waits for nobody: behind an append in flight there is none.
async fn first_event(log: &Log) -> Result<Option<Event>, StoreError> {
    let mut cursor = Position::START.get();
    loop {
        let page = log.store().read(ReadRequest {
            scope: Scope::Log(Query::all()),
            filter: Filter::default(),
            cursor,
            up_to: Position::END,
            backwards: false,
            max_events: 1,
        });
        let mut page = page.await?;
        // Where all up to somewhere was deleted, a page has no events and there are more.
        if !page.events.is_empty() || page.end != PageEnd::More || page.cursor <= cursor {
            return Ok(page.events.pop());
        }
        cursor = page.cursor;
    }
}
