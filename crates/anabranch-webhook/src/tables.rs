//! The rows of deliveries and endpoints. The statements run on every database.

mod resends;

use crate::deliveries::{Delivery, DeliveryState, Failure, Filter};
use crate::endpoint::{Attempt, Verdict};
use anabranch_core::{Position, StoreError};
use anabranch_store::database::{End, InsertRows, Statement, Topic};
use anabranch_store::value::FromValue;
use anabranch_store::{Database, Row, Value, params};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long deliveries that have not arrived are kept.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// How many failed attempts are kept of a delivery.
const FAILURES: usize = 5;

const COLUMNS: &str = "consumer, id, key, first, last, edition, members, state, attempts, status, took_us, answer, \
                       at_us, failures";

#[derive(Clone)]
pub(crate) struct Tables {
    pub(crate) database: Arc<dyn Database>,
    deliveries: String,
    endpoints: String,
    consumers: String,
    cursors: String,
    parked_events: String,
    now: &'static str,
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.deliveries)
    }
}

/// What holds while a lane has its slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    /// The edition of the ids.
    pub(crate) edition: i64,
    /// The accepted code of the consumer, or nothing.
    pub(crate) code: String,
}

/// A delivery whose members are stored, or are to be.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) edition: i64,
    pub(crate) members: Vec<Position>,
    pub(crate) has_arrived: bool,
}

impl Group {
    pub(crate) fn first(&self) -> Position {
        self.members.first().copied().unwrap_or_default()
    }

    pub(crate) fn last(&self) -> Position {
        self.members.last().copied().unwrap_or_default()
    }

    /// Whether an event is one of it. Others of its key may stand between two of it: they were not in the scope then.
    pub(crate) fn holds(&self, position: Position) -> bool {
        self.members.binary_search(&position).is_ok()
    }

    fn members_text(&self) -> String {
        let members: Vec<u64> = self.members.iter().map(|member| member.get()).collect();
        serde_json::to_string(&members).unwrap_or_default()
    }
}

impl Tables {
    pub(crate) fn of(database: &Arc<dyn Database>) -> Self {
        let dialect = database.dialect();
        Self {
            database: Arc::clone(database),
            deliveries: dialect.table("deliveries"),
            endpoints: dialect.table("endpoints"),
            consumers: dialect.table("consumers"),
            cursors: dialect.table("cursors"),
            parked_events: dialect.table("parked_events"),
            now: dialect.now_us(),
        }
    }

    /// Takes turns of an endpoint that last so long together. Says how long it is to the first.
    pub(crate) async fn take_turns(
        &self,
        consumer: &str,
        span: Duration,
    ) -> Result<Duration, StoreError> {
        let (now, endpoints) = (self.now, &self.endpoints);
        let upsert = format!(
            "INSERT INTO {endpoints} AS e (consumer, free_us, edition) VALUES ($1, {now} + $2, 0) \
             ON CONFLICT (consumer) DO UPDATE SET free_us = \
             CASE WHEN e.free_us > {now} THEN e.free_us ELSE {now} END + $2 \
             RETURNING free_us - {now} AS ahead_us"
        );
        let span_us = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let rows = self.run(vec![Statement::query(upsert, params![consumer, span_us])]).await?;
        let ahead: i64 =
            rows.first().map(|row| self.column(row, "ahead_us")).transpose()?.unwrap_or(0);
        Ok(Duration::from_micros(u64::try_from(ahead - span_us).unwrap_or(0)))
    }

    /// The query for what holds for an endpoint now.
    pub(crate) fn terms(&self, consumer: &str) -> Statement {
        let select = format!(
            "SELECT coalesce((SELECT edition FROM {} WHERE consumer = $1), 0) AS edition, \
             coalesce((SELECT code FROM {} WHERE name = $1), '') AS code",
            self.endpoints, self.consumers
        );
        Statement::query(select, params![consumer])
    }

    pub(crate) fn terms_of(&self, rows: &[Row]) -> Result<Terms, StoreError> {
        let Some(row) = rows.first() else { return Ok(Terms::default()) };
        Ok(Terms { edition: self.column(row, "edition")?, code: self.column(row, "code")? })
    }

