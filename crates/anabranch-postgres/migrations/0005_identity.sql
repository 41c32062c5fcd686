-- What identifies a consumer, stored and compared. New columns, so that running workers of the last
-- version do not stumble over them; NULL until a program of this version has run the consumer.
ALTER TABLE "{ns}".consumers
    ADD COLUMN partition    text,            -- strategy with its names, and the hash rule
    ADD COLUMN scope        text,            -- which events it handles, as JSON
    ADD COLUMN wanted_scope text;            -- what a program asked for that differs, until accepted

-- The last position of the log when it was found to stand beyond it, until somebody says what to do: the
-- log may grow past it again.
ALTER TABLE "{ns}".consumers ADD COLUMN beyond_log bigint;

-- The newest schema that a worker's program knows; NULL if it is older than this one.
ALTER TABLE "{ns}".workers ADD COLUMN schema_version bigint;

-- Keys of handled events of consumers whose key is a function: computed again at each start.
CREATE TABLE "{ns}".key_samples (
    consumer text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    key      text COLLATE "C" NOT NULL,
    event_id uuid NOT NULL,                  -- another one may stand there if the log was emptied
    PRIMARY KEY (consumer, position)
);

-- For finding rows that two slots write (a debug mode): for which slot each row was written first.
CREATE TABLE "{ns}".row_writers (
    consumer text COLLATE "C" NOT NULL,
    relation text COLLATE "C" NOT NULL,
    row_key  text COLLATE "C" NOT NULL,      -- id=7
    slot     bigint NOT NULL,
    event    text   NOT NULL,
    PRIMARY KEY (consumer, relation, row_key)
);
-- A trigger of each table that is watched. Its arguments are the table and the columns of its key;
-- where no slot is set, whoever writes is not watched. The insert waits for another lane that writes
-- the same row, and the look after it sees what that has committed.
CREATE FUNCTION "{ns}".watch_row() RETURNS trigger LANGUAGE plpgsql AS $watch$
DECLARE
    this_consumer text := current_setting('anabranch.consumer', true);
    this_slot     text := current_setting('anabranch.slot', true);
    this_event    text := current_setting('anabranch.event', true);
    written       jsonb[];
    this_row      jsonb;
    this_key      text;
    earlier       "{ns}".row_writers;
BEGIN
    IF coalesce(this_slot, '') = '' THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN written := array_append(written, to_jsonb(NEW)); END IF;
    IF TG_OP <> 'INSERT' THEN written := array_append(written, to_jsonb(OLD)); END IF;
    FOREACH this_row IN ARRAY written LOOP
        SELECT string_agg(name || '=' || coalesce(this_row ->> name, 'NULL'), ', ' ORDER BY place)
            INTO this_key FROM unnest(TG_ARGV[1:]) WITH ORDINALITY AS k (name, place);
        INSERT INTO "{ns}".row_writers VALUES
            (this_consumer, TG_ARGV[0], this_key, this_slot::bigint, this_event)
            ON CONFLICT DO NOTHING;
        SELECT * INTO earlier FROM "{ns}".row_writers
            WHERE consumer = this_consumer AND relation = TG_ARGV[0] AND row_key = this_key;
        IF earlier.slot <> this_slot::bigint THEN
            RAISE EXCEPTION 'row (%) of table % was written for slot % by %, and now for slot % by %: two lanes may write it at once',
                this_key, TG_ARGV[0], earlier.slot, earlier.event, this_slot, this_event;
        END IF;
    END LOOP;
    RETURN NULL;
END
$watch$;

-- Where TRUNCATE … RESTART IDENTITY begins: nobody reads an event at position 0.
ALTER SEQUENCE "{ns}".events_position START 1;

-- The oldest schema version whose programs may still start on this one.
ALTER TABLE "{ns}".migrations ADD COLUMN admits integer;
INSERT INTO "{ns}".migrations (version, name, admits) VALUES (5, 'identity', 5);
