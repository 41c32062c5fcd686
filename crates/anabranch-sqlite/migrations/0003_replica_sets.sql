-- Replica sets: who should own which slots. Who does own them is in the cursors.
CREATE TABLE {ns}_replica_sets (
    name       TEXT    NOT NULL PRIMARY KEY,
    generation INTEGER NOT NULL DEFAULT 0,   -- the number of the current assignment
    rollout    TEXT    NOT NULL,             -- cooperative or recreate
    rates      BLOB,                         -- events per second of each slot, as measured
    rates_us   INTEGER NOT NULL DEFAULT 0    -- when the slots were last moved for their load
) STRICT, WITHOUT ROWID;

-- The history of assignments, the current one included: when, why, who had what.
CREATE TABLE {ns}_generations (
    replica_set TEXT    NOT NULL,
    generation  INTEGER NOT NULL,
    at_us       INTEGER NOT NULL,
    reason      TEXT    NOT NULL,
    PRIMARY KEY (replica_set, generation)
) STRICT, WITHOUT ROWID;
CREATE TABLE {ns}_assignments (
    replica_set TEXT    NOT NULL,
    generation  INTEGER NOT NULL,
    worker      TEXT    NOT NULL,
    place       TEXT    NOT NULL,            -- host and process, for when the worker is gone
    slots       BLOB    NOT NULL,
    PRIMARY KEY (replica_set, generation, worker)
) STRICT, WITHOUT ROWID;

ALTER TABLE {ns}_workers ADD COLUMN fixed BLOB; -- the slots that it asks for; NULL: a fair share
-- It holds nothing of generations before this one.
ALTER TABLE {ns}_workers ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;
-- What its lanes do, for status.
ALTER TABLE {ns}_workers ADD COLUMN report TEXT NOT NULL DEFAULT '{}';

-- A consumer whose positions were imported before it first ran still has to be set up.
ALTER TABLE {ns}_consumers ADD COLUMN is_set_up INTEGER NOT NULL DEFAULT 1;
INSERT INTO {ns}_migrations (version, name) VALUES (3, 'replica sets');
