-- How many tasks of a pool may be in work at the same time: permits, leased to its workers. Those of a worker
-- whose lease is over are anybody's.
CREATE TABLE "{ns}".permits (
    pool     text COLLATE "C" NOT NULL,
    worker   text COLLATE "C" NOT NULL,
    held     bigint NOT NULL,                -- how many it has
    wanted   bigint NOT NULL,                -- how many more it waits for
    most     bigint NOT NULL,                -- the limit of the whole pool, as this worker knows it
    since_us bigint NOT NULL,                -- since when it waits: those who have waited longest come first
    PRIMARY KEY (pool, worker)
);
INSERT INTO "{ns}".migrations (version, name, admits) VALUES (7, 'permits', 5);
