-- What metrics and autoscalers read without a scan.

-- How many tasks each pool has in each state: the sum of the deltas. Rows are only added by those who change tasks, so
-- that they never wait for one another here; a worker folds them now and then.
CREATE TABLE "{ns}".task_counts (
    id    bigint NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pool  text COLLATE "C" NOT NULL,
    state bigint NOT NULL,
    delta bigint NOT NULL
);
-- Programs that know nothing of the counters are counted as well, also where their role may write tasks only.
CREATE FUNCTION "{ns}".count_tasks() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $count$
BEGIN
    IF TG_TABLE_SCHEMA <> '{ns}' THEN
        -- The schema was renamed, and another log may have its old name by now.
        EXECUTE format('INSERT INTO %I.task_counts (pool, state, delta) SELECT pool, state, sum(delta) FROM ('
            || concat_ws(' UNION ALL ',
                CASE WHEN TG_OP <> 'DELETE' THEN 'SELECT pool, state, 1 AS delta FROM new_rows' END,
                CASE WHEN TG_OP <> 'INSERT' THEN 'SELECT pool, state, -1 AS delta FROM old_rows' END)
            || ') AS changed GROUP BY pool, state HAVING sum(delta) <> 0', TG_TABLE_SCHEMA);
    ELSIF TG_OP = 'INSERT' THEN
        INSERT INTO "{ns}".task_counts (pool, state, delta)
            SELECT pool, state, count(*) FROM new_rows GROUP BY pool, state;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO "{ns}".task_counts (pool, state, delta)
            SELECT pool, state, -count(*) FROM old_rows GROUP BY pool, state;
    ELSE
        INSERT INTO "{ns}".task_counts (pool, state, delta)
            SELECT pool, state, sum(delta) FROM (
                SELECT pool, state, 1 AS delta FROM new_rows
                UNION ALL SELECT pool, state, -1 FROM old_rows
            ) AS changed GROUP BY pool, state HAVING sum(delta) <> 0;
    END IF;
    RETURN NULL;
END
$count$;
-- Nobody changes tasks between the count and the triggers.
LOCK TABLE "{ns}".tasks IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO "{ns}".task_counts (pool, state, delta)
    SELECT pool, state, count(*) FROM "{ns}".tasks GROUP BY pool, state;
CREATE TRIGGER tasks_counted_in AFTER INSERT ON "{ns}".tasks
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION "{ns}".count_tasks();
CREATE TRIGGER tasks_counted_on AFTER UPDATE ON "{ns}".tasks
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION "{ns}".count_tasks();
CREATE TRIGGER tasks_counted_out AFTER DELETE ON "{ns}".tasks
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION "{ns}".count_tasks();

-- The end of the log in this database: its last visible event, the last position that was ever drawn, and which it is.
CREATE VIEW "{ns}".log_end AS
SELECT (SELECT coalesce(max(position), 0) FROM "{ns}".events) AS head,
    greatest(last_value - (NOT is_called)::int, 0) AS drawn,
    (SELECT value FROM "{ns}".settings WHERE name = 'identity') AS identity
FROM "{ns}".events_position;

-- How old the first event is that a cursor has not passed; 0 if there is none.
CREATE VIEW "{ns}".cursor_ages AS
SELECT c.id, greatest((
    SELECT CAST(extract(epoch FROM clock_timestamp() - e.recorded_at) * 1000000 AS bigint)
    FROM "{ns}".events AS e WHERE e.position > c.position ORDER BY e.position LIMIT 1
), 0) AS age_us
FROM "{ns}".cursors AS c;

-- How far behind each consumer is, as `anabranch status` says it: for autoscalers. NULL where nobody can tell here.
-- Of what is parked, at most 10000 keys of a consumer and 1000 events of each are counted.
CREATE VIEW "{ns}".lag AS
SELECT consumer,
    CASE WHEN NOT follows THEN ready + aside WHEN known THEN behind + passed END AS events,
    CASE WHEN NOT follows THEN ready WHEN known THEN greatest(behind + passed - parked, 0) END AS ready_events,
    CASE WHEN NOT follows OR known THEN age_us / 1000000.0::float8 END AS seconds
