-- Tasks of work pools. A task is run by whoever owns the slot of its key, in the order of `seq`.
CREATE TABLE "{ns}".tasks (
    id          uuid     NOT NULL PRIMARY KEY, -- enqueueing it twice is enqueueing it once
    seq         bigint   NOT NULL GENERATED ALWAYS AS IDENTITY,
    pool        text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    slot        bigint   NOT NULL,             -- hash(key) % 5040
    state       bigint   NOT NULL,             -- 0 ready, 1 scheduled, 2 held, 3 dead, 4 done, 5 cancelled
    due_us      bigint   NOT NULL,             -- not before, by the database's clock; 0: at once
    attempts    bigint   NOT NULL DEFAULT 0,   -- how often it has failed
    unique_key  text COLLATE "C",
    payload     json     NOT NULL,
    checkpoint  json,                          -- what it saved on its way
    result      json,
    error       text,                          -- what it said when it failed last
    then_run    json,                          -- the task that follows it
    enqueued_us bigint   NOT NULL,
    finished_us bigint
);
-- What there is to do, in order.
CREATE INDEX tasks_ready ON "{ns}".tasks (pool, seq) WHERE state = 0;
-- What there will be to do.
CREATE INDEX tasks_scheduled ON "{ns}".tasks (pool, due_us) WHERE state = 1;
-- What is open of a key: behind one that waits, or to be cancelled.
CREATE INDEX tasks_open ON "{ns}".tasks (pool, key, seq) WHERE state < 4;
-- One open task for each unique key.
CREATE UNIQUE INDEX tasks_unique ON "{ns}".tasks (pool, unique_key)
    WHERE unique_key IS NOT NULL AND state < 3;
-- What may be forgotten.
CREATE INDEX tasks_finished ON "{ns}".tasks (pool, finished_us) WHERE state > 3;

-- Keys of which nothing is run: a task of theirs is dead, or somebody has paused them.
CREATE TABLE "{ns}".held_keys (
    pool     text COLLATE "C" NOT NULL,
    key      text COLLATE "C" NOT NULL,
    slot     bigint NOT NULL,
    why      text   NOT NULL,                  -- dead or paused
    since_us bigint NOT NULL,
    PRIMARY KEY (pool, key, why)
);

-- States of workflows at some of their versions, so that loading one reads few events.
CREATE TABLE "{ns}".workflow_snapshots (
    workflow      text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    version       bigint NOT NULL,
    state_version bigint NOT NULL,             -- of the code that folded it
    mode          text   NOT NULL,             -- running, paused or cancelled
    state         json   NOT NULL,
    PRIMARY KEY (workflow, id, version)
);
INSERT INTO "{ns}".migrations (version, name) VALUES (4, 'work');
