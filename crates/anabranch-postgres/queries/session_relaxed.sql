-- Asked for by the user: a crash of the server may lose the last appends.
SET synchronous_commit = off
