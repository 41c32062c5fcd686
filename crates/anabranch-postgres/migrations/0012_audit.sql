-- What each commit handed to handlers, for consumers that are audited. A commit adds one row for each cursor that it
-- moves, by reading that cursor, and the cursor names its last row: so the rows of a cursor are a chain, which divides
-- and joins as its slots do. Ids are drawn behind the commits of their parents, so a row has a higher id than they.
CREATE TABLE "{ns}".audit (
    id            bigint NOT NULL GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME "{ns}".audit_ids),
    consumer      text COLLATE "C" NOT NULL,
    kind          text   NOT NULL,           -- begin, step, join, retry, skip, replay, jump, proven
    parents       text,                      -- ids, with commas; NULL for begin and proven
    slots         bytea,                     -- NULL: those of the only parent
    from_position bigint NOT NULL,           -- of the cursor; of several, the lowest
    to_position   bigint NOT NULL,
    count         bigint NOT NULL,           -- of the events that the handler received
    digest        bytea,                     -- of their positions and ids, in order; NULL without any
    handed        text,                      -- their positions: of a retry, and with a custom key
    aside         text,                      -- positions that were set aside instead
    skipped       text,                      -- positions that were left out on purpose
    recorded_us   bigint NOT NULL,
    PRIMARY KEY (consumer, id)
);
-- The last row of its record; NULL where the consumer is not audited.
ALTER TABLE "{ns}".cursors ADD COLUMN audit bigint;
-- Raised whenever the record begins, begins anew or is pruned; NULL where the consumer is not audited.
ALTER TABLE "{ns}".consumers ADD COLUMN audit_edition bigint;
ALTER TABLE "{ns}".consumers ADD COLUMN audit_since_us bigint;        -- when the record began
ALTER TABLE "{ns}".consumers ADD COLUMN audit_proven_us bigint;       -- when it was last proven, and up to where
ALTER TABLE "{ns}".consumers ADD COLUMN audit_proven_position bigint;
INSERT INTO "{ns}".migrations (version, name, admits) VALUES (12, 'audit', 5);
