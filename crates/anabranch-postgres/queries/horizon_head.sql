-- First statement of the horizon: the last position drawn by anybody.
SELECT last_value FROM "{ns}".events_position
