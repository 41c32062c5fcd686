-- What follows the columns of the events: the first events of each of several tags, each from a position of
-- its own on.
JOIN (
    SELECT wanted.number, found.position AS found_at
    FROM unnest($1::int4[], $2::text[], $3::int8[], $4::int8[]) AS wanted (number, tag, after, most)
    CROSS JOIN LATERAL (
        SELECT position FROM "{ns}".event_tags AS t
        WHERE t.tag = wanted.tag AND t.position > wanted.after
            -- Else the tags of events that somebody has deleted would use up the limit.
            AND (SELECT true FROM "{ns}".events AS there WHERE there.position = t.position)
        ORDER BY position LIMIT wanted.most
    ) AS found
) AS tagged ON tagged.found_at = event.position
