-- The last position ever drawn: that of the last event, or of one that was deleted.
SELECT max(
    coalesce((SELECT max(position) FROM {ns}_events), 0),
    coalesce((SELECT CAST(value AS INTEGER) FROM {ns}_settings WHERE name = 'deleted_up_to'), 0)
)