    /// Pauses a consumer, unless another code of it is accepted by now: what an endpoint said to the old one says
    /// nothing about the new one.
    pub(crate) async fn pause(&self, consumer: &str, code: &str) -> Result<(), StoreError> {
        let update = format!(
            "UPDATE {} SET paused = $3 WHERE name = $1 AND coalesce(code, '') = $2",
            self.consumers
        );
        let pause = Statement::new(update, params![consumer, code, true]);
        self.run(vec![pause, Statement::signal(Topic::Workers)]).await.map(drop)
    }

    /// The query for the deliveries with members among these positions, and so many of them at least.
    pub(crate) fn groups(
        &self,
        consumer: &str,
        edition: i64,
        (from, to): (Position, Position),
        at_least: i64,
    ) -> Statement {
        let select = format!(
            "SELECT {COLUMNS} FROM {} WHERE consumer = $1 AND edition = $2 AND last >= $3 AND first <= $4 \
             AND ($5 <= 1 OR first < last)",
            self.deliveries
        );
        Statement::query(select, params![consumer, edition, from, to, at_least])
    }

    pub(crate) fn group_of(&self, row: &Row) -> Result<Group, StoreError> {
        let delivery = self.delivery_of(row)?;
        Ok(Group {
            has_arrived: delivery.state == DeliveryState::Delivered,
            id: delivery.id,
            key: delivery.key,
            edition: self.column(row, "edition")?,
            members: delivery.members,
        })
    }

    /// The rows that say what belongs together, before it is sent.
    pub(crate) fn keep_groups(&self, consumer: &str, groups: &[Group], now_us: i64) -> InsertRows {
        let row = |group: &Group| {
            let open = DeliveryState::Open.name();
            let mut row = begin_row(consumer, group);
            row.extend(params![open, 0, None::<i64>, None::<i64>, None::<String>, now_us]);
            row
        };
        self.rows(groups.iter().map(row).collect(), "DO NOTHING".to_owned())
    }

    /// The statement that forgets what belonged together.
    pub(crate) fn drop_group(&self, consumer: &str, id: &str) -> Statement {
        let delete = format!("DELETE FROM {} WHERE consumer = $1 AND id = $2", self.deliveries);
        Statement::new(delete, params![consumer, id])
    }

    /// The rows of what has arrived.
    pub(crate) fn arrived(&self, consumer: &str, arrived: &[(Group, Attempt)]) -> InsertRows {
        self.attempts(consumer, arrived, DeliveryState::Delivered)
    }

    fn attempts(
        &self,
        consumer: &str,
        tried: &[(Group, Attempt)],
        state: DeliveryState,
    ) -> InsertRows {
        let row = |(group, attempt): &(Group, Attempt)| {
            let took_us = i64::try_from(attempt.took.as_micros()).unwrap_or(i64::MAX);
            let status = attempt.status.map(i64::from);
            // PostgreSQL has no room for the character NUL.
            let answer = attempt.answer.replace('\0', " ");
            let mut row = begin_row(consumer, group);
            row.extend(params![state.name(), 1, status, took_us, answer]);
            row.extend(params![attempt.at.as_microsecond()]);
            row
        };
        // Without its schema, as the statement itself knows it.
        let own = self.deliveries.rsplit('.').next().unwrap_or_default();
        // What has arrived stays so: a failure may be that of a worker that has lost its slots, or of one more time
        // that somebody asked for.
        let set = |column| match state {
            DeliveryState::Delivered => format!("{column} = excluded.{column}"),
            _ => format!(
                "{column} = CASE {own}.state WHEN 'delivered' THEN {own}.{column} ELSE excluded.{column} END"
            ),
        };
        let set = ["state", "status", "took_us", "answer", "at_us"].map(set).join(", ");
        let conflict = format!("DO UPDATE SET attempts = {own}.attempts + 1, {set}");
        self.rows(tried.iter().map(row).collect(), conflict)
    }

    fn rows(&self, rows: Vec<Vec<Value>>, conflict: String) -> InsertRows {
        const WRITTEN: &[&str] = &[
            "consumer", "id", "key", "first", "last", "edition", "members", "state", "attempts",
            "status", "took_us", "answer", "at_us",
        ];
        InsertRows {
            table: Cow::Owned(self.deliveries.clone()),
            columns: Cow::Borrowed(WRITTEN),
            conflict: format!("ON CONFLICT (consumer, id) {conflict}").into(),
            rows,
        }
    }

