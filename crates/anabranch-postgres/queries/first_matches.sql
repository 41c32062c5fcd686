-- For each tag, the first event with it after a position. One short range of the index for each.
SELECT (
    SELECT t.position FROM "{ns}".event_tags AS t
    WHERE t.tag = condition.tag AND t.position > condition.after
        AND (SELECT true FROM "{ns}".events AS there WHERE there.position = t.position)
    ORDER BY t.position LIMIT 1
)
FROM unnest($1::text[], $2::int8[]) WITH ORDINALITY AS condition (tag, after, number)
ORDER BY number
