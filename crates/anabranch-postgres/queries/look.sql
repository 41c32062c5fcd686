-- Which log this is, where it begins and ends, and which events stand where: in one statement, so at one moment.
SELECT
    (SELECT value FROM "{ns}".settings WHERE name = 'identity') AS identity,
    (SELECT min(position) FROM "{ns}".events) AS first,
    last.position AS last_position, last.id AS last_id, last.recorded_at AS last_recorded_at,
    head.position AS head_position, head.id AS head_id, head.recorded_at AS head_recorded_at,
    ARRAY(
        SELECT event.id FROM unnest($2::bigint[]) WITH ORDINALITY AS wanted (position, number)
        LEFT JOIN "{ns}".events AS event ON event.position = wanted.position
        ORDER BY wanted.number
    ) AS found_ids,
    ARRAY(
        SELECT event.recorded_at FROM unnest($2::bigint[]) WITH ORDINALITY AS wanted (position, number)
        LEFT JOIN "{ns}".events AS event ON event.position = wanted.position
        ORDER BY wanted.number
    ) AS found_recorded_at
FROM (SELECT 1) AS once
LEFT JOIN (
    SELECT position, id, recorded_at FROM "{ns}".events WHERE position <= $1 ORDER BY position DESC LIMIT 1
) AS last ON true
LEFT JOIN (
    SELECT position, id, recorded_at FROM "{ns}".events ORDER BY position DESC LIMIT 1
) AS head ON true
