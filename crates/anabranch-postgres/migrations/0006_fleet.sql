-- Who runs what. Workers of the last version have no rows here: what they run stands in their reports.
CREATE TABLE "{ns}".runners (
    worker   text COLLATE "C" NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    version  bigint NOT NULL,                -- which version of it
    unable   text,                           -- why it cannot run it for the time being; NULL: it can
    since_us bigint NOT NULL,                -- since when that is so
    PRIMARY KEY (worker, consumer)
);

-- Who should own what of a consumer that not all workers of its set can run. A consumer without rows here
-- follows the assignments of its set.
CREATE TABLE "{ns}".consumer_assignments (
    replica_set text COLLATE "C" NOT NULL,
    generation  bigint NOT NULL,
    consumer    text COLLATE "C" NOT NULL,
    worker      text COLLATE "C" NOT NULL,
    slots       bytea  NOT NULL,
    PRIMARY KEY (replica_set, generation, consumer, worker)
);
-- How heavy the slots of such a consumer are, and when they were last moved for that.
CREATE TABLE "{ns}".consumer_rates (
    replica_set text COLLATE "C" NOT NULL,
    consumer    text COLLATE "C" NOT NULL,
    rates       bytea,
    rates_us    bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (replica_set, consumer)
);
-- The last generation whose consumers were planned one by one. One that is newer was made by a worker of
-- the last version, and is completed by the next one.
ALTER TABLE "{ns}".replica_sets ADD COLUMN planned bigint NOT NULL DEFAULT 0;

-- A consumer that fails wherever it runs has stopped by itself, and is probed now and then.
ALTER TABLE "{ns}".consumers
    ADD COLUMN outage          text,         -- why; NULL: it runs
    ADD COLUMN outage_since_us bigint,
    ADD COLUMN probes          bigint NOT NULL DEFAULT 0, -- how often it was tried since
    ADD COLUMN probe_us        bigint,       -- not before this it is tried again
    ADD COLUMN outage_slot     bigint,       -- whose event failed: its owner tries again
    ADD COLUMN own_tables      json;         -- the tables that it names, so that a switch leaves none out

-- What was done about a dead task already, so that its key went on: the tasks that were enqueued instead
-- of it, as JSON. NULL: it waits for somebody.
ALTER TABLE "{ns}".tasks ADD COLUMN compensated json;

INSERT INTO "{ns}".migrations (version, name, admits) VALUES (6, 'fleet', 5);
