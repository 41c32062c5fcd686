-- As try_lock.sql, but fails (division by zero) if it does not get them all.
SELECT 1 / bool_and(locked)::int FROM (
    SELECT CASE WHEN exclusive
        THEN pg_try_advisory_xact_lock($1, key)
        ELSE pg_try_advisory_xact_lock_shared($1, key)
    END AS locked
    FROM unnest($2::int4[], $3::bool[]) AS wanted (key, exclusive)
    UNION ALL
    SELECT pg_advisory_xact_lock_shared($4, drawn::bit(32)::int4)::text IS NOT NULL
    FROM (SELECT greatest(last_value - (NOT is_called)::int, 0) FROM "{ns}".events_position)
    AS position (drawn)
) AS tried
