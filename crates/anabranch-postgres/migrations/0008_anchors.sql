-- A sequence draws positions ahead in the server's journal, and remembers for how many it need not write there
-- again. `ALTER SEQUENCE … START`, of step 5, wrote it anew and kept that number: the next 32 positions were in no
-- journal, and a server that crashed meanwhile drew them a second time. Set anew, the next one is written. Nobody
-- draws meanwhile, since that needs the table; and it comes first, so that nobody waits for this step with it.
LOCK TABLE "{ns}".events IN SHARE ROW EXCLUSIVE MODE;
SELECT setval('"{ns}".events_position',
              greatest(last_value, (SELECT coalesce(max(position), 0) FROM "{ns}".events)),
              is_called OR EXISTS (SELECT FROM "{ns}".events))
    FROM "{ns}".events_position;

-- Which log this is: cursors that are kept in another database belong to one log and no other.
INSERT INTO "{ns}".settings VALUES ('identity', replace(gen_random_uuid()::text, '-', ''));

-- Which log a consumer's cursors belong to. Those that were there before belong to the log in this database.
ALTER TABLE "{ns}".consumers ADD COLUMN log_identity uuid;
UPDATE "{ns}".consumers SET log_identity = (SELECT value::uuid FROM "{ns}".settings WHERE name = 'identity');
-- The log on which a replay was asked for, while it is not done: that one holds for no other.
ALTER TABLE "{ns}".consumers ADD COLUMN reset_log uuid;
-- Why it must not go on, if the log was found to be wound back: kept until somebody says where it goes on.
ALTER TABLE "{ns}".consumers ADD COLUMN wound_back text;
-- The last event of the log up to a cursor's position, where the log is in another database.
ALTER TABLE "{ns}".cursors ADD COLUMN anchor_position bigint;
ALTER TABLE "{ns}".cursors ADD COLUMN anchor_id uuid;
ALTER TABLE "{ns}".cursors ADD COLUMN anchor_recorded_us bigint;

INSERT INTO "{ns}".migrations (version, name, admits) VALUES (8, 'anchors', 5);
