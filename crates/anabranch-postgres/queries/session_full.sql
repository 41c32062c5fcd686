-- A backslash in a string is one, whatever the server's default: statements of files are read so here, too.
SET standard_conforming_strings = on;
-- An append is answered when it is on disk, whatever the server's default; a stronger one is kept.
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
