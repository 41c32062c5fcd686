/** What a request is made of: new events, conditions, queries. */

/** @typedef {import("./index.js").NewEvent} NewEvent */
/** @typedef {import("./index.js").ToStream} ToStream */
/** @typedef {import("./index.js").Query} Query */
/** @typedef {import("./index.js").Wanted} Wanted */
/** @typedef {import("./index.js").AppendAllOptions} AppendAllOptions */

/** How a field is called in JSON. */
const FIELDS = new Map(
  Object.entries({ schemaVersion: "schema_version" }).concat(
    ["type", "data", "metadata", "tags", "tenant", "customer", "correlation", "causation", "id", "traceparent"].map(
      (name) => [name, name],
    ),
  ),
);

/**
 * As the API takes it.
 *
 * @param {NewEvent} event
 */
function newEvent(event) {
  /** @type {Record<string, unknown>} */
  const said = { type: event.type, data: null };
  for (const [name, value] of Object.entries(event)) {
    const field = FIELDS.get(name);
    // A name that is written wrong would leave something out, and nobody would notice.
    if (field === undefined) throw new TypeError(`an event has no ${name}; it has ${[...FIELDS.keys()].join(", ")}`);
    if (value !== undefined && value !== null) said[field] = value;
  }
  return said;
}

/**
 * As the API takes it.
 *
 * @param {ToStream} to
 */
export function toStream({ stream, events, expected = "any" }) {
  const given = /** @type {readonly NewEvent[]} */ (Array.isArray(events) ? events : [events]);
  return { stream, events: given.map(newEvent), expected };
}

/**
 * As the API takes it.
 *
 * @param {Query} query
 */
export function queryJson(query) {
  const items = query.map(({ types = [], tags = [] }) => ({ types: texts(types, "types"), tags: texts(tags, "tags") }));
  return { items };
}

/**
 * As the API takes it.
 *
 * @param {NonNullable<AppendAllOptions["unless"]>} unless
 */
export function unlessJson({ query, after }) {
  return { query: queryJson(query), after };
}

/**
 * Parameters that may be repeated.
 *
 * @param {Wanted} wanted
 * @returns {[string, string][]}
 */
export function parameters({ types = [], tags = [], categories = [], tenants = [] }) {
  const lists = Object.entries({ types, tags, category: categories, tenant: tenants });
  return lists.flatMap(([name, given]) =>
    texts(given, name).map((value) => /** @type {[string, string]} */ ([name, value])),
  );
}

/**
 * @param {readonly string[]} given
 * @param {string} what
 * @returns {string[]}
 */
function texts(given, what) {
  if (!Array.isArray(given)) throw new TypeError(`${what} are an array of texts`);
  return [...given];
}
