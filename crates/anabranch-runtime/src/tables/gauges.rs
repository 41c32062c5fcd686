//! What metrics read: a few small tables in one statement, and of the log its end.

use super::Tables;
use crate::consumer::follows_log;
use crate::report::Report;
use anabranch_core::{Position, Slot, SlotSet, StoreError, TaskState};
use anabranch_store::database::{End, Hint, Statement};
use anabranch_store::migration::since;
use anabranch_store::{Row, Value};
use std::collections::HashMap;
use uuid::Uuid;

/// Of at most so many keys the events are counted, and of each at most so many, as the view `lag` does.
const MOST_KEYS: usize = 10_000;
const MOST_EVENTS: usize = 1_000;

/// All that was read, at one time.
#[derive(Default)]
pub(crate) struct Watched {
    pub(crate) end: LogEnd,
    pub(crate) consumers: Vec<WatchedConsumer>,
    pub(crate) cursors: Vec<WatchedCursor>,
    pub(crate) workers: HashMap<String, WatchedWorker>,
    pub(crate) aside: Vec<WatchedKey>,
    /// Names and generations.
    pub(crate) sets: Vec<(String, i64)>,
    /// Pools, states and how many.
    pub(crate) tasks: Vec<(String, i64, u64)>,
}

/// The end of a log.
#[derive(Clone, Copy, Default)]
pub(crate) struct LogEnd {
    pub(crate) head: Position,
    pub(crate) drawn: Position,
    pub(crate) identity: Option<Uuid>,
}

pub(crate) struct WatchedConsumer {
    pub(crate) name: String,
    pub(crate) follows_log: bool,
    pub(crate) is_paused: bool,
    pub(crate) is_out: bool,
    pub(crate) is_replayed: bool,
    pub(crate) is_wound_back: bool,
    /// The log that its cursors belong to, or on which a replay was asked for, if that is stored.
    pub(crate) log: Option<Uuid>,
    pub(crate) reset_log: Option<Uuid>,
    /// What the view says of it: all, ready, and the age in microseconds.
    pub(crate) lag: [Option<i64>; 3],
}

pub(crate) struct WatchedCursor {
    pub(crate) id: i64,
    pub(crate) consumer: String,
    pub(crate) owner: Option<String>,
    pub(crate) position: Position,
    pub(crate) slots: SlotSet,
    /// Whether its owner says that it cannot run it.
    pub(crate) is_unable: bool,
    pub(crate) age_us: Option<i64>,
}

pub(crate) struct WatchedWorker {
    pub(crate) set: String,
    pub(crate) is_alive: bool,
    pub(crate) report: Report,
}

/// A key that is set aside.
pub(crate) struct WatchedKey {
    pub(crate) consumer: String,
    pub(crate) slot: Slot,
    pub(crate) is_parked: bool,
    pub(crate) events: u64,
}

/// The columns of each part, in their order.
const COLUMNS: [&str; 10] = ["name", "note", "ref", "id", "a", "b", "c", "d", "slots", "what"];

impl Tables {
    /// Reads all of it. `with_log` if the log is in this database.
    pub(crate) async fn watched(&self, with_log: bool) -> Result<Watched, StoreError> {
        let select = self.select_watched(with_log);
        let rows = match self.database.dialect().hint(Hint::Figures) {
            Some(hint) => {
                let answers = self.database.control().run(vec![hint, select], End::Commit).await;
                answers.map(|mut answers| answers.pop().unwrap_or_default().rows)
            }
            // Where there is one writer, whoever looks is not to keep it from the others.
            None => self.database.query(select).await,
        };
        let mut watched = Watched::default();
        for row in &rows.map_err(|failed| self.error(failed))? {
            self.add(row, &mut watched)?;
        }
        watched.consumers.sort_by(|a, b| a.name.cmp(&b.name));
        watched.sets.sort();
        watched.tasks.sort();
        Ok(watched)
    }

