/** What the server answers, beside events. */

const OPEN = ["ready", "scheduled", "held"];

/** How a task stands. */
export class TaskStatus {
  /** @param {Record<string, any>} raw */
  constructor(raw) {
    this.raw = raw;
    /** @type {string} */
    this.id = raw.id;
    /** @type {string} */
    this.pool = raw.pool;
    /** @type {string} */
    this.key = raw.key;
    /** @type {string} */
    this.state = raw.state;
    this.isOpen = OPEN.includes(raw.state);
    /** @type {number} */
    this.attempts = raw.attempts ?? 0;
    this.result = raw.result ?? null;
    /** @type {string | null} */
    this.error = raw.error ?? null;
    this.masked = raw.masked === true;
  }
}

/** What an operation would do; once it is applied, how far it is. */
export class Plan {
  /** @param {Record<string, any>} raw */
  constructor(raw) {
    this.raw = raw;
    /** @type {string} */
    this.id = raw.id;
    /** @type {string} */
    this.says = raw.effect.says;
    /** @type {Record<string, number>} */
    this.counts = raw.effect.counts;
    /** @type {string} */
    this.state = raw.state;
    /** @type {string | null} */
    this.problem = raw.problem ?? null;
  }
}