FROM (
    SELECT c.consumer, c.follows, c.known, c.behind,
        CASE WHEN follows THEN (
            SELECT coalesce(sum((
                SELECT count(*) FROM (SELECT FROM "{ns}".parked_events AS e
                    WHERE e.consumer = k.consumer AND e.key = k.key AND e.position <= c.lowest LIMIT 1000) AS found
            )), 0)::bigint
            FROM (SELECT * FROM "{ns}".parked_keys WHERE consumer = c.consumer LIMIT 10000) AS k
        ) END AS passed,
        CASE WHEN follows THEN (
            SELECT coalesce(sum((
                SELECT count(*) FROM (SELECT FROM "{ns}".parked_events AS e
                    WHERE e.consumer = k.consumer AND e.key = k.key LIMIT 1000) AS found
            )), 0)::bigint
            FROM (SELECT * FROM "{ns}".parked_keys WHERE consumer = c.consumer LIMIT 10000) AS k
            WHERE k.retry_us IS NULL AND k.asked IS NULL
        ) END AS parked,
        CASE WHEN NOT follows THEN (
            SELECT coalesce(sum(t.delta), 0)::bigint FROM "{ns}".task_counts AS t
            WHERE t.pool = c.consumer AND t.state = 0
        ) + (
            SELECT count(*) FROM (SELECT FROM "{ns}".tasks AS t WHERE t.pool = c.consumer AND t.state = 1
                AND t.due_us <= CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)
                AND NOT EXISTS (SELECT FROM "{ns}".held_keys AS h WHERE h.pool = t.pool AND h.key = t.key)
                LIMIT 10000) AS due
        ) END AS ready,
        CASE WHEN NOT follows THEN (
            SELECT coalesce(sum((
                SELECT count(*) FROM (SELECT FROM "{ns}".tasks AS t
                    WHERE t.pool = c.consumer AND t.key = h.key AND t.state < 4 AND t.compensated IS NULL
                    AND (t.state <> 1 OR t.due_us <= CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint))
                    LIMIT 1000) AS found
            )), 0)::bigint
            FROM (SELECT DISTINCT key FROM "{ns}".held_keys WHERE pool = c.consumer LIMIT 10000) AS h
        ) END AS aside,
        CASE WHEN follows THEN coalesce(greatest((
            SELECT extract(epoch FROM clock_timestamp() - e.recorded_at) * 1000000
            FROM "{ns}".events AS e WHERE e.position > c.lowest ORDER BY e.position LIMIT 1
        ), 0), 0) ELSE coalesce(greatest((
            SELECT extract(epoch FROM clock_timestamp()) * 1000000 - t.enqueued_us
            FROM "{ns}".tasks AS t WHERE t.pool = c.consumer AND t.state = 0 ORDER BY t.seq LIMIT 1
        ), 0), 0) END AS age_us
    FROM (
        SELECT c.name AS consumer, at.lowest, greatest(log.head - at.lowest, 0) AS behind,
            c.kind IN ('projection', 'subscriber', 'webhook', 'view', 'rollup', 'imported') AS follows,
            c.wound_back IS NULL AND at.furthest <= log.drawn
                AND coalesce(c.log_identity = log.identity::uuid, true)
                AND (c.reset_to IS NULL OR coalesce(c.reset_log = log.identity::uuid, true)) AS known
        FROM "{ns}".consumers AS c CROSS JOIN "{ns}".log_end AS log
        CROSS JOIN LATERAL (SELECT coalesce(min(k.position), 0) AS lowest, coalesce(max(k.position), 0) AS furthest
            FROM "{ns}".cursors AS k WHERE k.consumer = c.name) AS at
    ) AS c
) AS counted;

INSERT INTO "{ns}".migrations (version, name, admits) VALUES (13, 'watching', 5);
