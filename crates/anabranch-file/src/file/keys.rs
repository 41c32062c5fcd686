//! What may stand in a file: every table, its keys, and what each key holds.
//!
//! The parser, the hints at unknown keys and the JSON Schema are all made from this description, so they cannot
//! disagree.

use super::shape::{DATABASES, Key, Kind, Table, key, required};

const COUNT: Kind = Kind::Integer { least: 1, most: 1_000_000 };

const NAME: Key = required(
    "name",
    Kind::Text,
    "Its name: A-Z, a-z, 0-9, _, - and .; what it has done is stored under it",
);
const PARTITION: Key = required(
    "partition",
    Kind::Text,
    "How events are keyed: entity, entity:CATEGORY, customer, saga, global, dcb:TYPE or field:PATH such as \
     field:data.region. Events of one key are handled in order",
);
const HASH: Key = key(
    "hash",
    Kind::Word(&["fnv1a", "md5", "integer"]),
    "How keys become slots; default: as the log does",
);
const TAGS: Key = key("tags", Kind::Texts, "Only events that have all of these tags");
const CATEGORIES: Key =
    key("categories", Kind::Texts, "Only events of streams of one of these categories");
const TENANTS: Key = key("tenants", Kind::Texts, "Only events of one of these tenants");
const RETRY: Key =
    key("retry", Kind::Table(&RETRY_TABLE), "How often what fails is tried, and what happens then");
const BATCH_SIZE: Key = key("batch_size", COUNT, "The most events of one transaction");
const VERSION: Key = key(
    "version",
    Kind::Integer { least: 1, most: u32::MAX as i64 },
    "The version of the tables that it writes; default 1",
);
const START: Key = key(
    "start",
    Kind::Word(&["beginning", "head"]),
    "Where it begins the first time that it runs: with the first event of the log, or with what is appended \
     from now on; default beginning",
);
const AUDIT: Key = key(
    "audit",
    Kind::Truth,
    "Whether each commit records what it handed over, so that `anabranch audit` can prove that it was every event once \
     and in order; default false",
);
const SETUP: Key = key(
    "setup",
    Kind::Statements,
    "What is executed the first time that it runs, such as CREATE TABLE",
);
const RESET: Key = key(
    "reset",
    Kind::Statements,
    "What a replay executes first, such as DELETE FROM; :position is where the replay begins. Without it a replay \
     is refused",
);
const COMMAND_ABOUT: &str = "The program and its arguments; no shell is involved. It is started in the directory of this file";
const COMMAND: Key = required("command", Kind::Texts, COMMAND_ABOUT);
const ENV: Key = key("env", Kind::Each(&Kind::Setting), "Variables for the program's environment");
const TIMEOUT: Key = key(
    "timeout",
    Kind::Duration,
    "How long the program may take for a batch, or a task, before its first query; default 30s",
);
const GRACE: Key = key(
    "grace",
    Kind::Duration,
    "How long it has to end when it is to stop; default: as its set, which has 10s",
);

/// The file.
pub(super) const FILE: Table = Table {
    name: "the file",
    about: "Replica sets of Anabranch: consumers in SQL and in any language, and tests of them",
    keys: &[
        key(
            "url",
            Kind::Setting,
            "The database: sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE; \"${VARIABLE}\" takes it from \
             the environment. Default: ANABRANCH_URL, DATABASE_URL, or sqlite:anabranch.db",
        ),
        key("namespace", Kind::Setting, "Which log in it; default anabranch"),
        key(
            "events_url",
            Kind::Setting,
            "The database of the events, if that is another than the consumers'",
        ),
        key("replica_set", Kind::Tables(&REPLICA_SET), "Consumers that run and scale together"),
        key("test", Kind::Tables(&TEST), "A test, run by `anabranch test` in a throwaway database"),
    ],
    later: &[],
};

const REPLICA_SET: Table = Table {
    name: "a replica set",
    about: "Consumers that run and scale together",
    keys: &[
        required("name", Kind::Text, "Its name: what workers are listed under"),
        key(
            "lanes",
            Kind::Integer { least: 1, most: 256 },
            "How many lanes each consumer has in a process: they run at the same time; default 1",
        ),
        GRACE,
        key(
            "rollout",
            Kind::Word(&["cooperative", "recreate"]),
            "How slots move when workers come and go; default cooperative: only those that move pause",
        ),
        key(
            "fail_fast",
            Kind::Truth,
            "Whether the run ends as soon as one consumer cannot go on; default false: it stops alone",
        ),
        key("tuning", Kind::Table(&TUNING), "Leases, heartbeats and time-outs"),
        key("projection", Kind::Tables(&PROJECTION), "A consumer in SQL, exactly once"),
        key("program", Kind::Tables(&PROGRAM), "A consumer in any language, exactly once"),
        key(
            "webhook",
            Kind::Tables(&WEBHOOK),
            "Events for another server, at least once, in order for each key",
        ),
        key(
            "pool",
            Kind::Tables(&POOL),
            "Tasks that a program runs, or another server, in order for each key",
        ),
        key("schedule", Kind::Tables(&SCHEDULE), "Recurring tasks and events, by cron"),
    ],
    later: &[],
};

