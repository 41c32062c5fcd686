-- What metrics and autoscalers read without a scan.

-- How many tasks each pool has in each state. One writes at a time, so each count is one row. A trigger's statements
-- take over how the statement before them deals with conflicts: so these have none.
CREATE TABLE {ns}_task_counts (
    pool  TEXT    NOT NULL,
    state INTEGER NOT NULL,
    delta INTEGER NOT NULL,
    PRIMARY KEY (pool, state)
) STRICT, WITHOUT ROWID;
INSERT INTO {ns}_task_counts SELECT pool, state, count(*) FROM {ns}_tasks GROUP BY pool, state;
CREATE TRIGGER {ns}_tasks_counted_in AFTER INSERT ON {ns}_tasks BEGIN
    INSERT INTO {ns}_task_counts SELECT NEW.pool, NEW.state, 0 WHERE NOT EXISTS
        (SELECT 1 FROM {ns}_task_counts WHERE pool = NEW.pool AND state = NEW.state);
    UPDATE {ns}_task_counts SET delta = delta + 1 WHERE pool = NEW.pool AND state = NEW.state;
END;
CREATE TRIGGER {ns}_tasks_counted_on AFTER UPDATE OF pool, state ON {ns}_tasks
WHEN NEW.state <> OLD.state OR NEW.pool <> OLD.pool BEGIN
    INSERT INTO {ns}_task_counts SELECT NEW.pool, NEW.state, 0 WHERE NOT EXISTS
        (SELECT 1 FROM {ns}_task_counts WHERE pool = NEW.pool AND state = NEW.state);
    UPDATE {ns}_task_counts SET delta = delta + 1 WHERE pool = NEW.pool AND state = NEW.state;
    UPDATE {ns}_task_counts SET delta = delta - 1 WHERE pool = OLD.pool AND state = OLD.state;
END;
CREATE TRIGGER {ns}_tasks_counted_out AFTER DELETE ON {ns}_tasks BEGIN
    UPDATE {ns}_task_counts SET delta = delta - 1 WHERE pool = OLD.pool AND state = OLD.state;
END;

-- The end of the log in this database: its last event, the last position that was ever drawn, and which it is.
CREATE VIEW {ns}_log_end AS
SELECT head, max(head, deleted) AS drawn, identity FROM (
    SELECT coalesce((SELECT max(position) FROM {ns}_events), 0) AS head,
        coalesce((SELECT CAST(value AS INTEGER) FROM {ns}_settings WHERE name = 'deleted_up_to'), 0) AS deleted,
        (SELECT value FROM {ns}_settings WHERE name = 'identity') AS identity
);

-- How old the first event is that a cursor has not passed; 0 if there is none.
CREATE VIEW {ns}_cursor_ages AS
SELECT c.id, max(coalesce((
    SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) - e.recorded_us
    FROM {ns}_events AS e WHERE e.position > c.position ORDER BY e.position LIMIT 1
), 0), 0) AS age_us
FROM {ns}_cursors AS c;

-- How far behind each consumer is, as `anabranch status` says it: for autoscalers. NULL where nobody can tell here.
-- Of what is parked, at most 10000 keys of a consumer and 1000 events of each are counted.
CREATE VIEW {ns}_lag AS
SELECT consumer,
    CASE WHEN NOT follows THEN ready + aside WHEN known THEN behind + passed END AS events,
    CASE WHEN NOT follows THEN ready WHEN known THEN max(behind + passed - parked, 0) END AS ready_events,
    CASE WHEN NOT follows OR known THEN age_us / 1000000.0 END AS seconds
FROM (
    SELECT c.consumer, c.follows, c.known, c.behind,
        CASE WHEN follows THEN (
            SELECT coalesce(sum((
                SELECT count(*) FROM (SELECT 1 FROM {ns}_parked_events AS e
                    WHERE e.consumer = k.consumer AND e.key = k.key AND e.position <= c.lowest LIMIT 1000)
            )), 0)
            FROM (SELECT * FROM {ns}_parked_keys WHERE consumer = c.consumer LIMIT 10000) AS k
        ) END AS passed,
        CASE WHEN follows THEN (
            SELECT coalesce(sum((
                SELECT count(*) FROM (SELECT 1 FROM {ns}_parked_events AS e
                    WHERE e.consumer = k.consumer AND e.key = k.key LIMIT 1000)
            )), 0)
            FROM (SELECT * FROM {ns}_parked_keys WHERE consumer = c.consumer LIMIT 10000) AS k
            WHERE k.retry_us IS NULL AND k.asked IS NULL
        ) END AS parked,
        CASE WHEN NOT follows THEN coalesce((
            SELECT t.delta FROM {ns}_task_counts AS t WHERE t.pool = c.consumer AND t.state = 0
        ), 0) + (
            SELECT count(*) FROM (SELECT 1 FROM {ns}_tasks AS t WHERE t.pool = c.consumer AND t.state = 1
                AND t.due_us <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
                AND NOT EXISTS (SELECT 1 FROM {ns}_held_keys AS h WHERE h.pool = t.pool AND h.key = t.key)
                LIMIT 10000)
        ) END AS ready,
        CASE WHEN NOT follows THEN (
            SELECT coalesce(sum((
                SELECT count(*) FROM (SELECT 1 FROM {ns}_tasks AS t
                    WHERE t.pool = c.consumer AND t.key = h.key AND t.state < 4 AND t.compensated IS NULL
                    AND (t.state <> 1 OR t.due_us <= CAST(unixepoch('subsec') * 1000000 AS INTEGER))
                    LIMIT 1000)
            )), 0)
            FROM (SELECT DISTINCT key FROM {ns}_held_keys WHERE pool = c.consumer LIMIT 10000) AS h
        ) END AS aside,
        CASE WHEN follows THEN max(coalesce((
            SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) - e.recorded_us
            FROM {ns}_events AS e WHERE e.position > c.lowest ORDER BY e.position LIMIT 1
        ), 0), 0) ELSE max(coalesce((
            SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) - t.enqueued_us
            FROM {ns}_tasks AS t WHERE t.pool = c.consumer AND t.state = 0 ORDER BY t.seq LIMIT 1
        ), 0), 0) END AS age_us
    FROM (
        SELECT consumer, lowest, max(head - lowest, 0) AS behind, follows,
            wound_back IS NULL AND furthest <= drawn AND is_own AS known
        FROM (
            SELECT c.name AS consumer, c.wound_back, log.head, log.drawn,
                c.kind IN ('projection', 'subscriber', 'webhook', 'view', 'rollup', 'imported') AS follows,
                coalesce(replace(lower(c.log_identity), '-', '') = log.identity, 1)
                    AND (c.reset_to IS NULL
                        OR coalesce(replace(lower(c.reset_log), '-', '') = log.identity, 1)) AS is_own,
                coalesce((SELECT min(k.position) FROM {ns}_cursors AS k WHERE k.consumer = c.name), 0) AS lowest,
                coalesce((SELECT max(k.position) FROM {ns}_cursors AS k WHERE k.consumer = c.name), 0) AS furthest
            FROM {ns}_consumers AS c CROSS JOIN {ns}_log_end AS log
        )
    ) AS c
);

INSERT INTO {ns}_migrations (version, name, admits) VALUES (13, 'watching', 5);
