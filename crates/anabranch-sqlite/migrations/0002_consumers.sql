-- Consumers: who handles events, and how far they are.
CREATE TABLE {ns}_consumers (
    name      TEXT    NOT NULL PRIMARY KEY,
    kind      TEXT    NOT NULL,             -- projection, view, subscriber
    strategy  TEXT    NOT NULL,             -- entity, customer, saga, global, dcb, custom
    version   INTEGER NOT NULL,             -- of its tables: another one is refused
    paused    INTEGER NOT NULL DEFAULT 0,
    reset_to  INTEGER,                      -- asked for; done by the next worker that looks
    problem   TEXT,                      -- what could not be done for it
    generation INTEGER NOT NULL DEFAULT 0,  -- raised when all its cursors are taken from their owners
    slots     BLOB    NOT NULL              -- every slot that it has, 630 bytes
) STRICT, WITHOUT ROWID;

-- The cursors of a consumer hold each of its slots once (law 1), and move only where their epoch
-- matches (law 2).
CREATE TABLE {ns}_cursors (
    id        INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice: a former owner may know it
    consumer  TEXT    NOT NULL,
    slots     BLOB    NOT NULL,             -- bit s % 8 of byte s / 8 is slot s
    position  INTEGER NOT NULL,             -- all events of these slots up to here are done
    epoch     INTEGER NOT NULL,
    owner     TEXT                          -- a worker, or nobody
) STRICT;
CREATE INDEX {ns}_cursors_by_consumer ON {ns}_cursors (consumer);

-- Processes that run consumers. A worker whose lease is over owns nothing.
CREATE TABLE {ns}_workers (
    id          TEXT    NOT NULL PRIMARY KEY,
    replica_set TEXT    NOT NULL,
    host        TEXT    NOT NULL,
    pid         INTEGER NOT NULL,
    runs        TEXT    NOT NULL,           -- everything, or partition 1 of 3
    lanes       INTEGER NOT NULL,
    started_us  INTEGER NOT NULL,
    lease_us    INTEGER NOT NULL            -- until when, by the database's clock
) STRICT, WITHOUT ROWID;

-- Keys that failed, with the events that wait behind them.
CREATE TABLE {ns}_parked_keys (
    consumer  TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    slot      INTEGER NOT NULL,
    attempts  INTEGER NOT NULL,             -- how often its first event has failed
    error     TEXT    NOT NULL,
    since_us  INTEGER NOT NULL,
    retry_us  INTEGER,                      -- when it is tried again; NULL: when somebody asks
    asked     TEXT,                         -- what somebody asked for: retry, skip or skip-all
    PRIMARY KEY (consumer, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE {ns}_parked_events (
    consumer  TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    position  INTEGER NOT NULL,
    PRIMARY KEY (consumer, key, position)
) STRICT, WITHOUT ROWID;
-- Counts signals to workers: other processes watch it.
INSERT INTO {ns}_settings VALUES ('signals', '0');
INSERT INTO {ns}_migrations (version, name) VALUES (2, 'consumers');