    /// One statement: a part for each table. A part that the schema has no room for is left out.
    fn select_watched(&self, with_log: bool) -> Statement {
        let schema = self.database.schema();
        let (is_newest, table) =
            (schema >= since::WATCHING, |name| self.database.dialect().table(name));
        let (now, events) = (self.now, table("parked_events"));
        let number = "CAST(NULL AS BIGINT)";
        let text = "CAST(NULL AS TEXT)";
        // Of a type that fits: a column of bytes that is there, and none of its rows.
        let no_slots = format!("(SELECT slots FROM {} WHERE name = '')", self.consumers);
        let part = |what: &str, values: [&str; 9], from: String| {
            let columns =
                values.iter().zip(COLUMNS).map(|(value, name)| format!("{value} AS {name}"));
            let columns: Vec<String> = columns.collect();
            format!("SELECT '{what}' AS what, {} FROM {from}", columns.join(", "))
        };
        let yes = |condition: &str| format!("CASE WHEN {condition} THEN 1 ELSE 0 END");
        let flag = |condition: &str| format!("CAST({} AS BIGINT)", yes(condition));
        let (log, reset_log, wound) = match schema >= since::ANCHORS {
            true => (
                "CAST(c.log_identity AS TEXT)",
                "CAST(c.reset_log AS TEXT)",
                "c.wound_back IS NOT NULL",
            ),
            false => (text, text, "1 = 0"),
        };
        let out = if schema >= since::FLEET { "c.outage IS NOT NULL" } else { "1 = 0" };
        let state = format!(
            "CAST({} + 2 * {} + 4 * {} + 8 * {} AS BIGINT)",
            yes("c.paused"),
            yes(out),
            yes("c.reset_to IS NOT NULL"),
            yes(wound)
        );
        // The kind and the logs in one text: none of them holds a blank.
        let note =
            format!("c.kind || ' ' || coalesce({log}, '-') || ' ' || coalesce({reset_log}, '-')");
        let (lag, joined) = match is_newest {
            true => (
                [
                    "CAST(l.events AS BIGINT)",
                    "CAST(l.ready_events AS BIGINT)",
                    "CAST(l.seconds * 1000000 AS BIGINT)",
                ],
                format!(
                    "{} AS c LEFT JOIN {} AS l ON l.consumer = c.name",
                    self.consumers,
                    table("lag")
                ),
            ),
            false => ([number; 3], format!("{} AS c", self.consumers)),
        };
        let mut parts = vec![part(
            "consumer",
            ["c.name", &note, text, number, &state, lag[0], lag[1], lag[2], &no_slots],
            joined,
        )];
        let unable = match self.has_runners() {
            true => flag(&format!(
                "EXISTS (SELECT 1 FROM {} AS r WHERE r.worker = k.owner AND r.consumer = k.consumer \
                 AND r.unable IS NOT NULL)",
                self.runners
            )),
            false => number.to_owned(),
        };
        let age = match is_newest && with_log {
            true => {
                format!("(SELECT a.age_us FROM {} AS a WHERE a.id = k.id)", table("cursor_ages"))
            }
            false => number.to_owned(),
        };
        parts.push(part(
            "cursor",
            ["k.consumer", "k.owner", text, "k.id", "k.position", &unable, &age, number, "k.slots"],
            format!("{} AS k", self.cursors),
        ));
        let alive = flag(&format!("w.lease_us > {now}"));
        parts.push(part(
            "worker",
            [
                "w.id",
                "w.report",
                "w.replica_set",
                number,
                &alive,
                number,
                number,
                number,
                &no_slots,
            ],
            format!("{} AS w", self.workers),
        ));
        parts.push(part(
            "set",
            ["s.name", text, text, number, "s.generation", number, number, number, &no_slots],
            format!("{} AS s", self.replica_sets),
        ));
        let count = format!(
            "(SELECT count(*) FROM (SELECT e.position FROM {events} AS e WHERE e.consumer = p.consumer \
             AND e.key = p.key LIMIT {MOST_EVENTS}) AS counted)"
        );
        let parked = flag("p.retry_us IS NULL AND p.asked IS NULL");
        parts.push(part(
            "aside",
            ["p.consumer", text, text, number, "p.slot", &parked, &count, number, &no_slots],
            format!("(SELECT * FROM {} LIMIT {MOST_KEYS}) AS p", self.parked_keys),
        ));
        if is_newest {
            let sum = "CAST(sum(t.delta) AS BIGINT)";
            let from = format!("{} AS t GROUP BY t.pool, t.state", table("task_counts"));
            let values = ["t.pool", text, text, number, "t.state", sum, number, number, &no_slots];
            parts.push(part("task", values, from));
        }
        if with_log {
            let end = match is_newest {
                true => format!("{} AS o", table("log_end")),
                false => {
                    let head = format!(
                        "SELECT coalesce(max(position), 0) AS head FROM {}",
                        table("events")
                    );
                    format!(
                        "(SELECT head, head AS drawn, {text} AS identity FROM ({head}) AS h) AS o"
                    )
                }
            };
            let (head, drawn) = ("CAST(o.head AS BIGINT)", "CAST(o.drawn AS BIGINT)");
            let values = ["''", "o.identity", text, number, head, drawn, number, number, &no_slots];
            parts.push(part("end", values, end));
        }
        Statement::query(parts.join(" UNION ALL "), Vec::<Value>::new())
    }

