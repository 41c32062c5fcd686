-- A function that makes appends faster: without it, or for a role that may not call it, they work as before. It adds to
-- no table and locks none.
--
-- Whether a batch of appends may be stored as it is, decided where the rows are: one statement then does what took
-- a transaction of five (src/one_statement.rs). It takes the locks of the batch (src/keys.rs) without waiting and
-- leaves its mark (queries/try_lock.sql); then it looks where the streams stand, and whether something is there that
-- the batch must not meet. Its answer is where each stream stands, or NULL: then nothing is decided, nothing may be
-- written, and the batch goes the ordinary way, which finds out what to answer.
--
-- Each statement of a volatile function sees what was committed before *it* began, so what is looked at after the
-- locks is what they protect. That holds in READ COMMITTED only.
CREATE FUNCTION "{ns}".admit(
    key_class  integer, keys integer[], alone boolean[],
    mark_class integer,
    categories text[], stream_ids text[], versions bigint[], -- NULL, or none at all: wherever they stand
    ids        uuid[],                                       -- that the callers chose: none may be there
    tags       text[], afters bigint[]                       -- no event with this tag may be beyond that position
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    drawn  bigint;
    stands bigint[];
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN NULL;
    END IF;
    FOR number IN 1 .. cardinality(keys) LOOP
        IF alone[number] THEN
            IF NOT pg_try_advisory_xact_lock(key_class, keys[number]) THEN
                RETURN NULL;
            END IF;
        ELSIF NOT pg_try_advisory_xact_lock_shared(key_class, keys[number]) THEN
            RETURN NULL;
        END IF;
    END LOOP;

    -- As an expression and not as a query, which costs several times as much. A sequence that somebody has
    -- restarted has no last value.
    drawn := pg_sequence_last_value('"{ns}".events_position');
    IF drawn IS NULL THEN
        SELECT greatest(last_value - 1, 0) INTO drawn FROM "{ns}".events_position;
    END IF;
    -- Nobody takes a mark alone, so it is always free.
    IF NOT pg_try_advisory_xact_lock_shared(mark_class, drawn::bit(32)::integer) THEN
        RETURN NULL;
    END IF;

    IF cardinality(stream_ids) = 1 THEN
        SELECT ARRAY[e.version] INTO stands FROM "{ns}".events AS e
        WHERE e.category = categories[1] AND e.stream_id = stream_ids[1]
        ORDER BY e.version DESC LIMIT 1;
        stands := coalesce(stands, '{0}');
    ELSE
        SELECT array_agg(coalesce((
            SELECT e.version FROM "{ns}".events AS e
            WHERE e.category = wanted.category AND e.stream_id = wanted.stream_id
            ORDER BY e.version DESC LIMIT 1
        ), 0) ORDER BY wanted.number) INTO stands
        FROM unnest(categories, stream_ids) WITH ORDINALITY AS wanted (category, stream_id, number);
    END IF;
    FOR number IN 1 .. cardinality(versions) LOOP
        IF versions[number] <> stands[number] THEN
            RETURN NULL;
        END IF;
    END LOOP;

    -- What has a query in it is asked only where it must be: most appends have neither.
    IF cardinality(ids) > 0 THEN
        IF EXISTS (SELECT FROM "{ns}".events AS e WHERE e.id = ANY (admit.ids)) THEN
            RETURN NULL;
        END IF;
    END IF;
    IF cardinality(tags) > 0 THEN
        -- One short range of the index for each: a plan for all at once might read the whole table.
        IF EXISTS (
            SELECT FROM unnest(tags, afters) AS condition (tag, after)
            WHERE (
                SELECT t.position FROM "{ns}".event_tags AS t
                WHERE t.tag = condition.tag AND t.position > condition.after
                    -- The tags of an event that somebody has deleted may still be there.
                    AND (SELECT true FROM "{ns}".events AS there WHERE there.position = t.position)
                ORDER BY t.position LIMIT 1
            ) IS NOT NULL
        ) THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN stands;
END $$;

INSERT INTO "{ns}".migrations (version, name, admits) VALUES (9, 'admission', 5);
