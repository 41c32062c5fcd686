/** What a handler may ask for: statements, queries, events, tasks. */

import { Abandoned, ProtocolError, YEAR } from "./errors.js";
import { rows } from "./event.js";
import { encode, encodeValues, text, timeText } from "./values.js";

/** So many characters wait in memory before they are written; Anabranch reads them while the handler goes on. */
const WRITE_AT = 1 << 16;
/** Programs with more statements than this make their texts; those are not worth keeping. */
const MOST_STATEMENTS = 1000;

/** @type {Map<string, string>} */
const executes = new Map();

/** @typedef {{read(): Promise<any>, write(text: string): Promise<void>}} Line The other side. */

/** What is said in a batch, in its order. */
export class Batch {
  #line;
  #said = "";
  /** The queries, one after the other: after an abandoned one nothing may be written. */
  #turn = Promise.resolve();
  #asked = 0;
  /** @type {Error | undefined} From when it is set, each call throws it, in case that the handler caught it. */
  over = undefined;

  /**
   * @param {Line} line
   * @param {number} number
   * @param {string} database
   * @param {string} consumer
   */
  constructor(line, number, database, consumer) {
    this.#line = line;
    this.number = number;
    this.database = database;
    this.consumer = consumer;
  }

  /** @param {string} message */
  say(message) {
    if (this.over !== undefined) throw this.over;
    this.#said += message;
    if (this.#said.length >= WRITE_AT && this.#asked === 0) {
      const said = this.#taken();
      this.#turn = this.#turn.then(() => this.#line.write(said));
      this.#turn.catch((error) => this.end(error));
    }
  }

  /**
   * @param {string} message
   * @returns {Promise<any>}
   */
  ask(message) {
    this.say(message);
    const said = this.#taken();
    this.#asked += 1;
    const answer = this.#turn.then(async () => {
      if (this.over !== undefined) throw this.over;
      await this.#line.write(said);
      const answer = await this.#line.read();
      if (answer?.abandoned === undefined) return answer;
      throw new Abandoned(String(answer.error ?? "the transaction is lost"));
    });
    const settled = answer.then(
      () => {},
      (error) => this.end(error),
    );
    this.#turn = settled.then(() => void (this.#asked -= 1));
    return answer;
  }

  get isAsking() {
    return this.#asked > 0;
  }

  /** Waits for what was asked and not awaited. */
  async settle() {
    await this.#turn.catch(() => {});
  }

  /** @param {Error} error */
  end(error) {
    this.#said = "";
    this.over ??= error;
  }

  /**
   * The last message of the batch.
   *
   * @param {string} last
   */
  async finish(last) {
    const said = this.#taken() + last;
    this.end(new Error("this batch is over; use the tx that the handler was given, and await what it starts"));
    await this.#line.write(said);
  }

  #taken() {
    const said = this.#said;
    this.#said = "";
    return said;
  }
}

export class Tx {
  #batch;
  #event;
  #tail;
  #ended = false;

  /**
   * @param {Batch} batch
   * @param {number} [event] Its place in the batch.
   */
  constructor(batch, event) {
    this.#batch = batch;
    this.#event = event;
    const about = event === undefined ? "" : `,"event":${event}`;
    this.#tail = `],"batch":${batch.number}${about}}\n`;
  }

  get database() {
    return this.#batch.database;
  }

  get consumer() {
    return this.#batch.consumer;
  }

  /**
   * @param {string} sql
   * @param {unknown[]} values
   */
  execute(sql, ...values) {
    this.#check();
    if (values.length === 1 && Array.isArray(values[0])) checkOnly(sql);
    this.#batch.say((executes.get(sql) ?? opened(sql)) + encodeValues(values) + this.#tail);
  }

  /**
   * @param {string} sql
   * @param {unknown[]} values
   * @returns {Promise<any[]>}
   */
  async query(sql, ...values) {
    this.#check();
    if (values.length === 1 && Array.isArray(values[0])) checkOnly(sql);
    const answer = await this.#batch.ask(`{"query":${text(sql)},"values":[${encodeValues(values)}${this.#tail}`);
    if (!Array.isArray(answer?.columns) || !Array.isArray(answer.rows)) throw this.#misunderstood("rows", answer);
    return rows(answer);
  }

  /**
   * @param {string} sql
   * @param {unknown[]} values
   */
  async queryFirst(sql, ...values) {
    return (await this.query(sql, ...values))[0];
  }

