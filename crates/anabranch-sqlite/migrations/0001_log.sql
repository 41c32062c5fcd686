-- The log. Positions are drawn under SQLite's one write lock, so they become visible in order.
CREATE TABLE {ns}_events (
    position       INTEGER PRIMARY KEY,
    id             BLOB    NOT NULL,           -- UUID, 16 bytes
    category       TEXT    NOT NULL,
    stream_id      TEXT    NOT NULL,
    version        INTEGER NOT NULL,           -- in its stream, from 1
    type           TEXT    NOT NULL,
    schema_version INTEGER NOT NULL,
    data           TEXT    NOT NULL,           -- JSON, byte for byte as it was appended
    metadata       TEXT,                       -- a JSON object
    correlation    TEXT,
    causation      TEXT,
    tenant         TEXT,
    customer       TEXT,
    tags           TEXT    NOT NULL,           -- joined with line feeds; {ns}_event_tags is for queries
    recorded_us    INTEGER NOT NULL,           -- microseconds since 1970
    entity_slot    INTEGER NOT NULL,           -- hash(stream_id) % 5040
    customer_slot  INTEGER,                    -- hash(customer) % 5040
    saga_slot      INTEGER                     -- hash(correlation) % 5040
) STRICT;

-- Makes an append idempotent: one id, one event.
CREATE UNIQUE INDEX {ns}_events_by_id ON {ns}_events (id);
-- Reads a stream, and refuses two events at one version.
CREATE UNIQUE INDEX {ns}_events_by_stream ON {ns}_events (category, stream_id, version);
-- Queries by type; SQLite adds the position to every index.
CREATE INDEX {ns}_events_by_type ON {ns}_events (type);

-- Queries by tag: a condition "after position p" is one short range of this table.
CREATE TABLE {ns}_event_tags (
    tag      TEXT    NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (tag, position)
) STRICT, WITHOUT ROWID;

-- What was chosen when the log was created, such as its hash rule.
CREATE TABLE {ns}_settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Which migrations have been applied.
CREATE TABLE {ns}_migrations (
    version    INTEGER NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    applied_us INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))
) STRICT;
INSERT INTO {ns}_migrations (version, name) VALUES (1, 'log');
