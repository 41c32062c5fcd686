-- Transactions of workers that wait for a lock, who holds it, what that one does, and for how long.
SELECT waiting.application_name,
       blockers.pids,
       coalesce((SELECT concat_ws(': ', holder.state, left(holder.query, 200))
                 FROM pg_stat_activity AS holder
                 WHERE holder.pid = blockers.pids[1]), 'unknown'),
       (extract(epoch FROM clock_timestamp() - waiting.state_change) * 1000000)::bigint
FROM pg_stat_activity AS waiting,
     LATERAL (SELECT pg_blocking_pids(waiting.pid) AS pids) AS blockers
WHERE waiting.wait_event_type = 'Lock'
  AND starts_with(waiting.application_name, 'anabranch/')
  AND waiting.datname = current_database()
  AND cardinality(blockers.pids) > 0
