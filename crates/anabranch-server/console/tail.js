// Events as they are stored: one stream that goes on where it was, whatever cuts it off.

import { get, mount, query } from "./api.js";
import { parse } from "./json.js";

/** How long events are gathered before they are handed on. */
const GATHER = 200;
/** How far the log may have gone on while the tab was hidden: of more, a list begins anew. */
const FAR = 1000;
const HEAD = "/v1/events?direction=backwards&limit=1";
const REASONS = {
  too_slow: "this browser was too slow for it", server_stops: "the server has stopped", not_allowed: "the token is not valid any more",
  log_failed: "the log could not be read", unwritable: "an event could not be sent",
};

/** It is `live`, `connecting`, `lost` (trying again), `hidden`, or `stopped` for good; `why` says more. */
export class Tail {
  state = "connecting";
  why = "";
  #source = null;
  #again = null;
  #gathered = [];
  #handing = null;
  #pause = 500;
  #isClosed = false;
  #onVisible = () => this.#turn();

  /**
   * Events after a position that match: `onEvents(events)`, the oldest first; `onState()` when its state is another;
   * `onFar()` when too many came while nobody looked.
   */
  constructor(params, after, { onEvents, onState, onFar }) {
    Object.assign(this, { params, after, onEvents, onState, onFar });
    document.addEventListener("visibilitychange", this.#onVisible);
    this.#begin();
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#handing);
    document.removeEventListener("visibilitychange", this.#onVisible);
    this.#end();
  }

  #end() {
    clearTimeout(this.#again);
    this.#source?.close();
    this.#source = null;
  }

  #is(state, why = this.why) {
    if (state === this.state && why === this.why) return;
    [this.state, this.why] = [state, why];
    this.onState();
  }

  /** Seen again, or not any more. */
  async #turn() {
    if (this.state === "stopped") return;
    this.#end();
    if (document.hidden) return this.#is("hidden");
    this.#is("connecting");
    // Whoever cannot be asked now is asked by the stream itself.
    const head = await newest().catch(() => 0);
    if (head - Number(this.after) > FAR && !this.#isClosed) return this.onFar();
    this.#begin();
  }

  #begin() {
    this.#end();
    if (this.#isClosed) return;
    if (document.hidden) return this.#is("hidden");
    this.#is(this.state === "lost" ? "lost" : "connecting");
    const source = new EventSource(mount + query("/v1/tail", { ...this.params, after: this.after }));
    this.#source = source;
    source.onopen = () => {
      this.#pause = 500;
      this.#is("live");
    };
    source.addEventListener("event", ({ data, lastEventId }) => {
      this.after = lastEventId;
      this.#gathered.push(parse(data));
      this.#handing ??= setTimeout(() => this.#hand(), GATHER);
    });
    source.addEventListener("caught_up", ({ lastEventId }) => {
      this.after = lastEventId || this.after;
      this.#is("live");
    });
    source.addEventListener("dropped", ({ data }) => this.#dropped(parse(data)));
    // While it only reconnects it sends the last id by itself.
    source.onerror = () => (source.readyState === EventSource.CLOSED ? this.#lost() : this.#is("lost", "the server does not answer"));
  }

  #hand() {
    this.#handing = null;
    this.onEvents(this.#gathered.splice(0));
  }

  #dropped({ reason, detail }) {
    this.#end();
    const why = REASONS[reason] ?? detail ?? reason;
    if (reason === "not_allowed") return this.#is("stopped", why);
    this.#is("lost", why);
    this.#soon();
  }

  #soon() {
    if (this.#isClosed || document.hidden) return;
    this.#again = setTimeout(() => this.#begin(), this.#pause);
    this.#pause = Math.min(this.#pause * 2, 8000);
  }

  /** An `EventSource` does not say why it was refused, so somebody else asks. */
  async #lost() {
    this.#end();
    let why = "the server does not answer";
    try {
      const head = await newest();
      if (head < Number(this.after)) return this.#is("stopped", `the log ends at ${head} now: it was wound back, or is another one`);
      why = "the server has refused it";
    } catch (problem) {
      if (problem.status === 401 || problem.status === 403) return this.#is("stopped", problem.message);
      why = problem.message;
    }
    this.#is("lost", why);
    this.#soon();
  }
}

/** The position of the newest event; 0 if there is none. */
export async function newest() {
  return Number((await get(HEAD)).items[0]?.position ?? 0);
}
