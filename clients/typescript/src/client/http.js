/** Requests and their answers, and what is sent again. */

import { parse } from "../parse.js";
import { encode } from "../values.js";
import { NoAnswer, NotTheApi, UNANSWERED, Unavailable, problem } from "./problems.js";

/** @typedef {[string, string | number | null | undefined][]} Parameters */

/** The first pause and the longest one, in milliseconds. */
const PAUSES = [50, 5000];
/** What went wrong before anything was sent. */
const NOT_SENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];
/** What a certificate is wrong with. */
/** What an answer in plain text looks like to those who expect an encrypted one. */
const PLAIN = /WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|RECORD_LAYER_FAILURE|HTTP_REQUEST/;
const UNPROVEN = /CERT|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER|ALTNAME|SELF_SIGNED/;

/**
 * Parts of a path, whatever characters they have.
 *
 * @param {...string} parts
 */
export function path(...parts) {
  const wrong = parts.find((part) => part === "." || part === "..");
  // A URL has no way to write them: it takes them for steps in the path, also if they are encoded.
  if (wrong !== undefined) throw new TypeError(`"${wrong}" cannot be a part of a URL`);
  return `/v1/${parts.map(encodeURIComponent).join("/")}`;
}

/** Milliseconds to wait: twice as long each time, and never quite as long as others wait. */
export function* pauses() {
  for (let pause = PAUSES[0]; ; pause = Math.min(2 * pause, PAUSES[1])) yield pause * (0.5 + Math.random() / 2);
}

/** The place where the API is served. */
export class Http {
  #base;
  /**
   * A request without a token has to prove that no web page sends it: none may send the last one elsewhere.
   *
   * @type {Record<string, string>}
   */
  #headers = { accept: "application/json", "x-anabranch": "1" };
  #timeout;
  #retryFor;

  /**
   * @param {string} url
   * @param {string | null} token
   * @param {{timeout: number, retryFor: number}} times in seconds
   */
  constructor(url, token, { timeout, retryFor }) {
    const place = new URL(url);
    if (place.protocol !== "http:" && place.protocol !== "https:") {
      throw new TypeError(`${url} is no URL of a server; write http://127.0.0.1:7070`);
    }
    if (place.username || place.password || place.search || place.hash) {
      throw new TypeError("the URL has a user, a query or a fragment; a token is given apart");
    }
    if (token !== null && !/^[!-~]+$/.test(token)) {
      throw new TypeError("the token has characters that no token has; is a line feed at its end?");
    }
    this.#base = place.origin + place.pathname.replace(/\/+$/, "");
    if (token !== null) this.#headers.authorization = `Bearer ${token}`;
    this.#timeout = timeout;
    this.#retryFor = retryFor;
  }

  /**
   * The text of what is there. The server may take so many seconds.
   *
   * @param {string} place
   * @param {Parameters} [parameters]
   * @param {number} [seconds]
   */
  get(place, parameters = [], seconds = 0) {
    return this.#call("GET", place, parameters, undefined, {}, true, seconds);
  }

  /**
   * It is sent again only with an idempotency key, or if it changes nothing (`again`).
   *
   * @param {string} place
   * @param {unknown} body
   * @param {{key?: string, again?: boolean}} [how]
   */
  async post(place, body, { key, again = false } = {}) {
    /** @type {Record<string, string>} */
    const headers = key === undefined ? {} : { "idempotency-key": key };
    try {
      return await this.#call("POST", place, [], body, headers, again || key !== undefined, 0);
    } catch (error) {
      if (!(error instanceof NoAnswer) || key === undefined || !error.mayHaveHappened) throw error;
      const said = `${error.message}. It may have been done; send it again with the idempotency key ${key}: it is done once`;
      throw new NoAnswer(said, { idempotencyKey: key, cause: error });
    }
  }

