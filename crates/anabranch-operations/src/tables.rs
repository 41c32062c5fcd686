//! The statements for plans and the journal.

use crate::basis::Basis;
use crate::journal::{JournalEntry, JournalFilter, Stage};
use crate::operations::By;
use crate::plan::{Effect, Plan, PlanState};
use crate::request::Request;
use anabranch_core::{StoreError, time};
use anabranch_store::database::{Statement, column};
use anabranch_store::migration::since;
use anabranch_store::value::FromValue;
use anabranch_store::{Database, Row, Value, params};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long a plan can be applied.
const LIFE: Duration = Duration::from_secs(600);
/// How long plans are kept after that, if nobody has applied them.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long those are kept that have ended.
const KEPT_ENDED: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long nobody else goes on with what somebody carries out step by step.
const TURN: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct Tables {
    pub(crate) database: Arc<dyn Database>,
    plans: String,
    journal: String,
    now: &'static str,
}

/// A plan that is not stored yet.
pub(crate) struct NewPlan<'a> {
    pub(crate) id: Uuid,
    pub(crate) request: &'a Request,
    pub(crate) basis: &'a Basis,
    pub(crate) effect: &'a Effect,
    pub(crate) total: u64,
    pub(crate) by: &'a By,
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

impl Tables {
    pub(crate) fn of(database: Arc<dyn Database>) -> Self {
        let dialect = database.dialect();
        let (plans, journal) = (dialect.table("plans"), dialect.table("journal"));
        let now = dialect.now_us();
        Self { plans, journal, now, database }
    }

    /// Whether the log has room for plans and a journal: older ones have not.
    pub(crate) fn has_journal(&self) -> bool {
        self.database.schema() >= since::OPERATIONS
    }

    /// The query for the time.
    #[cfg(feature = "webhook")]
    pub(crate) fn clock(&self) -> Statement {
        Statement::query(format!("SELECT {} AS now_us", self.now), vec![])
    }

    /// What it answers.
    #[cfg(feature = "webhook")]
    pub(crate) fn time(&self, rows: &[Row]) -> Result<i64, StoreError> {
        let row = rows.first().ok_or_else(|| self.corrupt("no clock".to_owned()))?;
        self.column(row, "now_us")
    }

    /// Adds a plan, and drops those that nobody has applied.
    pub(crate) fn add(&self, plan: &NewPlan<'_>) -> Vec<Statement> {
        let (plans, now) = (&self.plans, self.now);
        // What was done is in the journal.
        let drop = format!(
            "DELETE FROM {plans} WHERE (state = 'open' AND expires_us < {now} - $1) OR ended_us < {now} - $2"
        );
        let insert = format!(
            "INSERT INTO {plans} (id, request, basis, effect, who, via, state, made_us, expires_us, total, target) \
             VALUES ($1, $2, $3, $4, $5, $6, 'open', {now}, {now} + $7, $8, $9)"
        );
        let NewPlan { id, request, basis, effect, total, by } = plan;
        let texts = (id.to_string(), json(request), json(basis), json(effect));
        let (id, text, basis, effect) = texts;
        let by = (by.who.as_str(), by.via.as_str());
        let target = request.target();
        let values =
            params![id, text, basis, effect, by.0, by.1, micros(LIFE), *total, target.as_ref()];
        vec![
            Statement::new(drop, params![micros(KEPT), micros(KEPT_ENDED)]),
            Statement::fence(insert, values, 1),
        ]
    }

    /// The plan with an id.
    pub(crate) fn find(&self, id: Uuid) -> Statement {
        let select = format!("{} WHERE id = $1", self.select_plans());
        Statement::query(select, params![id.to_string()])
    }

    /// The newest plans, of all or about one target.
    pub(crate) fn newest(&self, target: Option<&str>, limit: usize) -> Statement {
        let (mut which, mut values) = ("", params![limit]);
        if let Some(target) = target {
            which = " WHERE target = $2";
            values.push(target.into());
        }
        let select = self.select_plans();
        Statement::query(format!("{select}{which} ORDER BY made_us DESC, id LIMIT $1"), values)
    }

    /// The plans that somebody has begun to carry out and left.
    pub(crate) fn abandoned(&self) -> Statement {
        let (select, now) = (self.select_plans(), self.now);
        let which = format!("state = 'running' AND runner_until_us < {now}");
        Statement::query(format!("{select} WHERE {which} ORDER BY made_us LIMIT 100"), vec![])
    }

    fn select_plans(&self) -> String {
        format!(
            "SELECT id, request, basis, effect, who, via, state, made_us, expires_us, began_us, ended_us, total, \
             done, gone, after, problem, {} AS now_us FROM {}",
            self.now, self.plans
        )
    }

