-- Tasks of work pools. A task is run by whoever owns the slot of its key, in the order of `seq`.
CREATE TABLE {ns}_tasks (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice: somebody may wait behind it
    id          TEXT    NOT NULL,             -- enqueueing it twice is enqueueing it once
    pool        TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    slot        INTEGER NOT NULL,             -- hash(key) % 5040
    state       INTEGER NOT NULL,             -- 0 ready, 1 scheduled, 2 held, 3 dead, 4 done, 5 cancelled
    due_us      INTEGER NOT NULL,             -- not before, by the database's clock; 0: at once
    attempts    INTEGER NOT NULL DEFAULT 0,   -- how often it has failed
    unique_key  TEXT,
    payload     TEXT    NOT NULL,
    checkpoint  TEXT,                         -- what it saved on its way
    result      TEXT,
    error       TEXT,                         -- what it said when it failed last
    then_run    TEXT,                         -- the task that follows it
    enqueued_us INTEGER NOT NULL,
    finished_us INTEGER
) STRICT;
CREATE UNIQUE INDEX {ns}_tasks_by_id ON {ns}_tasks (id);
-- What there is to do, in order.
CREATE INDEX {ns}_tasks_ready ON {ns}_tasks (pool, seq) WHERE state = 0;
-- What there will be to do.
CREATE INDEX {ns}_tasks_scheduled ON {ns}_tasks (pool, due_us) WHERE state = 1;
-- What is open of a key: behind one that waits, or to be cancelled.
CREATE INDEX {ns}_tasks_open ON {ns}_tasks (pool, key, seq) WHERE state < 4;
-- One open task for each unique key.
CREATE UNIQUE INDEX {ns}_tasks_unique ON {ns}_tasks (pool, unique_key)
    WHERE unique_key IS NOT NULL AND state < 3;
-- What may be forgotten.
CREATE INDEX {ns}_tasks_finished ON {ns}_tasks (pool, finished_us) WHERE state > 3;

-- Keys of which nothing is run: a task of theirs is dead, or somebody has paused them.
CREATE TABLE {ns}_held_keys (
    pool     TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    slot     INTEGER NOT NULL,
    why      TEXT    NOT NULL,                -- dead or paused
    since_us INTEGER NOT NULL,
    PRIMARY KEY (pool, key, why)
) STRICT, WITHOUT ROWID;

-- States of workflows at some of their versions, so that loading one reads few events.
CREATE TABLE {ns}_workflow_snapshots (
    workflow      TEXT    NOT NULL,
    id            TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    state_version INTEGER NOT NULL,           -- of the code that folded it
    mode          TEXT    NOT NULL,           -- running, paused or cancelled
    state         TEXT    NOT NULL,
    PRIMARY KEY (workflow, id, version)
) STRICT, WITHOUT ROWID;
-- Counts what was enqueued: other processes watch it.
INSERT INTO {ns}_settings VALUES ('tasks', '0');
INSERT INTO {ns}_migrations (version, name) VALUES (4, 'work');
