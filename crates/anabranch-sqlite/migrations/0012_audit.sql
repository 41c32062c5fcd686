-- What each commit handed to handlers, for consumers that are audited. A commit adds one row for each cursor that it
-- moves, by reading that cursor, and the cursor names its last row: so the rows of a cursor are a chain, which divides
-- and joins as its slots do. Ids are drawn behind the commits of their parents, and never again once they are pruned.
CREATE TABLE {ns}_audit (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    consumer      TEXT    NOT NULL,
    kind          TEXT    NOT NULL,          -- begin, step, join, retry, skip, replay, jump, proven
    parents       TEXT,                      -- ids, with commas; NULL for begin and proven
    slots         BLOB,                      -- NULL: those of the only parent
    from_position INTEGER NOT NULL,          -- of the cursor; of several, the lowest
    to_position   INTEGER NOT NULL,
    count         INTEGER NOT NULL,          -- of the events that the handler received
    digest        BLOB,                      -- of their positions and ids, in order; NULL without any
    handed        TEXT,                      -- their positions: of a retry, and with a custom key
    aside         TEXT,                      -- positions that were set aside instead
    skipped       TEXT,                      -- positions that were left out on purpose
    recorded_us   INTEGER NOT NULL
);
-- A proof reads the rows of one consumer, in their order.
CREATE INDEX {ns}_audit_by_consumer ON {ns}_audit (consumer, id);
-- The last row of its record; NULL where the consumer is not audited.
ALTER TABLE {ns}_cursors ADD COLUMN audit INTEGER;
-- Raised whenever the record begins, begins anew or is pruned; NULL where the consumer is not audited.
ALTER TABLE {ns}_consumers ADD COLUMN audit_edition INTEGER;
ALTER TABLE {ns}_consumers ADD COLUMN audit_since_us INTEGER;         -- when the record began
ALTER TABLE {ns}_consumers ADD COLUMN audit_proven_us INTEGER;        -- when it was last proven, and up to where
ALTER TABLE {ns}_consumers ADD COLUMN audit_proven_position INTEGER;
INSERT INTO {ns}_migrations (version, name, admits) VALUES (12, 'audit', 5);
