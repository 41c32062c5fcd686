-- Waits for the locks of a batch. They arrive sorted and unnest keeps their order, so two batches
-- cannot wait for each other.
SELECT CASE WHEN exclusive
    THEN pg_advisory_xact_lock($1, key)::text
    ELSE pg_advisory_xact_lock_shared($1, key)::text
END
FROM unnest($2::int4[], $3::bool[]) AS wanted (key, exclusive)
