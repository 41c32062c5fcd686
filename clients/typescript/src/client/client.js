/** What can be asked of the server. */

import { randomUUID } from "node:crypto";
import { Plan, TaskStatus } from "./answers.js";
import { parameters, queryJson, toStream, unlessJson } from "./given.js";
import { Http, decoded, path } from "./http.js";
import { CommandRefused, StillOpen, StillRunning } from "./problems.js";
import { items, members } from "./slices.js";
import { StoredEvent } from "./stored.js";
import { Tail } from "./tail.js";

/** @typedef {string | Plan} WhichPlan */

/** So many events are asked for at a time. */
const PAGE = 500;
/** So many seconds one request waits for a task. */
const WAIT = 20;
/** So many seconds pass before a plan that is running is looked at again: at first, and at most. */
const LOOK = { first: 0.05, most: 2 };

/**
 * @param {string} url
 * @param {string | null} [token]
 * @param {import("./index.js").ConnectOptions} [options]
 */
export function connect(url, token = null, { timeout = 35, retryFor = 30 } = {}) {
  return new Client(new Http(url, token, { timeout, retryFor }));
}

export class Client {
  #http;

  /** @param {Http} http */
  constructor(http) {
    this.#http = http;
  }

  // Events

  /**
   * @param {string} stream
   * @param {import("./index.js").NewEvent | readonly import("./index.js").NewEvent[]} events
   * @param {import("./index.js").AppendOptions} [options]
   */
  append(stream, events, { expected = "any", idempotencyKey } = {}) {
    return this.appendAll([{ stream, events, expected }], { idempotencyKey });
  }

  /**
   * @param {readonly import("./index.js").ToStream[]} streams
   * @param {import("./index.js").AppendAllOptions} [options]
   * @returns {Promise<import("./index.js").Appended>}
   */
  async appendAll(streams, { unless, idempotencyKey = randomUUID() } = {}) {
    const condition = unless === undefined ? {} : { unless: unlessJson(unless) };
    return this.#post(path("append"), { streams: streams.map(toStream), ...condition }, { key: idempotencyKey });
  }

