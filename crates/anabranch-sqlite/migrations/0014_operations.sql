-- What operators do: planned, applied, written down; and who may.

-- Plans: what an operation would do, counted, until somebody applies it or it expires.
CREATE TABLE {ns}_plans (
    id              TEXT    NOT NULL PRIMARY KEY,
    request         TEXT    NOT NULL,        -- what to do, as JSON
    basis           TEXT    NOT NULL,        -- what it was made on, as JSON: compared before it is applied
    effect          TEXT    NOT NULL,        -- what it would do, counted, as JSON
    who             TEXT    NOT NULL,
    via             TEXT    NOT NULL,        -- cli, api, console, library
    state           TEXT    NOT NULL,        -- open, running, done, failed, cancelled
    made_us         INTEGER NOT NULL,
    expires_us      INTEGER NOT NULL,
    began_us        INTEGER,
    ended_us        INTEGER,
    total           INTEGER NOT NULL,        -- how many things it is about
    target          TEXT    NOT NULL,
    done            INTEGER NOT NULL DEFAULT 0,
    gone            INTEGER NOT NULL DEFAULT 0, -- what was not there any more, or not as it was
    applied_by      TEXT,                    -- who applies it, which need not be who has made it
    applied_via     TEXT,                    -- cli, api, console, library: what a server goes on with if it was left
    after           TEXT,                    -- how far it is in what its filter finds
    runner          TEXT,                    -- the call that applies it
    runner_until_us INTEGER,                 -- step by step: until when no other one does
    problem         TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX {ns}_plans_made ON {ns}_plans (made_us);

-- Who did what, when, and what came of it. Rows are only added, each in the transaction of what it tells of.
CREATE TABLE {ns}_journal (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us     INTEGER NOT NULL,
    plan      TEXT    NOT NULL,
    stage     TEXT    NOT NULL,              -- applied; or began, then done, cancelled or failed
    verb      TEXT    NOT NULL,              -- pause, replay, retry_parked, …
    target    TEXT    NOT NULL,              -- a consumer, a pool, a replica set
    who       TEXT    NOT NULL,
    via       TEXT    NOT NULL,
    request   TEXT    NOT NULL,
    effect    TEXT    NOT NULL,              -- what the plan said
    outcome   TEXT                           -- what was done, as JSON
) STRICT;
CREATE INDEX {ns}_journal_target ON {ns}_journal (target, seq);
CREATE INDEX {ns}_journal_plan ON {ns}_journal (plan, seq);
CREATE TRIGGER {ns}_journal_unchanged BEFORE UPDATE ON {ns}_journal BEGIN
    SELECT RAISE(ABORT, 'the journal of operations is only added to');
END;
-- REPLACE deletes what it replaces without asking triggers.
CREATE TRIGGER {ns}_journal_added BEFORE INSERT ON {ns}_journal
    WHEN EXISTS (SELECT 1 FROM {ns}_journal WHERE seq = NEW.seq) BEGIN
    SELECT RAISE(ABORT, 'the journal of operations is only added to');
END;
CREATE TRIGGER {ns}_journal_kept BEFORE DELETE ON {ns}_journal BEGIN
    SELECT RAISE(ABORT, 'the journal of operations is only added to');
END;

-- Who may use the API. Of a token only its hash is kept.
CREATE TABLE {ns}_tokens (
    id         TEXT    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    hash       BLOB    NOT NULL UNIQUE,      -- SHA-256 of the token, which is random
    scopes     TEXT    NOT NULL,             -- read, read-masked, operate, append; with spaces
    consumers  TEXT,                         -- a JSON list; NULL: all
    tenants    TEXT,                         -- a JSON list; NULL: all
    made_us    INTEGER NOT NULL,
    made_by    TEXT    NOT NULL,
    expires_us INTEGER,
    used_us    INTEGER,                      -- when it was used last, to the minute
    revoked_us INTEGER
) STRICT, WITHOUT ROWID;
-- Browsers that have logged in with a token.
CREATE TABLE {ns}_sessions (
    hash       BLOB    NOT NULL PRIMARY KEY, -- SHA-256 of what the cookie holds
    token      TEXT    NOT NULL,
    made_us    INTEGER NOT NULL,
    expires_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Whether the code of a consumer can handle one key again, as it said when it started last; NULL: not known.
ALTER TABLE {ns}_consumers ADD COLUMN replays_keys INTEGER;
-- The events of keys that are to be handled again, until all of a key are there: then they go behind the key at once.
CREATE TABLE {ns}_replayed_events (
    consumer TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    position INTEGER NOT NULL,
    row_key  TEXT,                           -- the row of a view that it belongs to
    PRIMARY KEY (consumer, key, position)
) STRICT, WITHOUT ROWID;

-- Up to which event a skip goes that is asked for: what came behind the key later is tried. NULL: all, as older programs ask.
ALTER TABLE {ns}_parked_keys ADD COLUMN asked_to INTEGER;

INSERT INTO {ns}_migrations (version, name, admits) VALUES (14, 'operations', 5);