const TUNING: Table = Table {
    name: "a tuning",
    about: "How the workers of a set keep together",
    keys: &[
        key(
            "preset",
            Kind::Word(&["default", "throughput", "latency", "stable"]),
            "What the other keys change; default: default",
        ),
        key(
            "lease",
            Kind::Duration,
            "How long others wait for a worker that shows no sign of life",
        ),
        key(
            "heartbeat",
            Kind::Duration,
            "How often a worker shows one; at most a third of the lease",
        ),
        key("coordination_timeout", Kind::Duration, "When a hand-over is reported as stuck"),
        key(
            "batch_size",
            COUNT,
            "The most events of one transaction, for consumers that do not say",
        ),
        key("poll", Kind::Duration, "How soon to look for new events when no wake comes"),
        key("rebalance", Kind::Text, "How often the load of slots is measured, or \"never\""),
    ],
    later: &[],
};

const RETRY_TABLE: Table = Table {
    name: "a retry",
    about: "How often what fails is tried, and what happens then",
    keys: &[
        key(
            "attempts",
            Kind::Integer { least: 1, most: u32::MAX as i64 },
            "How often it is tried, the first time included",
        ),
        key("first", Kind::Duration, "The wait after the first failure"),
        key(
            "factor",
            Kind::Integer { least: 1, most: 1_000 },
            "How many times longer each wait is than the one before",
        ),
        key("longest", Kind::Duration, "The longest wait"),
        key("lasting", Kind::Duration, "For how long it is tried, in the place of attempts"),
        key(
            "then",
            Kind::Word(&["park", "skip", "stop"]),
            "What happens then: its key waits for somebody, it is left out, or the consumer stops",
        ),
    ],
    later: &[],
};

const PROJECTION: Table = Table {
    name: "a projection",
    about: "Statements for each event: they commit with the cursor, exactly once",
    keys: &[
        NAME,
        PARTITION,
        HASH,
        SETUP,
        RESET,
        required(
            "on",
            Kind::Each(&Kind::Statements),
            "The statements for each type of event; \"*\" is for all others. :field stands for a value of the event: \
             :stream_id, :data.total, :data.items[0].sku, :metadata.user, :tag.show; a ? behind it makes one NULL \
             that is not there",
        ),
        key(
            "tables",
            Kind::Texts,
            "The tables that it writes, each of which stands in braces in its statements, as in INSERT INTO {totals}: \
             a rebuild gives a new version tables of its own",
        ),
        TAGS,
        CATEGORIES,
        TENANTS,
        RETRY,
        BATCH_SIZE,
        VERSION,
        START,
        AUDIT,
    ],
    later: &[],
};

const PROGRAM: Table = Table {
    name: "a program",
    about: "A program that gets events and answers with statements: they commit with the cursor, exactly once",
    keys: &[
        NAME,
        PARTITION,
        HASH,
        COMMAND,
        key("types", Kind::Texts, "Only events of one of these types"),
        TAGS,
        CATEGORIES,
        TENANTS,
        SETUP,
        RESET,
        ENV,
        TIMEOUT,
        GRACE,
        RETRY,
        BATCH_SIZE,
        VERSION,
        START,
        AUDIT,
    ],
    later: &[],
};

const TO: &str = "The address of the other server, as http://… or https://…";
const SECRET: Key = key(
    "secret",
    Kind::Secrets,
    "What messages are signed with: whsec_ and base64 of 24 to 64 bytes; a list of two while one replaces the other",
);
const HEADERS: Key = key("headers", Kind::Each(&Kind::Setting), "More headers of each message");
const PRIVATE_ADDRESSES: Key = key(
    "private_addresses",
    Kind::Truth,
    "Whether addresses that are not of the public internet may be reached; default false",
);

const WEBHOOK: Table = Table {
    name: "a webhook",
    about: "Events for another server, by the Standard Webhooks specification: at least once, in order for each key",
    keys: &[
        NAME,
        PARTITION,
        HASH,
        required("to", Kind::Setting, TO),
        SECRET,
        HEADERS,
        key(
            "batch",
            Kind::Integer { least: 1, most: 1_000 },
            "The most events of one message, all of one key; default 1",
        ),
        key(
            "concurrency",
            Kind::Integer { least: 1, most: 1_000 },
            "How many messages are under way at the same time, from all workers together; default 16",
        ),
        key(
            "max_per_second",
            Kind::Integer { least: 1, most: 1_000_000 },
            "How many messages are sent in a second, from all workers together; default: no limit",
        ),
        key("timeout", Kind::Duration, "How long an answer may take; default 20s"),
        PRIVATE_ADDRESSES,
        key("types", Kind::Texts, "Only events of one of these types"),
        TAGS,
        CATEGORIES,
        TENANTS,
        RETRY,
        BATCH_SIZE,
        START,
        AUDIT,
    ],
    later: &[],
};

