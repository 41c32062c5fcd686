-- A backslash in a string is one, whatever the server's default: statements of files are read so here, too.
SET standard_conforming_strings = on;
-- Asked for by the user: a crash of the server may lose the last appends.
SET synchronous_commit = off
