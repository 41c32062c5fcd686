-- What identifies a consumer, stored and compared. New columns, so that running workers of the last
-- version do not stumble over them; NULL until a program of this version has run the consumer.
ALTER TABLE {ns}_consumers ADD COLUMN partition TEXT;    -- strategy with its names, and the hash rule
ALTER TABLE {ns}_consumers ADD COLUMN scope TEXT;        -- which events it handles, as JSON
-- What a program asked for that differs, until it is accepted.
ALTER TABLE {ns}_consumers ADD COLUMN wanted_scope TEXT;

-- The last position of the log when it was found to stand beyond it, until somebody says what to do: the
-- log may grow past it again.
ALTER TABLE {ns}_consumers ADD COLUMN beyond_log INTEGER;

-- The newest schema that a worker's program knows; NULL if it is older than this one.
ALTER TABLE {ns}_workers ADD COLUMN schema_version INTEGER;

-- Keys of handled events of consumers whose key is a function: computed again at each start.
CREATE TABLE {ns}_key_samples (
    consumer TEXT    NOT NULL,
    position INTEGER NOT NULL,
    key      TEXT    NOT NULL,
    event_id TEXT    NOT NULL,               -- another one may stand there if the log was emptied
    PRIMARY KEY (consumer, position)
) STRICT, WITHOUT ROWID;

-- Positions are never given twice, whoever deletes events: the highest one that is gone is kept, so
-- that appending costs nothing more.
INSERT INTO {ns}_settings VALUES ('deleted_up_to', '0');
CREATE TRIGGER {ns}_events_deleted AFTER DELETE ON {ns}_events BEGIN
    UPDATE {ns}_settings SET value = CAST(OLD.position AS TEXT)
    WHERE name = 'deleted_up_to' AND CAST(value AS INTEGER) < OLD.position;
END;

-- A running program of the last version does not know it, and would give positions again: it is refused.
CREATE TRIGGER {ns}_events_reused AFTER INSERT ON {ns}_events
WHEN NEW.position <= (SELECT CAST(value AS INTEGER) FROM {ns}_settings WHERE name = 'deleted_up_to') BEGIN
    SELECT RAISE(ABORT, 'this position was given before and its event deleted; use a program of the newest version');
END;
CREATE TRIGGER {ns}_events_moved AFTER UPDATE OF position ON {ns}_events
WHEN OLD.position <> NEW.position BEGIN
    UPDATE {ns}_settings SET value = CAST(OLD.position AS TEXT)
    WHERE name = 'deleted_up_to' AND CAST(value AS INTEGER) < OLD.position;
END;

-- For finding rows that two slots write (a debug mode): for which slot each row was written first,
-- and for which one is being written now; NULL: whoever writes is not watched.
CREATE TABLE {ns}_row_writers (
    consumer TEXT    NOT NULL,
    relation TEXT    NOT NULL,
    row_key  TEXT    NOT NULL,                -- id=7
    slot     INTEGER NOT NULL,
    event    TEXT    NOT NULL,
    PRIMARY KEY (consumer, relation, row_key)
) STRICT, WITHOUT ROWID;
CREATE TABLE {ns}_row_writing (
    one      INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    consumer TEXT,
    slot     INTEGER,
    event    TEXT
) STRICT;
INSERT INTO {ns}_row_writing (one) VALUES (1);

-- The oldest schema version whose programs may still start on this one.
ALTER TABLE {ns}_migrations ADD COLUMN admits INTEGER;
INSERT INTO {ns}_migrations (version, name, admits) VALUES (5, 'identity', 5);
