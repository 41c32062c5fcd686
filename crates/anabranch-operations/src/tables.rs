//! The statements for plans and the journal; what their rows say is in `rows`.

mod rows;

use crate::basis::Basis;
use crate::journal::{JournalFilter, Stage};
use crate::operations::By;
use crate::plan::{Effect, Plan};
use crate::request::Request;
use anabranch_store::database::Statement;
use anabranch_store::migration::since;
use anabranch_store::{Database, Value, params};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long a plan can be applied.
const LIFE: Duration = Duration::from_secs(600);
/// How long plans are kept after that, if nobody has applied them.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long those are kept that have ended, or that somebody has begun and left.
const KEPT_ENDED: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long nobody else goes on with what somebody carries out step by step.
pub(crate) const TURN: Duration = Duration::from_secs(10);

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

    /// Adds a plan, and drops those that nobody has applied, or gone on with.
    pub(crate) fn add(&self, plan: &NewPlan<'_>) -> Vec<Statement> {
        let (plans, now) = (&self.plans, self.now);
        // What was done is in the journal.
        let drop = format!(
            "DELETE FROM {plans} WHERE (state = 'open' AND expires_us < {now} - $1) OR ended_us < {now} - $2 \
             OR (state = 'running' AND runner_until_us < {now} - $2)"
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

    /// The plans that somebody has begun to carry out in one of these ways, and left.
    pub(crate) fn abandoned(&self, via: &[&str]) -> Statement {
        let (select, now) = (self.select_plans(), self.now);
        let ways: Vec<String> = (1..=via.len()).map(|number| format!("${number}")).collect();
        let which = format!("state = 'running' AND runner_until_us < {now}");
        let ways = format!("applied_via IN ({})", ways.join(", "));
        let values = via.iter().map(|way| Value::from(*way)).collect();
        let order = "ORDER BY made_us LIMIT 100";
        Statement::query(format!("{select} WHERE {which} AND {ways} {order}"), values)
    }

    fn select_plans(&self) -> String {
        format!(
            "SELECT id, request, basis, effect, who, via, state, made_us, expires_us, began_us, ended_us, total, \
             done, gone, target, applied_by, applied_via, runner, after, problem, {} AS now_us FROM {}",
            self.now, self.plans
        )
    }

    /// That an open plan is applied, in the transaction that does so.
    pub(crate) fn applied(&self, id: Uuid, runner: &str, by: &By) -> Statement {
        let (plans, now) = (&self.plans, self.now);
        let update = format!(
            "UPDATE {plans} SET state = 'done', began_us = {now}, ended_us = {now}, done = total, \
             runner = $2, applied_by = $3, applied_via = $4 \
             WHERE id = $1 AND state = 'open' AND expires_us > {now}"
        );
        let (who, via) = (by.who.as_str(), by.via.as_str());
        Statement::fence(update, params![id.to_string(), runner, who, via], 1)
    }

    /// That somebody begins to carry out an open plan.
    pub(crate) fn begun(&self, id: Uuid, runner: &str, by: &By) -> Statement {
        let (plans, now) = (&self.plans, self.now);
        let update = format!(
            "UPDATE {plans} SET state = 'running', began_us = {now}, runner = $2, runner_until_us = {now} + $3, \
             applied_by = $4, applied_via = $5 WHERE id = $1 AND state = 'open' AND expires_us > {now}"
        );
        let (who, via) = (by.who.as_str(), by.via.as_str());
        Statement::fence(update, params![id.to_string(), runner, micros(TURN), who, via], 1)
    }

    /// That somebody goes on with a plan that another one has left.
    pub(crate) fn taken_up(&self, id: Uuid, runner: &str, by: &By) -> Statement {
        let (plans, now) = (&self.plans, self.now);
        let update = format!(
            "UPDATE {plans} SET runner = $2, runner_until_us = {now} + $3, applied_by = $4, applied_via = $5 \
             WHERE id = $1 AND state = 'running' AND runner_until_us < {now}"
        );
        let (who, via) = (by.who.as_str(), by.via.as_str());
        Statement::fence(update, params![id.to_string(), runner, micros(TURN), who, via], 1)
    }

    /// That whoever carries it out is at it still. Matches only for whom it is to go on.
    pub(crate) fn kept(&self, id: Uuid, runner: &str) -> Statement {
        let update = format!(
            "UPDATE {} SET runner_until_us = {} + $3 WHERE id = $1 AND runner = $2 AND state = 'running'",
            self.plans, self.now
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

    /// The entry of the journal for what has just become of a plan, with its counts as of this transaction.
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
}
