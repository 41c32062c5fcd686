-- Consumers: who handles events, and how far they are.
CREATE TABLE "{ns}".consumers (
    name      text COLLATE "C" NOT NULL PRIMARY KEY,
    kind      text     NOT NULL,             -- projection, view, subscriber
    strategy  text     NOT NULL,             -- entity, customer, saga, global, dcb, custom
    version   bigint   NOT NULL,             -- of its tables: another one is refused
    paused    boolean  NOT NULL DEFAULT false,
    reset_to  bigint,                        -- asked for; done by the next worker that looks
    problem   text,                      -- what could not be done for it
    generation bigint  NOT NULL DEFAULT 0,   -- raised when all its cursors are taken from their owners
    slots     bytea    NOT NULL              -- every slot that it has, 630 bytes
);

-- The cursors of a consumer hold each of its slots once (law 1), and move only where their epoch
-- matches (law 2). A row changes with every batch, so pages keep room for its next version.
CREATE TABLE "{ns}".cursors (
    id        bigint   NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer  text COLLATE "C" NOT NULL,
    position  bigint   NOT NULL,             -- all events of these slots up to here are done
    epoch     bigint   NOT NULL,
    owner     text,                          -- a worker, or nobody
    slots     bytea    NOT NULL              -- bit s % 8 of byte s / 8 is slot s
) WITH (fillfactor = 50);
CREATE INDEX cursors_by_consumer ON "{ns}".cursors (consumer);

-- Processes that run consumers. A worker whose lease is over owns nothing.
CREATE TABLE "{ns}".workers (
    id          text COLLATE "C" NOT NULL PRIMARY KEY,
    replica_set text     NOT NULL,
    host        text     NOT NULL,
    pid         bigint   NOT NULL,
    runs        text     NOT NULL,           -- everything, or partition 1 of 3
    lanes       bigint   NOT NULL,
    started_us  bigint   NOT NULL,
    lease_us    bigint   NOT NULL            -- until when, by the database's clock
);

-- Keys that failed, with the events that wait behind them.
CREATE TABLE "{ns}".parked_keys (
    consumer  text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    slot      bigint   NOT NULL,
    attempts  bigint   NOT NULL,             -- how often its first event has failed
    error     text     NOT NULL,
    since_us  bigint   NOT NULL,
    retry_us  bigint,                        -- when it is tried again; NULL: when somebody asks
    asked     text,                          -- what somebody asked for: retry, skip or skip-all
    PRIMARY KEY (consumer, key)
);
CREATE TABLE "{ns}".parked_events (
    consumer  text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    position  bigint   NOT NULL,
    PRIMARY KEY (consumer, key, position)
);
INSERT INTO "{ns}".migrations (version, name) VALUES (2, 'consumers');
