-- The last visible positions up to several bounds, one for each, in their order.
SELECT coalesce((SELECT max(position) FROM "{ns}".events WHERE position <= bound), 0)
FROM unnest($1::int8[]) WITH ORDINALITY AS wanted (bound, number)
ORDER BY number
