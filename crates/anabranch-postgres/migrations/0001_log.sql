CREATE SCHEMA IF NOT EXISTS "{ns}";

-- Positions. The cache stays at 1 and 0 is drawn here, so that last_value is always the last
-- position drawn: the no-skip protocol reads it (queries/try_lock.sql, queries/horizon_head.sql).
CREATE SEQUENCE "{ns}".events_position MINVALUE 0 START 0 CACHE 1 NO CYCLE;
SELECT nextval('"{ns}".events_position');

CREATE TABLE "{ns}".events (
    position       bigint      NOT NULL DEFAULT nextval('"{ns}".events_position') PRIMARY KEY,
    version        bigint      NOT NULL,              -- in its stream, from 1
    recorded_at    timestamptz NOT NULL,
    id             uuid        NOT NULL,
    schema_version integer     NOT NULL,
    entity_slot    smallint    NOT NULL,              -- hash(stream_id) % 5040
    customer_slot  smallint,                          -- hash(customer) % 5040
    saga_slot      smallint,                          -- hash(correlation) % 5040
    category       text COLLATE "C" NOT NULL,
    stream_id      text COLLATE "C" NOT NULL,
    type           text COLLATE "C" NOT NULL,
    data           json        NOT NULL,              -- byte for byte as it was appended
    metadata       json,
    correlation    text COLLATE "C",
    causation      text COLLATE "C",
    tenant         text COLLATE "C",
    customer       text COLLATE "C",
    tags           text[] COLLATE "C" NOT NULL DEFAULT '{}'  -- "{ns}".event_tags is for queries
);
ALTER SEQUENCE "{ns}".events_position OWNED BY "{ns}".events.position;

-- Makes an append idempotent: one id, one event.
CREATE UNIQUE INDEX events_by_id ON "{ns}".events (id);
-- Reads a stream, and refuses two events at one version.
CREATE UNIQUE INDEX events_by_stream ON "{ns}".events (category, stream_id, version);
-- Queries by type.
CREATE INDEX events_by_type ON "{ns}".events (type, position);

-- Queries by tag: a condition "after position p" is one short range of this table.
CREATE TABLE "{ns}".event_tags (
    tag      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (tag, position)
);

-- What was chosen when the log was created, such as its hash rule.
CREATE TABLE "{ns}".settings (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);

-- Which migrations have been applied.
CREATE TABLE "{ns}".migrations (
    version    integer     NOT NULL PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO "{ns}".migrations (version, name) VALUES (1, 'log');
