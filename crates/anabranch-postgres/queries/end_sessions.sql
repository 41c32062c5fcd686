-- $1: what the names of a worker's transactions begin with. Other roles' sessions are not ours to end.
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE starts_with(application_name, $1)
  AND datname = current_database()
  AND usesysid = (SELECT oid FROM pg_roles WHERE rolname = current_user)
  AND pid <> pg_backend_pid()
