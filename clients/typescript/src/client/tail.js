/** A tail of the log: it goes on where it was, without a gap and without a double. */

import { Frames } from "./frames.js";
import { answer, decoded, lost, pauses, text, understood } from "./http.js";
import { ApiError, Dropped, NoAnswer, NotTheApi, Problem, Unavailable } from "./problems.js";
import { StoredEvent } from "./stored.js";

/** @typedef {import("./frames.js").Frame} Frame */
/** @typedef {import("./http.js").Http} Http */
/** @typedef {import("./http.js").Parameters} Parameters */
/** @typedef {{read(): Promise<{done: boolean, value?: Uint8Array}>}} Reader */

const PLACE = "/v1/tail";
const WHAT = `GET ${PLACE}`;
/** What ends a tail that would meet the same event again. */
const FINAL = "unwritable";

export class Tail {
  #http;
  #parameters;
  #silence;
  #onInterrupted;
  #closing = new AbortController();
  /** Ends the connection that there is. */
  #connection = new AbortController();
  /** @type {Reader | null} */
  #reader = null;
  #decoder = new TextDecoder("utf-8", { fatal: true });
  #frames = new Frames();
  /** @type {Frame[]} What was read and not handed out, the last one first. */
  #waiting = [];
  /** @type {StoredEvent | null} */
  #ready = null;
  #pauses = pauses();
  /** Ends a pause. */
  #wake = () => {};
  /** @type {Promise<unknown>} One step at a time. */
  #turn = Promise.resolve();

  /**
   * @param {Http} http
   * @param {Parameters} parameters
   * @param {{after?: number | null, silence?: number, onInterrupted?: (error: ApiError) => void}} options
   */
  constructor(http, parameters, { after = null, silence = 45, onInterrupted = () => {} }) {
    this.#http = http;
    this.#parameters = parameters;
    this.#silence = silence * 1000;
    this.#onInterrupted = onInterrupted;
    /** @type {number | null} */
    this.position = after;
    this.caughtUp = false;
  }

  /** @returns {Promise<number>} */
  open() {
    return this.#inTurn(async () => {
      while (this.position === null) {
        if (this.#isClosed) throw new NoAnswer("the tail was closed before it had begun", { mayHaveHappened: false });
        this.#ready = await this.#step();
        if (this.#ready !== null) this.position = this.#ready.position - 1;
      }
      return this.position;
    });
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** @returns {Promise<IteratorResult<StoredEvent, undefined>>} */
  next() {
    return this.#inTurn(async () => {
      while (!this.#isClosed) {
        const event = this.#ready ?? (await this.#step());
        this.#ready = null;
        // What came while it was closed is not handed out any more: it comes again to who goes on at `position`.
        if (event === null || this.#isClosed) continue;
        this.position = event.position;
        return { done: false, value: event };
      }
      return { done: true, value: undefined };
    });
  }

  /** @returns {Promise<IteratorResult<StoredEvent, undefined>>} */
  async return() {
    this.close();
    return { done: true, value: undefined };
  }

  close() {
    this.#closing.abort();
    this.#connection.abort();
    this.#wake();
  }

  get #isClosed() {
    return this.#closing.signal.aborted;
  }

  /**
   * @template T
   * @param {() => Promise<T>} step
   * @returns {Promise<T>}
   */
  #inTurn(step) {
    const turn = this.#turn.then(step);
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /**
   * One frame, or one more try to connect.
   *
   * @returns {Promise<StoredEvent | null>}
   */
  async #step() {
    try {
      const reader = this.#reader ?? (await this.#connect());
      return this.#take(await this.#frame(reader));
    } catch (error) {
      this.#disconnect();
      if (this.#isClosed) return null;
      if (!(error instanceof NoAnswer || error instanceof Unavailable)) throw error;
      await this.#interrupted(error);
      return null;
    }
  }

  /** @param {NoAnswer | Unavailable} error */
  async #interrupted(error) {
    this.#onInterrupted(error);
    const pause = this.#pauses.next().value ?? 0;
    const least = error instanceof Unavailable ? (error.retryAfter ?? 0) * 1000 : 0;
    await new Promise((done) => {
      const timer = setTimeout(() => done(undefined), Math.max(pause, least));
      this.#wake = () => {
        clearTimeout(timer);
        done(undefined);
      };
    });
  }

  /** @returns {Promise<Reader>} */
  async #connect() {
    this.#connection = new AbortController();
    /** @type {Record<string, string>} */
    const headers = { accept: "text/event-stream" };
    if (this.position !== null) headers["last-event-id"] = String(this.position);
    const { signal } = this.#connection;
    const response = await this.#unlessSilent(
      () => this.#http.send("GET", PLACE, this.#parameters, signal, undefined, headers),
    );
    if (response.status !== 200) answer(response, await this.#unlessSilent(() => text(response, WHAT)), WHAT);
    const kind = (response.headers.get("content-type") ?? "").split(";")[0].trim();
    if (kind !== "text/event-stream" || response.body === null) {
      throw new NotTheApi(`${WHAT} is answered by ${kind || "nothing"}, not by events; is this the URL of the API?`);
    }
    this.#decoder = new TextDecoder("utf-8", { fatal: true });
    this.#frames = new Frames();
    this.#reader = response.body.getReader();
    return this.#reader;
  }

  /**
   * @param {Reader} reader
   * @returns {Promise<Frame>}
   */
  async #frame(reader) {
    for (;;) {
      const frame = this.#waiting.pop();
      if (frame !== undefined) return frame;
      let piece;
      try {
        piece = await this.#unlessSilent(() => reader.read());
      } catch (error) {
        throw error instanceof NoAnswer ? error : lost(error, WHAT);
      }
      if (piece.done) throw new NoAnswer("the connection of the tail has ended");
      const { value } = piece;
      const frames = understood(WHAT, () => this.#frames.feed(this.#decoder.decode(value, { stream: true })));
      this.#waiting = frames.reverse();
    }
  }

  /**
   * A connection that says nothing for long is lost, though nobody has said so.
   *
   * @template T
   * @param {() => Promise<T>} wait
   * @returns {Promise<T>}
   */
  async #unlessSilent(wait) {
    let silent = false;
    const timer = setTimeout(() => {
      silent = true;
      this.#connection.abort();
    }, this.#silence);
    try {
      return await wait();
    } catch (error) {
      if (silent) throw new NoAnswer(`${WHAT}: not a word for ${this.#silence / 1000} seconds`, { cause: error });
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * @param {Frame} frame
   * @returns {StoredEvent | null}
   */
  #take(frame) {
    if (frame.id !== null && !/^\d+$/.test(frame.id)) {
      throw new NotTheApi(`the tail stands at ${frame.id}, which is no position`);
    }
    const at = frame.id === null ? null : Number(frame.id);
    if (frame.name === "event") {
      this.#pauses = pauses();
      // What was handed out already is not handed out again, whatever is between here and the server.
      if (at !== null && this.position !== null && at <= this.position) return null;
      return decoded(frame.data, WHAT, (json) => new StoredEvent(json));
    }
    if (at !== null) this.position = Math.max(at, this.position ?? 0);
    if (frame.name === "dropped") {
      const said = decoded(frame.data, WHAT);
      throw said.reason === FINAL ? new Problem(500, said) : new Dropped(said.reason, said.detail);
    }
    if (frame.name === "caught_up") {
      this.#pauses = pauses();
      this.caughtUp = true;
    }
    return null;
  }

  #disconnect() {
    this.#connection.abort();
    this.#reader = null;
    this.#waiting = [];
  }
}
