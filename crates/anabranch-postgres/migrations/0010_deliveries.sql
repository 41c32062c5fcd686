-- The code of a consumer that is accepted, as a hash; and the one that a worker asked to run and nobody has accepted yet.
-- Consumers that say nothing about their code have none.
ALTER TABLE "{ns}".consumers ADD COLUMN code text;
ALTER TABLE "{ns}".consumers ADD COLUMN wanted_code text;

-- What was sent to endpoints of webhooks, or is to be. Of those that have arrived, the last are kept.
CREATE TABLE "{ns}".deliveries (
    consumer  text COLLATE "C" NOT NULL,
    id        text COLLATE "C" NOT NULL,     -- what the receiver knows it by
    key       text COLLATE "C" NOT NULL,
    first     bigint NOT NULL,               -- the position of its first event
    last      bigint NOT NULL,               -- and of its last: a delivery holds consecutive events of its key
    edition   bigint NOT NULL,             -- of the ids; see endpoints
    members   text NOT NULL,                 -- the positions of all of them
    state     text NOT NULL,                 -- open (not tried, or to be tried again), failed, delivered
    attempts  bigint NOT NULL,
    status    bigint,                        -- of the last attempt, if there was an answer
    took_us   bigint,
    answer    text,                          -- how the answer began, or why there was none
    at_us     bigint NOT NULL,
    failures  text,                          -- the last attempts that failed
    PRIMARY KEY (consumer, id)
);
CREATE INDEX deliveries_last ON "{ns}".deliveries (consumer, last);
CREATE INDEX deliveries_at ON "{ns}".deliveries (consumer, at_us);

-- When an endpoint may get its next request, over all workers, where there is a limit to them. And how often it was
-- replayed with new ids: those of the last replay are accepted by receivers that have seen the ones before.
CREATE TABLE "{ns}".endpoints (
    consumer text COLLATE "C" PRIMARY KEY,
    free_us  bigint NOT NULL,
    edition  bigint NOT NULL
);

INSERT INTO "{ns}".migrations (version, name, admits) VALUES (10, 'deliveries', 5);