const POOL: Table = Table {
    name: "a pool",
    about: "Tasks that a program runs, or another server, in order for each key",
    keys: &[
        NAME,
        key("command", Kind::Texts, COMMAND_ABOUT),
        key("to", Kind::Setting, TO),
        SECRET,
        HEADERS,
        PRIVATE_ADDRESSES,
        key(
            "effects",
            Kind::Word(&["outside", "database"]),
            "Where its effects are: outside (the default), at least once; or in the database, exactly once",
        ),
        ENV,
        TIMEOUT,
        GRACE,
        RETRY,
        key(
            "in_flight",
            COUNT,
            "How many tasks run at the same time in each process; default: lanes",
        ),
        key("max_parallelism", COUNT, "How many run at the same time in all processes together"),
        key("keep", Kind::Duration, "How long a task that has ended is kept; default 24h"),
        BATCH_SIZE,
    ],
    later: &[],
};

const SCHEDULE: Table = Table {
    name: "a schedule",
    about: "What comes again and again: a task that is enqueued, or an event that is appended",
    keys: &[
        key("name", Kind::Text, "Its name; default: made from what it does"),
        required("cron", Kind::Text, "When: minute hour day month weekday, or @daily and its like"),
        key("zone", Kind::Text, "The time zone, such as Europe/Berlin; default UTC"),
        key("enqueue", Kind::Table(&NEW_TASK), "The task"),
        key("append", Kind::Table(&NEW_EVENT), "The event"),
    ],
    later: &[],
};

const NEW_TASK: Table = Table {
    name: "a task",
    about: "A task to enqueue",
    keys: &[
        required("pool", Kind::Text, "The pool"),
        required("key", Kind::Text, "The key: tasks of one key are run in order"),
        key("payload", Kind::Any, "What the program gets; default null"),
    ],
    later: &[],
};

/// What an event has, wherever one is written in a file.
const NEW_EVENT: Table = Table {
    name: "an event",
    about: "An event to append",
    keys: &[
        required("stream", Kind::Text, "The stream, as CATEGORY:ID"),
        required("type", Kind::Text, "Its type"),
        key("data", Kind::Any, "Its data; default null"),
        key("metadata", Kind::Any, "Its metadata"),
        key("schema_version", COUNT, "The version of its schema"),
        key("tags", Kind::Texts, "Its tags"),
        key("customer", Kind::Text, "The customer"),
        key("tenant", Kind::Text, "The tenant"),
        key("correlation", Kind::Text, "What it belongs to"),
        key("causation", Kind::Text, "What caused it"),
    ],
    later: &[],
};

const TEST: Table = Table {
    name: "a test",
    about: "Events, and what is expected after they were handled",
    keys: &[
        key("name", Kind::Text, "Its name; default: its number"),
        key(
            "given",
            Kind::TablesOf(&GIVEN),
            "Events that are appended, tasks that are enqueued and statements that are executed, in this order, once all \
             `setup`s are",
        ),
        required(
            "then",
            Kind::TableOrTables(&THEN),
            "What is expected when all of that is handled",
        ),
        key(
            "on",
            Kind::Word(&DATABASES),
            "The database that it is for: it is left out on another; default: any",
        ),
    ],
    later: &[],
};

/// What a test begins with.
pub(super) const GIVEN: [&Table; 3] = [&NEW_EVENT, &NEW_TASK, &NEW_ROWS];

const NEW_ROWS: Table = Table {
    name: "a statement",
    about: "SQL to execute, such as an INSERT into a table that consumers only read",
    keys: &[required(
        "sql",
        Kind::Statements,
        "The statements; it is executed before the events and tasks that stand behind it",
    )],
    later: &[],
};

const THEN: Table = Table {
    name: "an expectation",
    about: "Rows of a query, what a program was sent or has answered, or what has failed",
    keys: &[
        key("sql", Kind::Text, "A query"),
        key("rows", Kind::Rows, "The rows that it must have, in this order"),
        key(
            "consumer",
            Kind::Text,
            "The program, webhook or pool that `sent` and `answered` are about",
        ),
        key(
            "sent",
            Kind::Any,
            "What it was sent: a list of events, tasks or messages, each with the fields that count",
        ),
        key(
            "answered",
            Kind::Any,
            "What it has answered: a list of messages, each with the fields that count",
        ),
        key(
            "appended",
            Kind::Any,
            "The events that consumers have appended, in this order, each with the fields that count",
        ),
        key(
            "parked",
            Kind::Texts,
            "The keys that have failed, of events or of tasks, each as CONSUMER KEY; default: none, or any if there is \
             an `error`",
        ),
        key("error", Kind::Text, "What one of these failures says, or a part of it"),
    ],
    later: &[],
};
