-- Before an append draws its positions, it says so: a shared lock that carries the last position
-- drawn by anybody (its low 32 bits). All positions of this append will be beyond it.
SELECT pg_advisory_xact_lock_shared($1, last_value::bit(32)::int4) FROM {ns}.events_position
