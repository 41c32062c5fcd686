-- Appends to PostgreSQL get a function here. The steps of both databases are counted alike; this one has nothing to do.
INSERT INTO {ns}_migrations (version, name, admits) VALUES (9, 'admission', 5);
