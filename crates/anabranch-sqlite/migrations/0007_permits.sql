-- How many tasks of a pool may be in work at the same time: permits, leased to its workers. Those of a worker
-- whose lease is over are anybody's.
CREATE TABLE {ns}_permits (
    pool     TEXT    NOT NULL,
    worker   TEXT    NOT NULL,
    held     INTEGER NOT NULL,               -- how many it has
    wanted   INTEGER NOT NULL,               -- how many more it waits for
    most     INTEGER NOT NULL,               -- the limit of the whole pool, as this worker knows it
    since_us INTEGER NOT NULL,               -- since when it waits: those who have waited longest come first
    PRIMARY KEY (pool, worker)
) STRICT, WITHOUT ROWID;
-- Counts signals about permits: other processes watch it.
INSERT INTO {ns}_settings VALUES ('permits', '0');
INSERT INTO {ns}_migrations (version, name, admits) VALUES (7, 'permits', 5);
