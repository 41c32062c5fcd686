-- The W3C trace context of the append, beside the event and not in it: a repeated append in another span is the same append.
ALTER TABLE "{ns}".events ADD COLUMN trace text;
ALTER TABLE "{ns}".tasks ADD COLUMN trace text;
INSERT INTO "{ns}".migrations (version, name, admits) VALUES (11, 'traces', 5);