    /// That an open plan is applied, in the transaction that does so.
    pub(crate) fn applied(&self, id: Uuid) -> Statement {
        let (plans, now) = (&self.plans, self.now);
        let update = format!(
            "UPDATE {plans} SET state = 'done', began_us = {now}, ended_us = {now}, done = total \
             WHERE id = $1 AND state = 'open' AND expires_us > {now}"
        );
        Statement::fence(update, params![id.to_string()], 1)
    }

    /// That somebody begins to carry out an open plan.
    pub(crate) fn begun(&self, id: Uuid, runner: &str) -> Statement {
        let (plans, now) = (&self.plans, self.now);
        let update = format!(
            "UPDATE {plans} SET state = 'running', began_us = {now}, runner = $2, runner_until_us = {now} + $3 \
             WHERE id = $1 AND state = 'open' AND expires_us > {now}"
        );
        Statement::fence(update, params![id.to_string(), runner, micros(TURN)], 1)
    }

    /// That somebody goes on with a plan that another one has left.
    pub(crate) fn taken_up(&self, id: Uuid, runner: &str) -> Statement {
        let (plans, now) = (&self.plans, self.now);
        let update = format!(
            "UPDATE {plans} SET runner = $2, runner_until_us = {now} + $3 \
             WHERE id = $1 AND state = 'running' AND runner_until_us < {now}"
        );
        Statement::fence(update, params![id.to_string(), runner, micros(TURN)], 1)
    }

    /// That a step is done, in its transaction. Matches only for whom it is to go on.
    pub(crate) fn stepped(
        &self,
        id: Uuid,
        runner: &str,
        done: u64,
        (before, after): (Option<&str>, &str),
    ) -> Statement {
        let update = format!(
            "UPDATE {} SET done = done + $3, after = $4, runner_until_us = {} + $5 \
             WHERE id = $1 AND runner = $2 AND state = 'running' AND coalesce(after, '') = $6",
            self.plans, self.now
        );
        let values =
            params![id.to_string(), runner, done, after, micros(TURN), before.unwrap_or_default()];
        Statement::fence(update, values, 1)
    }

    /// That nothing is left to do.
    pub(crate) fn finished(&self, id: Uuid, runner: &str) -> Statement {
        let update = format!(
            "UPDATE {} SET state = 'done', ended_us = {}, runner = NULL, \
             gone = CASE WHEN total > done THEN total - done ELSE 0 END \
             WHERE id = $1 AND runner = $2 AND state = 'running'",
            self.plans, self.now
        );
        Statement::fence(update, params![id.to_string(), runner], 1)
    }

    /// That a step was refused for good.
    pub(crate) fn gave_up(&self, id: Uuid, runner: &str, problem: &str) -> Statement {
        let update = format!(
            "UPDATE {} SET state = 'failed', ended_us = {}, runner = NULL, problem = $3 \
             WHERE id = $1 AND runner = $2 AND state = 'running'",
            self.plans, self.now
        );
        let problem: String = problem.chars().filter(|c| *c != '\0').take(4_000).collect();
        Statement::fence(update, params![id.to_string(), runner, problem], 1)
    }

    /// That somebody has cancelled it.
    pub(crate) fn cancelled(&self, id: Uuid) -> Statement {
        let update = format!(
            "UPDATE {} SET state = 'cancelled', ended_us = {}, runner = NULL \
             WHERE id = $1 AND state IN ('open', 'running')",
            self.plans, self.now
        );
        Statement::fence(update, params![id.to_string()], 1)
    }

    /// The entry of the journal for what has just become of a plan, as it stands in this transaction.
    pub(crate) fn entry(&self, plan: &Plan, stage: Stage, by: &By) -> Statement {
        let (insert, values) = self.insert_entry(plan, stage, by);
        Statement::fence(insert, values, 1)
    }

    /// The same, if the plan was begun: one that was not has done nothing.
    pub(crate) fn entry_if_begun(&self, plan: &Plan, stage: Stage, by: &By) -> Statement {
        let (insert, values) = self.insert_entry(plan, stage, by);
        Statement::new(format!("{insert} AND began_us IS NOT NULL"), values)
    }

