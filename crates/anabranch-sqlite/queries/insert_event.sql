INSERT INTO {ns}_events (
    position, id, category, stream_id, version, type, schema_version, data, metadata,
    correlation, causation, tenant, customer, tags, recorded_us,
    entity_slot, customer_slot, saga_slot, trace
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