    fn add(&self, row: &Row, watched: &mut Watched) -> Result<(), StoreError> {
        let (what, name): (String, String) = (self.column(row, "what")?, self.column(row, "name")?);
        let note = || self.column::<Option<String>>(row, "note");
        let number = |column: &str| self.column::<Option<i64>>(row, column);
        let a = number("a")?.unwrap_or_default();
        match what.as_str() {
            "consumer" => {
                let note = note()?.unwrap_or_default();
                let mut words = note.split(' ');
                let kind = words.next().unwrap_or_default();
                let mut log = || words.next().and_then(|word| Uuid::parse_str(word).ok());
                watched.consumers.push(WatchedConsumer {
                    name,
                    follows_log: follows_log(kind),
                    is_paused: a & 1 > 0,
                    is_out: a & 2 > 0,
                    is_replayed: a & 4 > 0,
                    is_wound_back: a & 8 > 0,
                    log: log(),
                    reset_log: log(),
                    lag: [number("b")?, number("c")?, number("d")?],
                });
            }
            "cursor" => watched.cursors.push(WatchedCursor {
                id: self.column(row, "id")?,
                consumer: name,
                owner: note()?,
                position: Position::from_i64(a),
                slots: self.slots_in(row, "slots")?,
                is_unable: number("b")?.is_some_and(|unable| unable > 0),
                age_us: number("c")?,
            }),
            "worker" => {
                let report = Report::parse(&note()?.unwrap_or_default());
                let set = self.column(row, "ref")?;
                watched.workers.insert(name, WatchedWorker { set, is_alive: a > 0, report });
            }
            "set" => watched.sets.push((name, a)),
            "aside" => {
                let slot = u16::try_from(a).ok().and_then(Slot::new);
                let slot =
                    slot.ok_or_else(|| self.corrupt("a slot that does not exist".to_owned()))?;
                let (is_parked, events) =
                    (number("b")? == Some(1), number("c")?.unwrap_or_default());
                let events = events.unsigned_abs();
                watched.aside.push(WatchedKey { consumer: name, slot, is_parked, events });
            }
            "task" => {
                // A program of another version may know more states: what it does not is left out.
                let is_known = TaskState::ALL.iter().any(|state| state.code() == a);
                let tasks = u64::try_from(number("b")?.unwrap_or_default()).unwrap_or_default();
                if is_known && tasks > 0 {
                    watched.tasks.push((name, a, tasks));
                }
            }
            _ => {
                let identity = note()?.and_then(|text| Uuid::parse_str(&text).ok());
                let drawn = Position::from_i64(number("b")?.unwrap_or_default());
                watched.end = LogEnd { head: Position::from_i64(a), drawn, identity };
            }
        }
        Ok(())
    }
}
