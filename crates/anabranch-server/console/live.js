// The one stream of a tab: answers of the API, each sent again when it changes. A hidden tab has none.

import { get, mount } from "./api.js";
import { parse } from "./json.js";

/** After how long without a word the stream counts as cut off: the server says something every 15 seconds. */
const SILENCE = 25_000;
/** How old answers may be that count as they are now: all is looked at about once a second. */
const OLD = 6000;

/** The state of the stream: `live`, `connecting`, `old` (the server cannot look), `lost` (trying again), `hidden`, `refused`. */
export class Live {
  #source = null;
  #paths = [];
  #again = null;
  #pause = 500;
  #turn = 0;
  #silence = null;

  /** `onAnswer(path, {status, body})`, `onState(state)`. */
  constructor(onAnswer, onState) {
    this.onAnswer = onAnswer;
    this.onState = onState;
    document.addEventListener("visibilitychange", () => this.#begin());
  }

  /** What is wanted from now on. */
  watch(paths) {
    const wanted = [...new Set(paths)];
    if (wanted.join("\n") === this.#paths.join("\n") && this.#source) return;
    this.#paths = wanted;
    this.#begin();
  }

  #end() {
    this.#turn += 1;
    clearTimeout(this.#again);
    clearTimeout(this.#silence);
    this.#source?.close();
    this.#source = null;
  }

  #begin() {
    this.#end();
    if (document.hidden) return this.onState("hidden");
    if (this.#paths.length === 0) return this.onState("live");
    this.onState("connecting");
    const asked = this.#paths.map((path) => `watch=${encodeURIComponent(path)}`).join("&");
    const source = new EventSource(`${mount}/v1/live?${asked}`);
    this.#source = source;
    this.#heard();
    source.addEventListener("still_here", (event) => {
      this.#heard();
      this.onState(JSON.parse(event.data).looked_ms_ago > OLD ? "old" : "live");
    });
    source.addEventListener("answer", (event) => {
      this.#heard();
      this.#pause = 500;
      this.onState("live");
      const { path, status, body } = parse(event.data);
      this.onAnswer(path, { status, body });
    });
    source.addEventListener("ended", () => this.#lost());
    source.onerror = () => this.#lost();
  }

  /** A server that stands still does not close its connections. */
  #heard() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#lost(), SILENCE);
  }

  /** An `EventSource` does not say why it failed, so somebody else asks. */
  async #lost() {
    this.#end();
    this.onState("lost");
    const turn = this.#turn;
    const problem = await get("/v1/session").then(() => null, (refusal) => refusal);
    // Something else may be watched by now.
    if (turn !== this.#turn) return;
    if (problem?.status === 401) return this.onState("refused");
    this.#again = setTimeout(() => this.#begin(), this.#pause);
    this.#pause = Math.min(this.#pause * 2, 8000);
  }
}