  /**
   * @param {string} stream
   * @param {import("./index.js").ReadStreamOptions} [options]
   */
  readStream(stream, { start, backwards = false, limit } = {}) {
    const colon = stream.indexOf(":");
    if (colon < 0) throw new TypeError(`${stream} is no stream; write Category:id`);
    const place = path("streams", stream.slice(0, colon), stream.slice(colon + 1));
    return this.#events(start, limit, (at, most) =>
      this.#http.get(place, [["from", at], ["limit", most], ["direction", way(backwards)]]),
    );
  }

  /** @param {import("./index.js").ReadOptions} [options] */
  read({ after, backwards = false, limit, ...wanted } = {}) {
    const asked = parameters(wanted);
    return this.#events(after, limit, (at, most) =>
      this.#http.get(path("events"), [...asked, ["after", at], ["limit", most], ["direction", way(backwards)]]),
    );
  }

  /**
   * @param {import("./index.js").Query} query
   * @param {import("./index.js").QueryOptions} [options]
   */
  query(query, { after, backwards = false, limit, categories = [], tenants = [] } = {}) {
    const asked = { query: queryJson(query), categories, tenants, direction: way(backwards) };
    return this.#events(after, limit, (at, most) =>
      this.#http.post(path("query"), { ...asked, after: at ?? null, limit: most }, { again: true }),
    );
  }

  /**
   * @param {string | number | undefined} at
   * @param {number | undefined} limit
   * @param {(at: string | number | undefined, most: number) => Promise<string>} page
   */
  async *#events(at, limit, page) {
    for await (const text of pages(at, limit, page)) yield new StoredEvent(text);
  }

  /** @param {string | number} which */
  async event(which) {
    const place = path("events", String(which));
    const found = decoded(await this.#http.get(place), place, members);
    return new StoredEvent(found.get("event") ?? "");
  }

  /** @param {import("./index.js").TailOptions} [options] */
  tail({ after, silence, onInterrupted, ...wanted } = {}) {
    return new Tail(this.#http, parameters(wanted), { after, silence, onInterrupted });
  }

  // Tasks and commands

  /**
   * @param {string} pool
   * @param {string} key
   * @param {unknown} [payload]
   * @param {import("./index.js").EnqueueOptions} [options]
   * @returns {Promise<import("./index.js").Enqueued>}
   */
  async enqueue(pool, key, payload = null, { after, at, unique, id, idempotencyKey = randomUUID() } = {}) {
    const when = after === undefined ? {} : { delay_ms: Math.round(after * 1000) };
    const body = { key, payload, ...when, run_at: at, unique, id };
    const said = await this.#post(path("pools", pool, "tasks"), body, { key: idempotencyKey });
    return { id: said.id, isNew: said.is_new };
  }

  /** @param {string} id */
  async task(id) {
    return new TaskStatus(await this.#get(path("tasks", id)));
  }

  /**
   * @param {string | {id: string}} task
   * @param {{timeout?: number}} [options]
   */
  async wait(task, { timeout = Infinity } = {}) {
    const place = path("tasks", typeof task === "string" ? task : task.id, "wait");
    const deadline = performance.now() + timeout * 1000;
    for (;;) {
      const left = Math.max(0, (deadline - performance.now()) / 1000);
      const seconds = Math.ceil(Math.min(WAIT, left));
      const status = new TaskStatus(await this.#get(place, [["seconds", seconds]], seconds));
      if (!status.isOpen) return status;
      if (performance.now() >= deadline) throw new StillOpen(status);
    }
  }

  /**
   * @param {string} workflow
   * @param {string} instance
   * @param {unknown} command
   * @param {import("./index.js").CommandOptions} [options]
   * @returns {Promise<import("./index.js").SentCommand>}
   */
  async sendCommand(workflow, instance, command, { id, idempotencyKey = randomUUID() } = {}) {
    const place = path("workflows", workflow, instance, "commands");
    const said = await this.#post(place, { command, id }, { key: idempotencyKey });
    return { commandId: said.command_id, id: said.id, isNew: said.is_new };
  }

  /**
   * @param {import("./index.js").SentCommand} sent
   * @param {{timeout?: number}} [options]
   * @returns {Promise<import("./index.js").CommandDone>}
   */
  async waitForCommand(sent, options) {
    const task = await this.wait(sent, options);
    if (task.masked) throw new CommandRefused("masked", "this token may not see what came of it");
    if (task.state !== "done") throw new CommandRefused(task.state, task.error);
    const { result } = task;
    if (result?.done) return { events: result.done.events, version: result.done.version };
    for (const outcome of ["rejected", "unreadable"]) {
      if (result?.[outcome]) throw new CommandRefused(outcome, result[outcome].why);
    }
    throw new CommandRefused(String(result), null);
  }

  // Operations

  /** @param {import("./index.js").Operation} operation */
  async plan(operation) {
    return new Plan(await this.#post(path("plans"), operation));
  }

  /** @param {WhichPlan} plan */
  async showPlan(plan) {
    return new Plan(await this.#get(path("plans", idOf(plan))));
  }

  /** @param {WhichPlan} plan */
  async apply(plan) {
    return new Plan(await this.#post(path("plans", idOf(plan), "apply"), undefined));
  }

  /**
   * @param {WhichPlan} plan
   * @param {{timeout?: number}} [options]
   */
  async waitForPlan(plan, { timeout = Infinity } = {}) {
    const deadline = performance.now() + timeout * 1000;
    for (let pause = LOOK.first; ; pause = Math.min(2 * pause, LOOK.most)) {
      const now = await this.showPlan(plan);
      if (now.state !== "running") return now;
      const left = (deadline - performance.now()) / 1000;
      if (left <= 0) throw new StillRunning(now);
      await new Promise((done) => setTimeout(() => done(undefined), Math.min(pause, left) * 1000));
    }
  }

  /** @param {WhichPlan} plan */
  async cancel(plan) {
    return new Plan(await this.#post(path("plans", idOf(plan), "cancel"), undefined));
  }

  /**
   * @param {import("./index.js").JournalOptions} [options]
   * @returns {AsyncGenerator<Record<string, any>, void, undefined>}
   */
  async *journal({ target, plan, limit } = {}) {
    const of = plan === undefined ? undefined : idOf(plan);
    const page = (/** @type {string | number | undefined} */ before, /** @type {number} */ most) =>
      this.#http.get(path("journal"), [["target", target], ["plan", of], ["before", before], ["limit", most]]);
    for await (const text of pages(undefined, limit, page)) yield decoded(text, "GET /v1/journal");
  }

  /**
   * @param {string} place
   * @param {import("./http.js").Parameters} [asked]
   * @param {number} [seconds]
   */
  async #get(place, asked, seconds) {
    return decoded(await this.#http.get(place, asked, seconds), place);
  }

  /**
   * @param {string} place
   * @param {unknown} body
   * @param {{key?: string}} [how]
   */
  async #post(place, body, how) {
    return decoded(await this.#http.post(place, body, how), place);
  }
}

/**
 * The items of a list, each as it is written. A page may be shorter than was asked for, or empty, and still not be the last.
 *
 * @param {string | number | undefined} at
 * @param {number | undefined} limit
 * @param {(at: string | number | undefined, most: number) => Promise<string>} page
 */
async function* pages(at, limit, page) {
  let left = limit ?? Infinity;
  while (left > 0) {
    const list = decoded(await page(at, Math.min(left, PAGE)), "a list", members);
    const found = decoded(list.get("items") ?? "[]", "a list", items);
    yield* found;
    left -= found.length;
    at = decoded(list.get("next") ?? "null", "a list") ?? undefined;
    if (at === undefined) return;
  }
}

/** @param {WhichPlan} plan */
function idOf(plan) {
  return typeof plan === "string" ? plan : plan.id;
}

/** @param {boolean} backwards */
function way(backwards) {
  return backwards ? "backwards" : "forwards";
}
