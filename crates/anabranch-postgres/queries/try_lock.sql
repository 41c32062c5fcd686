-- Takes what it can get of the locks of a batch and never waits, so that one slow transaction
-- cannot hold up appends that have nothing to do with it. Returns the keys that it did not get.
SELECT key FROM (
    SELECT key, CASE WHEN exclusive
        THEN pg_try_advisory_xact_lock($1, key)
        ELSE pg_try_advisory_xact_lock_shared($1, key)
    END AS locked
    FROM unnest($2::int4[], $3::bool[]) AS wanted (key, exclusive)
    -- The mark: before an append draws its positions, it says so by a shared lock that carries the
    -- last position drawn by anybody (its low 32 bits). All its positions will be beyond that.
    UNION ALL
    SELECT -1, pg_advisory_xact_lock_shared($4, drawn::bit(32)::int4)::text IS NOT NULL
    FROM (SELECT greatest(last_value - (NOT is_called)::int, 0) FROM "{ns}".events_position)
    AS position (drawn)
) AS tried
WHERE NOT locked
