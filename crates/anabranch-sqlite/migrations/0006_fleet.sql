-- Who runs what. Workers of the last version have no rows here: what they run stands in their reports.
CREATE TABLE {ns}_runners (
    worker   TEXT    NOT NULL,
    consumer TEXT    NOT NULL,
    version  INTEGER NOT NULL,               -- which version of it
    unable   TEXT,                           -- why it cannot run it for the time being; NULL: it can
    since_us INTEGER NOT NULL,               -- since when that is so
    PRIMARY KEY (worker, consumer)
) STRICT, WITHOUT ROWID;

-- Who should own what of a consumer that not all workers of its set can run. A consumer without rows here
-- follows the assignments of its set.
CREATE TABLE {ns}_consumer_assignments (
    replica_set TEXT    NOT NULL,
    generation  INTEGER NOT NULL,
    consumer    TEXT    NOT NULL,
    worker      TEXT    NOT NULL,
    slots       BLOB    NOT NULL,
    PRIMARY KEY (replica_set, generation, consumer, worker)
) STRICT, WITHOUT ROWID;
-- How heavy the slots of such a consumer are, and when they were last moved for that.
CREATE TABLE {ns}_consumer_rates (
    replica_set TEXT    NOT NULL,
    consumer    TEXT    NOT NULL,
    rates       BLOB,
    rates_us    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (replica_set, consumer)
) STRICT, WITHOUT ROWID;
-- The last generation whose consumers were planned one by one. One that is newer was made by a worker of
-- the last version, and is completed by the next one.
ALTER TABLE {ns}_replica_sets ADD COLUMN planned INTEGER NOT NULL DEFAULT 0;

-- A consumer that fails wherever it runs has stopped by itself, and is probed now and then.
ALTER TABLE {ns}_consumers ADD COLUMN outage TEXT;       -- why; NULL: it runs
ALTER TABLE {ns}_consumers ADD COLUMN outage_since_us INTEGER;
-- How often it was tried since, and not before when it is tried again.
ALTER TABLE {ns}_consumers ADD COLUMN probes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {ns}_consumers ADD COLUMN probe_us INTEGER;
-- Whose event failed: its owner tries again.
ALTER TABLE {ns}_consumers ADD COLUMN outage_slot INTEGER;
-- The tables that it names, as JSON, so that a switch leaves none out.
ALTER TABLE {ns}_consumers ADD COLUMN own_tables TEXT;

-- What was done about a dead task already, so that its key went on: the tasks that were enqueued instead
-- of it, as JSON. NULL: it waits for somebody.
ALTER TABLE {ns}_tasks ADD COLUMN compensated TEXT;

INSERT INTO {ns}_migrations (version, name, admits) VALUES (6, 'fleet', 5);
