-- Which log this is: cursors that are kept in another database belong to one log and no other.
INSERT INTO {ns}_settings VALUES ('identity', lower(hex(randomblob(16))));

-- Which log a consumer's cursors belong to. Those that were there before belong to the log in this database.
ALTER TABLE {ns}_consumers ADD COLUMN log_identity TEXT;
UPDATE {ns}_consumers SET log_identity = (SELECT value FROM {ns}_settings WHERE name = 'identity');
-- The log on which a replay was asked for, while it is not done: that one holds for no other.
ALTER TABLE {ns}_consumers ADD COLUMN reset_log TEXT;
-- Why it must not go on, if the log was found to be wound back: kept until somebody says where it goes on.
ALTER TABLE {ns}_consumers ADD COLUMN wound_back TEXT;
-- The last event of the log up to a cursor's position, where the log is in another database.
ALTER TABLE {ns}_cursors ADD COLUMN anchor_position INTEGER;
ALTER TABLE {ns}_cursors ADD COLUMN anchor_id TEXT;
ALTER TABLE {ns}_cursors ADD COLUMN anchor_recorded_us INTEGER;

INSERT INTO {ns}_migrations (version, name, admits) VALUES (8, 'anchors', 5);