  /**
   * @param {string} method
   * @param {string} place
   * @param {Parameters} parameters
   * @param {unknown} body
   * @param {Record<string, string>} headers
   * @param {boolean} again
   * @param {number} seconds
   * @returns {Promise<string>}
   */
  async #call(method, place, parameters, body, headers, again, seconds) {
    const sent = body === undefined ? undefined : encode(body);
    const what = `${method} ${this.#base}${place}`;
    let deadline = Infinity;
    let happened = false;
    for (const pause of pauses()) {
      try {
        const signal = AbortSignal.timeout((this.#timeout + seconds) * 1000);
        const response = await this.send(method, place, parameters, signal, sent, headers);
        return await answer(response, await text(response, what), what);
      } catch (error) {
        let wait = pause;
        if (error instanceof NoAnswer) {
          // What was sent first may have been done, though the last try did not reach anybody.
          happened = error.mayHaveHappened ||= happened;
        } else if (error instanceof Unavailable) {
          wait = Math.max(pause, (error.retryAfter ?? 0) * 1000);
        } else {
          throw error;
        }
        deadline = Math.min(deadline, performance.now() + this.#retryFor * 1000);
        if (!again || performance.now() + wait > deadline) {
          if (!happened || error instanceof NoAnswer) throw error;
          throw new NoAnswer(`${what}: no answer, and then: ${error.message}`, { cause: error });
        }
        await new Promise((done) => setTimeout(() => done(undefined), wait));
      }
    }
    throw new Error("pauses do not end");
  }

  /**
   * Sends a request, and reads the head of its answer.
   *
   * @param {string} method
   * @param {string} place
   * @param {Parameters} parameters
   * @param {AbortSignal} signal
   * @param {string} [body]
   * @param {Record<string, string>} [headers]
   * @returns {Promise<Response>}
   */
  async send(method, place, parameters, signal, body, headers = {}) {
    const query = new URLSearchParams();
    for (const [name, value] of parameters) if (value !== null && value !== undefined) query.append(name, String(value));
    const target = `${this.#base}${place}${query.size > 0 ? `?${query}` : ""}`;
    const all = { ...this.#headers, ...headers };
    if (body !== undefined) all["content-type"] = "application/json";
    try {
      return await fetch(target, { method, headers: all, body, signal, redirect: "manual" });
    } catch (error) {
      throw lost(error, `${method} ${this.#base}${place}`);
    }
  }
}

/**
 * The error of a connection, whose cause is the one that says something.
 *
 * @param {any} error
 * @param {string} what
 */
export function lost(error, what) {
  const cause = error?.cause ?? error;
  const code = typeof cause?.code === "string" ? cause.code : "";
  if (UNPROVEN.test(code)) return new NotTheApi(`${what}: the server cannot prove who it is: ${cause.message}`, error);
  if (PLAIN.test(code)) {
    const said = `${what}: the server does not speak https, as far as can be told; is it http://… ?`;
    return new NotTheApi(said, error);
  }
  const mayHaveHappened = !NOT_SENT.includes(code);
  const said = [code, cause?.message ?? cause].filter(Boolean).join(": ");
  return new NoAnswer(`${what}: no answer: ${said}`, { mayHaveHappened, cause: error });
}

/**
 * @param {Response} response
 * @param {string} what
 */
export async function text(response, what) {
  try {
    return await response.text();
  } catch (error) {
    throw lost(error, what);
  }
}

/**
 * The text of an answer, or the problem that it is.
 *
 * @param {Response} response
 * @param {string} body
 * @param {string} what
 */
export function answer(response, body, what) {
  const kind = (response.headers.get("content-type") ?? "").split(";")[0].trim();
  if (response.ok) {
    if (kind === "application/json") return body;
    throw new NotTheApi(`${what} is answered by ${kind || "nothing"}, not by JSON; is this the URL of the API?`);
  }
  if (response.status < 400) {
    const where = response.headers.get("location");
    throw new NotTheApi(`${what} is answered by ${response.status}: go to ${where}; connect to the API itself`);
  }
  const said = kind === "application/problem+json" ? decoded(body, what) : undefined;
  const detail = `${what} is answered by ${response.status} ${response.statusText}, and not by the API`;
  const after = response.headers.get("retry-after");
  const error = problem(response.status, said ?? { detail }, after !== null && /^\d+$/.test(after) ? Number(after) : null);
  // Somebody has waited for the answer as long as it may take, and it may have been done all the same.
  if (UNANSWERED.includes(error.code)) throw new NoAnswer(`${what}: ${error.message}`, { cause: error });
  throw error;
}

/**
 * @param {string} body
 * @param {string} what
 * @param {(text: string) => any} [read]
 */
export function decoded(body, what, read = parse) {
  return understood(what, () => read(body));
}

/**
 * @template T
 * @param {string} what
 * @param {() => T} read
 * @returns {T}
 */
export function understood(what, read) {
  try {
    return read();
  } catch (error) {
    throw new NotTheApi(`${what} is answered by what cannot be read: ${/** @type {Error} */ (error).message}`, error);
  }
}
