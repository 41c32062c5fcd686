-- Waits for the locks of a batch. They arrive sorted and unnest keeps their order, so two batches
-- cannot wait for each other. Returns nothing, since it gets them all.
SELECT key FROM (
    SELECT key, CASE WHEN exclusive
        THEN pg_advisory_xact_lock($1, key)::text
        ELSE pg_advisory_xact_lock_shared($1, key)::text
    END IS NOT NULL AS locked
    FROM unnest($2::int4[], $3::bool[]) AS wanted (key, exclusive)
    -- The mark, as in try_lock.sql. It comes last, so that who waits does not hold up readers.
    UNION ALL
    SELECT -1, pg_advisory_xact_lock_shared($4, drawn::bit(32)::int4)::text IS NOT NULL
    FROM (SELECT greatest(last_value - (NOT is_called)::int, 0) FROM "{ns}".events_position)
    AS position (drawn)
) AS taken
WHERE NOT locked
