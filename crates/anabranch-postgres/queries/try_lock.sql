-- Takes what it can get of the locks of a batch and never waits, so that one slow transaction
-- cannot hold up appends that have nothing to do with it.
SELECT key, CASE WHEN exclusive
    THEN pg_try_advisory_xact_lock($1, key)
    ELSE pg_try_advisory_xact_lock_shared($1, key)
END
FROM unnest($2::int4[], $3::bool[]) AS wanted (key, exclusive)
