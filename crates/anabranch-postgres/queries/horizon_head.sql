-- First statement of the horizon: the last position drawn by anybody. A sequence that somebody has
-- restarted shows the next one instead.
SELECT greatest(last_value - (NOT is_called)::int, 0) FROM "{ns}".events_position
