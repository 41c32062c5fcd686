-- What identifies a consumer, stored and compared. New columns, so that running workers of the last
-- version do not stumble over them; NULL until a program of this version has run the consumer.
ALTER TABLE "{ns}".consumers
    ADD COLUMN partition    text,            -- strategy with its names, and the hash rule
    ADD COLUMN scope        text,            -- which events it handles, as JSON
    ADD COLUMN wanted_scope text;            -- what a program asked for that differs, until accepted

-- Keys of handled events of consumers whose key is a function: computed again at each start.
CREATE TABLE "{ns}".key_samples (
    consumer text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    key      text COLLATE "C" NOT NULL,
    PRIMARY KEY (consumer, position)
);

-- Where TRUNCATE … RESTART IDENTITY begins: nobody reads an event at position 0.
ALTER SEQUENCE "{ns}".events_position START 1;

-- The oldest schema version whose programs may still start on this one.
ALTER TABLE "{ns}".migrations ADD COLUMN admits integer;
INSERT INTO "{ns}".migrations (version, name, admits) VALUES (5, 'identity', 5);
