-- The W3C trace context of the append, beside the event and not in it: a repeated append in another span is the same append.
ALTER TABLE {ns}_events ADD COLUMN trace text;
ALTER TABLE {ns}_tasks ADD COLUMN trace text;
INSERT INTO {ns}_migrations (version, name, admits) VALUES (11, 'traces', 5);
