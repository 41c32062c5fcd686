/** What can go wrong with a request. */

/** What the client throws, whatever it is. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {unknown} [cause]
   */
  constructor(message, cause) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
  }
}

const STANDARD = ["type", "title", "status", "detail", "code"];

/** The server refused, and says why. */
export class Problem extends ApiError {
  /**
   * @param {number} status
   * @param {Record<string, any>} said
   * @param {number | null} [retryAfter]
   */
  constructor(status, said, retryAfter = null) {
    const code = said.code ?? `http_${status}`;
    const detail = said.detail ?? said.title ?? code;
    super(`${detail} (${code})`);
    this.status = status;
    /** @type {string} */
    this.code = code;
    /** @type {string} */
    this.title = said.title ?? code;
    /** @type {string} */
    this.detail = detail;
    /** @type {Record<string, any>} */
    this.members = Object.fromEntries(Object.entries(said).filter(([name]) => !STANDARD.includes(name)));
    this.retryAfter = retryAfter;
  }
}

export class Invalid extends Problem {}
export class NotAuthenticated extends Problem {}
export class NotAllowed extends Problem {}
export class NotFound extends Problem {}
export class Conflict extends Problem {}
export class Unavailable extends Problem {}

/** No answer came, or half of one; or the server, or a proxy, did not wait for it any longer. */
export class NoAnswer extends ApiError {
  /**
   * @param {string} why
   * @param {{mayHaveHappened?: boolean, idempotencyKey?: string | null, cause?: unknown}} [known]
   */
  constructor(why, { mayHaveHappened = true, idempotencyKey = null, cause } = {}) {
    super(why, cause);
    this.mayHaveHappened = mayHaveHappened;
    this.idempotencyKey = idempotencyKey;
  }
}

/** The server has ended a tail with a word. */
export class Dropped extends NoAnswer {
  /**
   * @param {string} reason
   * @param {string} detail
   */
  constructor(reason, detail) {
    super(`the tail was dropped: ${reason}: ${detail}`);
    this.reason = reason;
  }
}

/** What answers there is not the API, or cannot prove who it is. */
export class NotTheApi extends ApiError {}

/** The task has not ended in the time that was given to it. */
export class StillOpen extends ApiError {
  /** @param {import("./answers.js").TaskStatus} task */
  constructor(task) {
    super(`task ${task.id} is ${task.state} still; wait for it again`);
    this.task = task;
  }
}

/** The plan is not carried out in the time that was given to it. It goes on. */
export class StillRunning extends ApiError {
  /** @param {import("./answers.js").Plan} plan */
  constructor(plan) {
    super(`plan ${plan.id} is running still; wait for it again`);
    this.plan = plan;
  }
}

/** A command was not carried out. */
export class CommandRefused extends ApiError {
  /**
   * @param {string} outcome
   * @param {string | null} why
   */
  constructor(outcome, why) {
    super(`the command was not carried out: ${outcome}${why ? `: ${why}` : ""}`);
    this.outcome = outcome;
    this.why = why;
  }
}

/** @type {Map<number, typeof Problem>} */
const KINDS = new Map([[401, NotAuthenticated], [403, NotAllowed], [404, NotFound], [409, Conflict]]);
for (const status of [429, 503]) KINDS.set(status, Unavailable);
/** The codes of answers that only say that there is none: the server has run out of time, or a proxy has. */
export const UNANSWERED = ["request_too_slow", "http_502", "http_504"];

/**
 * The error of an answer.
 *
 * @param {number} status
 * @param {Record<string, any>} said
 * @param {number | null} retryAfter
 */
export function problem(status, said, retryAfter) {
  const Kind = KINDS.get(status) ?? (status < 500 ? Invalid : Problem);
  return new Kind(status, said, retryAfter);
}
