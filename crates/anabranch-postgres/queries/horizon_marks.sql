-- Second statement of the horizon: the marks of the appends in flight, and which of the keys in $3 each
-- holds: without one of a reader's keys it cannot store what that reader looks for. pg_locks is read
-- once, so that a mark and the keys of its transaction belong together.
WITH held AS MATERIALIZED (
    SELECT classid::int8 AS class, objid::int8 AS object, virtualtransaction AS holder, mode
    FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid::int8 IN ($1, $2)
)
SELECT mark.object, ARRAY (
    SELECT key.object FROM held AS key
    WHERE key.class = $2 AND key.holder = mark.holder AND key.object = ANY ($3::int8[])
)
FROM held AS mark
WHERE mark.class = $1 AND mark.mode = 'ShareLock'
