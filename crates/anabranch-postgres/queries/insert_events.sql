-- The rows get their positions in the order of the arrays.
WITH stored AS (
    INSERT INTO "{ns}".events (
        version, recorded_at, id, schema_version, entity_slot, customer_slot, saga_slot,
        category, stream_id, type, data, metadata, correlation, causation, tenant, customer, tags
    )
    SELECT
        version, (SELECT clock_timestamp()), id, schema_version, entity_slot, customer_slot,
        saga_slot, category, stream_id, type, data::json, metadata::json, correlation, causation,
        tenant, customer, string_to_array(tags, E'\n')
    FROM unnest(
        $1::int8[], $2::uuid[], $3::int4[], $4::int2[], $5::int2[], $6::int2[], $7::text[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[],
        $15::text[], $16::text[]
    ) WITH ORDINALITY AS new (
        version, id, schema_version, entity_slot, customer_slot, saga_slot, category, stream_id,
        type, data, metadata, correlation, causation, tenant, customer, tags, number
    )
    ORDER BY number
    RETURNING position, tags
), tagged AS (
    INSERT INTO "{ns}".event_tags (tag, position)
    SELECT tag, position FROM stored, unnest(tags) AS tag
)
SELECT position FROM stored
