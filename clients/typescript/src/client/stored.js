/** Events as the server sends them: parsed, and as they are written. */

import { Event } from "../event.js";
import { parse } from "../parse.js";
import { members } from "./slices.js";

export class StoredEvent extends Event {
  /** @type {Map<string, string> | undefined} */
  #members;

  /** @param {string} text the whole event, as the server sent it */
  constructor(text) {
    super(parse(text), 0);
    this.text = text;
  }

  /** @param {string} name */
  #written(name) {
    this.#members ??= members(this.text);
    return this.#members.get(name) ?? "null";
  }

  get dataText() {
    return this.#written("data");
  }

  get metadataText() {
    return this.#written("metadata");
  }

  get masked() {
    return this.raw.masked === true;
  }
}
