-- An append is answered when it is on disk, whatever the server's default; a stronger one is kept.
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