    /// Writes down attempts that failed, in transactions of their own: what they were made in is rolled back.
    pub(crate) async fn failed(
        &self,
        consumer: &str,
        group: &Group,
        attempt: &Attempt,
    ) -> Result<(), StoreError> {
        let found = self.one(consumer, &group.id).await?;
        let mut failures = found.map(|delivery| delivery.failures).unwrap_or_default();
        failures.push(Failure {
            at: attempt.at,
            status: attempt.status,
            took: attempt.took,
            answer: attempt.answer.clone(),
        });
        let failures = &failures[failures.len().saturating_sub(FAILURES)..];
        let failures = serde_json::to_string(failures).unwrap_or_default().replace("\\u0000", " ");
        let state = match attempt.verdict {
            Verdict::Failed { .. } | Verdict::Strained { .. } => DeliveryState::Failed,
            // It waits for the endpoint.
            _ => DeliveryState::Open,
        };
        let rows = self.attempts(consumer, &[(group.clone(), attempt.clone())], state);
        let update =
            format!("UPDATE {} SET failures = $3 WHERE consumer = $1 AND id = $2", self.deliveries);
        let update = Statement::new(update, params![consumer, &group.id, failures]);
        self.run(vec![Statement::rows(rows), update]).await.map(drop)
    }

    /// Writes down an attempt that somebody asked for.
    pub(crate) async fn tried(
        &self,
        consumer: &str,
        group: &Group,
        attempt: &Attempt,
    ) -> Result<(), StoreError> {
        if attempt.verdict != Verdict::Arrived {
            return self.failed(consumer, group, attempt).await;
        }
        let rows = self.arrived(consumer, &[(group.clone(), attempt.clone())]);
        self.run(vec![Statement::rows(rows)]).await.map(drop)
    }

    /// Removes what is older than the deliveries that are kept: so many that have arrived, and others for a while. What
    /// holds events that are still to be handled stays, if it `needs_members`: what has arrived would be sent again, under
    /// another id.
    pub(crate) async fn prune(
        &self,
        consumer: &str,
        kept: usize,
        needs_members: bool,
    ) -> Result<(), StoreError> {
        let (table, now) = (&self.deliveries, self.now);
        let (cursors, parked) = (&self.cursors, &self.parked_events);
        let kept_us = i64::try_from(KEPT_FOR.as_micros()).unwrap_or(i64::MAX);
        let before_last = i64::try_from(kept).unwrap_or(i64::MAX) - 1;
        let delete = format!(
            "DELETE FROM {table} AS d WHERE d.consumer = $1 \
             AND ((d.state = 'delivered' AND d.at_us < (SELECT at_us FROM {table} \
                   WHERE consumer = $1 AND state = 'delivered' ORDER BY at_us DESC LIMIT 1 OFFSET $3)) \
               OR (d.state <> 'delivered' AND d.at_us < {now} - $2)) \
             AND ((d.first = d.last AND $4 = 0) \
               OR d.last <= (SELECT min(position) FROM {cursors} WHERE consumer = $1)) \
             AND NOT EXISTS (SELECT 1 FROM {parked} AS p WHERE p.consumer = d.consumer AND p.key = d.key \
               AND p.position BETWEEN d.first AND d.last)"
        );
        let values = params![consumer, kept_us, before_last, i64::from(needs_members)];
        self.run(vec![Statement::new(delete, values)]).await.map(drop)
    }

    /// The statements for a replay: what follows a position is to be delivered again, under its id if that is still
    /// the edition.
    pub(crate) fn again(&self, consumer: &str, to: Position) -> [Statement; 2] {
        let (deliveries, endpoints) = (&self.deliveries, &self.endpoints);
        let edition = format!("coalesce((SELECT edition FROM {endpoints} WHERE consumer = $1), 0)");
        [
            Statement::new(
                format!(
                    "DELETE FROM {deliveries} WHERE consumer = $1 AND last > $2 AND edition <> {edition}"
                ),
                params![consumer, to],
            ),
            Statement::new(
                format!("UPDATE {deliveries} SET state = 'open' WHERE consumer = $1 AND last > $2"),
                params![consumer, to],
            ),
        ]
    }

