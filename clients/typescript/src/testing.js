/** Handlers without a database: hand them events, look at what they answer. */

import { parse } from "./parse.js";
import { eventWork, taskWork } from "./run.js";
import { Batch } from "./tx.js";
import { encode } from "./values.js";

const ID = "00000000-0000-7000-8000-000000000001";

/**
 * @param {string} type
 * @param {unknown} [data]
 * @param {Record<string, unknown>} [more]
 * @returns {Record<string, any>}
 */
export function event(type, data = null, more = {}) {
  const raw = {
    position: 1,
    stream: "Test:1",
    version: 1,
    id: ID,
    type,
    schema_version: 1,
    data,
    metadata: null,
    correlation: null,
    causation: null,
    tenant: null,
    customer: null,
    tags: [],
    recorded_at: "2026-01-01T00:00:00Z",
  };
  // Only what is traced has a `traceparent`.
  const unknown = Object.keys(more).filter((name) => !(name in raw) && name !== "traceparent");
  if (unknown.length > 0) throw new TypeError(`an event has no ${unknown}`);
  return { ...raw, ...more };
}

/**
 * @param {any} handle
 * @param {Record<string, any>[]} events
 * @param {import("./testing.js").RehearseOptions} [options]
 */
export async function rehearse(handle, events, options = {}) {
  return play(eventWork(handle), { batch: 1, events }, options, () => "");
}

/**
 * @param {any} handle
 * @param {unknown} [payload]
 * @param {import("./testing.js").RehearseTaskOptions} [options]
 */
export async function rehearseTask(handle, payload = null, options = {}) {
  const { key = "test", attempt = 1, checkpoint = null } = options;
  const task = { id: ID, key, payload, attempt, idempotency_key: ID, checkpoint };
  return play(taskWork(handle), { batch: 1, tasks: [task] }, options, (more) => `{"done":1${more}}\n`);
}

/**
 * @param {import("./run.js").Work} work
 * @param {object} message
 * @param {import("./testing.js").RehearseOptions} options
 * @param {(more: string) => string} last
 */
async function play(work, message, { answer, database = "sqlite" }, last) {
  /** @type {any[]} */
  const said = [];
  const line = {
    /** @param {string} text */
    async write(text) {
      for (const written of text.split("\n").filter((it) => it !== "")) {
        const { batch, ...message } = parse(written);
        said.push(message);
      }
    },
    async read() {
      const asked = said.at(-1);
      if ("save" in asked) return { saved: true };
      if (answer === undefined) throw new Error(`the handler asks ${asked.query}; give rehearse an answer`);
      const rows = await answer(asked.query, asked.values);
      const columns = Object.keys(rows[0] ?? {});
      return { columns, rows: rows.map((row) => columns.map((name) => row[name])) };
    },
  };
  const batch = new Batch(line, 1, database, "test");
  const more = await work(parse(encode(message)), batch, { event: undefined });
  await batch.settle();
  if (batch.over !== undefined) throw batch.over;
  await batch.finish(last(more));
  return said;
}
