SELECT
    position, version, id, recorded_us, category, stream_id, type, schema_version, data, metadata,
    correlation, causation, tenant, customer, tags, entity_slot, customer_slot, saga_slot, trace
FROM {ns}_events
