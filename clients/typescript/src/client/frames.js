/** Server-sent events, from pieces of text. Pure. */

/** More than any event that the server sends. */
const MOST = 64 << 20;

/** @typedef {{id: string | null, name: string | null, data: string}} Frame What an empty line ends. */

/** Takes pieces as they come, and gives what is whole. What is cut off in the middle never comes out. */
export class Frames {
  #left = "";
  #size = 0;
  /** @type {string | null} */
  #id = null;
  /** @type {string | null} */
  #name = null;
  /** @type {string[]} */
  #data = [];

  /**
   * @param {string} piece
   * @returns {Frame[]}
   */
  feed(piece) {
    /** @type {Frame[]} */
    const whole = [];
    const lines = (this.#left + piece).split("\n");
    this.#left = lines.pop() ?? "";
    for (const line of lines) {
      this.#size += line.length;
      const field = line.endsWith("\r") ? line.slice(0, -1) : line;
      if (field !== "") this.#field(field);
      else this.#end(whole);
    }
    if (this.#size + this.#left.length > MOST) throw new SyntaxError(`an event is longer than ${MOST} characters`);
    return whole;
  }

  /** @param {string} line */
  #field(line) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "id") this.#id = value;
    else if (name === "event") this.#name = value;
    else if (name === "data") this.#data.push(value);
  }

  /** @param {Frame[]} whole */
  #end(whole) {
    // Without data it only says where the tail stands.
    const frame = { id: this.#id, name: this.#data.length > 0 ? this.#name : null, data: this.#data.join("\n") };
    this.#size = 0;
    this.#id = this.#name = null;
    this.#data = [];
    if (frame.id !== null || frame.name !== null) whole.push(frame);
  }
}