  /**
   * @param {string} stream
   * @param {string} type
   * @param {unknown} [data]
   * @param {import("./index.js").AppendOptions} [options]
   */
  append(stream, type, data = null, { schemaVersion, ...options } = {}) {
    this.#say("append", { stream, type, data, schema_version: schemaVersion, ...options });
  }

  /**
   * @param {string} pool
   * @param {string} key
   * @param {unknown} [payload]
   * @param {import("./index.js").EnqueueOptions} [options]
   */
  enqueue(pool, key, payload = null, { at, ...options } = {}) {
    this.#say("enqueue", { pool, key, payload, at: at instanceof Date ? timeText(at) : at, ...options });
  }

  /**
   * @param {{place: number}} event
   * @returns {Tx}
   */
  forEvent(event) {
    return new Tx(this.#batch, event.place);
  }

  /** @param {unknown} checkpoint */
  async save(checkpoint) {
    this.#check();
    const answer = await this.#batch.ask(`{"save":${encode(checkpoint)},"batch":${this.#batch.number}}\n`);
    if (answer?.saved !== true) throw this.#misunderstood("`saved`", answer);
  }

  /** The handler has returned. What it did not await must not become part of the next event. */
  close() {
    this.#ended = true;
  }

  /**
   * @param {string} what
   * @param {Record<string, any>} said
   */
  #say(what, said) {
    this.#check();
    if (this.#event === undefined) throw new Error(`say which event ${what} is about: tx.forEvent(event).${what}(…)`);
    check(what, said);
    this.#batch.say(`{"${what}":${encode(said)},"batch":${this.#batch.number},"event":${this.#event}}\n`);
  }

  #check() {
    if (this.#batch.over !== undefined) throw this.#batch.over;
    if (this.#ended) throw new Error("the handler of this event has returned; await what it starts");
  }

  /**
   * @param {string} wanted
   * @param {unknown} answer
   */
  #misunderstood(wanted, answer) {
    const error = new ProtocolError(`${wanted} were expected: ${JSON.stringify(answer)?.slice(0, 200)}`);
    this.#batch.end(error);
    return error;
  }
}

const REQUIRED = ["stream", "type", "pool", "key"];
/** A W3C trace context of version 00: neither id is all zero. */
const TRACE = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const OPTIONAL = ["unique", "at", "correlation", "causation", "tenant", "customer"];

/**
 * What Anabranch would take for a broken program is a mistake of the handler, and is refused where it is made.
 *
 * @param {string} what
 * @param {Record<string, any>} said
 */
function check(what, said) {
  const { tags = [], expected = "any", after = 0, id, traceparent } = said;
  const texts = [...REQUIRED.filter((name) => name in said), ...OPTIONAL.filter((name) => said[name] !== undefined)];
  for (const name of texts) {
    if (typeof said[name] !== "string") throw new TypeError(`${what}: ${name} is a text, not ${said[name]}`);
  }
  if (!Array.isArray(tags) || !tags.every((tag) => typeof tag === "string")) {
    throw new TypeError(`${what}: tags are a list of texts, not ${tags}`);
  }
  if (expected !== "any" && expected !== "none" && !(Number.isSafeInteger(expected) && expected >= 0)) {
    throw new TypeError(`${what}: expected is "any", "none" or a version, not ${expected}`);
  }
  if (typeof after !== "number" || !(after >= 0 && after <= YEAR)) {
    throw new TypeError(`${what}: after is a number of seconds, a year at most, not ${after}; at is a time`);
  }
  if (traceparent !== undefined && !(typeof traceparent === "string" && TRACE.test(traceparent))) {
    throw new TypeError(`${what}: traceparent is a W3C trace context (00-TRACE-SPAN-FLAGS), not ${traceparent}`);
  }
  if (id !== undefined && !/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) {
    throw new TypeError(`${what}: id is a UUID, not ${id}`);
  }
}

/**
 * Other libraries take the values as one list. Here that is one value, an array: it must be meant so.
 *
 * @param {string} sql
 */
function checkOnly(sql) {
  const places = sql.replace(/--[^\n]*|\/\*[^]*?\*\/|'[^']*'/g, "").matchAll(/\$(\d+)/g);
  if (Math.max(0, ...Array.from(places, (place) => Number(place[1]))) !== 1) {
    throw new TypeError("pass values one by one, not as a list: tx.execute(sql, a, b)");
  }
}

/** @param {string} sql */
function opened(sql) {
  if (executes.size >= MOST_STATEMENTS) executes.clear();
  const opened = `{"execute":${text(sql)},"values":[`;
  executes.set(sql, opened);
  return opened;
}