    /// The statement after which the deliveries of a key with events in a table are to be sent again, under their ids.
    /// Those of another edition would have others.
    pub(crate) fn open_again(&self, consumer: &str, key: &str, events: &str) -> Statement {
        let update = format!(
            "UPDATE {} AS d SET state = 'open' WHERE consumer = $1 AND key = $2 \
             AND edition = coalesce((SELECT edition FROM {} WHERE consumer = $1), 0) \
             AND EXISTS (SELECT 1 FROM {events} AS r WHERE r.consumer = d.consumer AND r.key = d.key \
             AND r.position BETWEEN d.first AND d.last)",
            self.deliveries, self.endpoints
        );
        Statement::new(update, params![consumer, key])
    }

    /// One delivery.
    pub(crate) async fn one(
        &self,
        consumer: &str,
        id: &str,
    ) -> Result<Option<Delivery>, StoreError> {
        let select =
            format!("SELECT {COLUMNS} FROM {} WHERE consumer = $1 AND id = $2", self.deliveries);
        let rows = self.database.rows(Statement::query(select, params![consumer, id])).await?;
        rows.first().map(|row| self.delivery_of(row)).transpose()
    }

    /// The newest deliveries that a filter matches.
    pub(crate) async fn list(&self, filter: &Filter) -> Result<Vec<Delivery>, StoreError> {
        let (matching, mut values) = Self::matching(filter);
        let select = format!(
            "SELECT {COLUMNS} FROM {} WHERE {matching} ORDER BY at_us DESC, id LIMIT $7",
            self.deliveries
        );
        values.extend(params![i64::try_from(filter.limit).unwrap_or(i64::MAX)]);
        let rows = self.database.rows(Statement::query(select, values)).await?;
        rows.iter().map(|row| self.delivery_of(row)).collect()
    }

    /// What a filter matches, with the values `$1` to `$6`.
    fn matching(filter: &Filter) -> (&'static str, Vec<Value>) {
        let state = filter.state.map(DeliveryState::name).unwrap_or_default();
        let (key, has_key) =
            (filter.key.as_deref().unwrap_or_default(), i64::from(filter.key.is_some()));
        let consumer = filter.consumer.as_deref().unwrap_or_default();
        let id = filter.id.as_deref().unwrap_or_default();
        let until_us = filter.until.map_or(i64::MAX, |until| until.as_microsecond());
        let matching = "(consumer = $1 OR $1 = '') AND (state = $2 OR $2 = '') AND (key = $3 OR $4 = 0) \
                        AND (id = $5 OR $5 = '') AND at_us <= $6";
        (matching, params![consumer, state, key, has_key, id, until_us])
    }

    fn delivery_of(&self, row: &Row) -> Result<Delivery, StoreError> {
        let members: String = self.column(row, "members")?;
        let members: Vec<u64> = serde_json::from_str(&members).unwrap_or_default();
        let state: String = self.column(row, "state")?;
        let took: Option<i64> = self.column(row, "took_us")?;
        let failures: Option<String> = self.column(row, "failures")?;
        let failures = failures.and_then(|text| serde_json::from_str(&text).ok());
        let status: Option<i64> = self.column(row, "status")?;
        Ok(Delivery {
            consumer: self.column(row, "consumer")?,
            id: self.column(row, "id")?,
            key: self.column(row, "key")?,
            members: members.into_iter().map(Position::new).collect(),
            state: DeliveryState::of(&state),
            attempts: self.column(row, "attempts")?,
            status: status.and_then(|status| u16::try_from(status).ok()),
            took: took.and_then(|took| u64::try_from(took).ok()).map(Duration::from_micros),
            answer: self.column(row, "answer")?,
            at: anabranch_core::time::from_micros(self.column(row, "at_us")?),
            failures: failures.unwrap_or_default(),
        })
    }

    pub(crate) async fn run(&self, statements: Vec<Statement>) -> Result<Vec<Row>, StoreError> {
        let ran = self.database.control().run(statements, End::Commit).await;
        let answers = ran.map_err(|failed| failed.into_store_error(self.database.at()))?;
        Ok(answers.into_iter().next().map(|answer| answer.rows).unwrap_or_default())
    }

    fn column<T: FromValue>(&self, row: &Row, name: &str) -> Result<T, StoreError> {
        anabranch_store::database::column(self.database.at(), row, name)
    }
}

/// What every row of a delivery begins with.
fn begin_row(consumer: &str, group: &Group) -> Vec<Value> {
    params![
        consumer,
        &group.id,
        &group.key,
        group.first(),
        group.last(),
        group.edition,
        group.members_text()
    ]
}
