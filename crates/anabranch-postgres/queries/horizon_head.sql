-- First statement of the horizon: the last position drawn by anybody, and the last that is visible. A
-- sequence that somebody has restarted shows the next one instead.
SELECT greatest(last_value - (NOT is_called)::int, 0),
    (SELECT coalesce(max(position), 0) FROM "{ns}".events)
FROM "{ns}".events_position