    fn insert_entry(&self, plan: &Plan, stage: Stage, by: &By) -> (String, Vec<Value>) {
        let (journal, plans, now) = (&self.journal, &self.plans, self.now);
        let insert = format!(
            "INSERT INTO {journal} (at_us, plan, stage, verb, target, who, via, request, effect, outcome) \
             SELECT {now}, id, $2, $3, $4, $5, $6, request, effect, \
             '{{\"done\":' || CAST(done AS text) || ',\"gone\":' || CAST(gone AS text) || '}}' \
             FROM {plans} WHERE id = $1"
        );
        let (id, stage, by) = (plan.id.to_string(), stage.name(), (&*by.who, &*by.via));
        let values = params![id, stage, plan.verb, plan.target.as_str(), by.0, by.1];
        (insert, values)
    }

    /// Entries of the journal, the newest first.
    pub(crate) fn entries(&self, filter: &JournalFilter) -> Statement {
        let mut values = params![filter.before.unwrap_or(i64::MAX), filter.limit];
        let mut which = String::new();
        if let Some(target) = &filter.target {
            values.push(target.as_str().into());
            which += &format!(" AND target = ${}", values.len());
        }
        if let Some(plan) = filter.plan {
            values.push(plan.to_string().into());
            which += &format!(" AND plan = ${}", values.len());
        }
        let select = format!(
            "SELECT seq, at_us, plan, stage, verb, target, who, via, request, effect, outcome FROM {} \
             WHERE seq < $1{which} ORDER BY seq DESC LIMIT $2",
            self.journal
        );
        Statement::query(select, values)
    }

    fn column<T: FromValue>(&self, row: &Row, name: &str) -> Result<T, StoreError> {
        column(self.database.at(), row, name)
    }

    fn parsed<T: serde::de::DeserializeOwned>(
        &self,
        row: &Row,
        name: &str,
    ) -> Result<T, StoreError> {
        let text: String = self.column(row, name)?;
        serde_json::from_str(&text).map_err(|error| self.corrupt(format!("`{name}`: {error}")))
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt { at: self.database.at().to_owned(), what }
    }

    fn id(&self, row: &Row, name: &str) -> Result<Uuid, StoreError> {
        let text: String = self.column(row, name)?;
        text.parse().map_err(|_| self.corrupt(format!("`{name}` is no id: {text}")))
    }

    /// A plan, and whether it has expired.
    pub(crate) fn plan(&self, row: &Row) -> Result<(Plan, bool), StoreError> {
        let at = |micros: Option<i64>| micros.map(time::from_micros);
        let (request, basis): (Request, Basis) =
            (self.parsed(row, "request")?, self.parsed(row, "basis")?);
        let state: String = self.column(row, "state")?;
        let state = PlanState::of(&state)
            .ok_or_else(|| self.corrupt(format!("a plan that is `{state}`")))?;
        let (expires_us, now_us): (i64, i64) =
            (self.column(row, "expires_us")?, self.column(row, "now_us")?);
        let plan = Plan {
            id: self.id(row, "id")?,
            verb: request.verb(),
            target: request.target().into_owned(),
            hash: basis.hash(&request),
            request,
            effect: self.parsed(row, "effect")?,
            who: self.column(row, "who")?,
            via: self.column(row, "via")?,
            state,
            made_at: time::from_micros(self.column(row, "made_us")?),
            expires_at: time::from_micros(expires_us),
            began_at: at(self.column(row, "began_us")?),
            ended_at: at(self.column(row, "ended_us")?),
            total: self.column(row, "total")?,
            done: self.column(row, "done")?,
            gone: self.column(row, "gone")?,
            problem: self.column(row, "problem")?,
            basis,
            after: self.column(row, "after")?,
        };
        Ok((plan, expires_us <= now_us))
    }

    pub(crate) fn journal_entry(&self, row: &Row) -> Result<JournalEntry, StoreError> {
        let raw = |name: &str| {
            let text: Option<String> = self.column(row, name)?;
            let raw = text.map(RawValue::from_string).transpose();
            raw.map_err(|error| self.corrupt(format!("`{name}`: {error}")))
        };
        let some = |name: &str| {
            raw(name)?.ok_or_else(|| self.corrupt(format!("an entry without `{name}`")))
        };
        let stage: String = self.column(row, "stage")?;
        Ok(JournalEntry {
            seq: self.column(row, "seq")?,
            at: time::from_micros(self.column(row, "at_us")?),
            plan: self.id(row, "plan")?,
            stage: Stage::of(&stage)
                .ok_or_else(|| self.corrupt(format!("an entry of stage `{stage}`")))?,
            verb: self.column(row, "verb")?,
            target: self.column(row, "target")?,
            who: self.column(row, "who")?,
            via: self.column(row, "via")?,
            request: some("request")?,
            effect: some("effect")?,
            outcome: raw("outcome")?,
        })
    }
}
