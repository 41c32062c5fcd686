-- The code of a consumer that is accepted, as a hash; and the one that a worker asked to run and nobody has accepted yet.
-- Consumers that say nothing about their code have none.
ALTER TABLE {ns}_consumers ADD COLUMN code TEXT;
ALTER TABLE {ns}_consumers ADD COLUMN wanted_code TEXT;

-- What was sent to endpoints of webhooks, or is to be. Of those that have arrived, the last are kept.
CREATE TABLE {ns}_deliveries (
    consumer  TEXT NOT NULL,
    id        TEXT NOT NULL,                 -- what the receiver knows it by
    key       TEXT NOT NULL,
    first     INTEGER NOT NULL,              -- the position of its first event
    last      INTEGER NOT NULL,              -- and of its last: a delivery holds consecutive events of its key
    edition   INTEGER NOT NULL,            -- of the ids; see endpoints
    members   TEXT NOT NULL,                 -- the positions of all of them
    state     TEXT NOT NULL,                 -- open (not tried, or to be tried again), failed, delivered
    attempts  INTEGER NOT NULL,
    status    INTEGER,                       -- of the last attempt, if there was an answer
    took_us   INTEGER,
    answer    TEXT,                          -- how the answer began, or why there was none
    at_us     INTEGER NOT NULL,
    failures  TEXT,                          -- the last attempts that failed
    PRIMARY KEY (consumer, id)
) WITHOUT ROWID;
CREATE INDEX {ns}_deliveries_last ON {ns}_deliveries (consumer, last);
CREATE INDEX {ns}_deliveries_at ON {ns}_deliveries (consumer, at_us);

-- When an endpoint may get its next request, over all workers, where there is a limit to them. And how often it was
-- replayed with new ids: those of the last replay are accepted by receivers that have seen the ones before.
CREATE TABLE {ns}_endpoints (
    consumer TEXT PRIMARY KEY,
    free_us  INTEGER NOT NULL,
    edition  INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO {ns}_migrations (version, name, admits) VALUES (10, 'deliveries', 5);
