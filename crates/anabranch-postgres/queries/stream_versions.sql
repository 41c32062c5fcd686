SELECT (
    SELECT version FROM "{ns}".events AS e
    WHERE e.category = wanted.category AND e.stream_id = wanted.stream_id
    ORDER BY version DESC LIMIT 1
)
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS wanted (category, stream_id, number)
ORDER BY number
