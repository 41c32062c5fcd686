/** The two pipes, and everybody else kept away from them. */

import fs from "node:fs";
import net from "node:net";
import { EngineGone, ProtocolError } from "./errors.js";
import { parse } from "./parse.js";

/** Standard input and output as they were. From here on, what anybody prints goes to standard error. */
export class Pipes {
  #input;
  #output;
  /** @type {(text: string, done: (error?: Error | null) => void) => boolean} */
  #write;
  /** @type {Buffer[]} */
  #chunks = [];
  /** @type {Buffer[]} */
  #lines = [];
  #ended = false;
  #wake = () => {};

  constructor() {
    const input = takeOver(0, fs.constants.O_RDONLY, "/dev/null", fs.constants.O_RDONLY);
    const append = fs.constants.O_WRONLY | fs.constants.O_APPEND;
    const output = takeOver(1, fs.constants.O_WRONLY, "/dev/fd/2", append);
    this.#input = input === undefined ? process.stdin : new net.Socket({ fd: input, writable: false });
    this.#output = output === undefined ? process.stdout : new net.Socket({ fd: output, readable: false });
    this.#write = this.#output.write.bind(this.#output);
    process.stdout.write = process.stderr.write.bind(process.stderr);
    const end = () => {
      this.#ended = true;
      this.#wake();
    };
    this.#output.on("error", end);
    this.#input.on("error", end).on("end", end).on("close", end);
    this.#input.on("data", (/** @type {Buffer} */ chunk) => this.#take(chunk));
  }

  /** @param {Buffer} chunk */
  #take(chunk) {
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10)) {
      this.#lines.push(Buffer.concat([...this.#chunks, chunk.subarray(0, end)]));
      this.#chunks = [];
      chunk = chunk.subarray(end + 1);
    }
    if (chunk.length > 0) this.#chunks.push(chunk);
    this.#wake();
  }

  /** @returns {Promise<any>} */
  async read() {
    while (this.#lines.length === 0) {
      if (this.#ended) throw new EngineGone();
      await new Promise((resolve) => (this.#wake = () => resolve(undefined)));
    }
    const line = String(this.#lines.shift());
    try {
      return parse(line);
    } catch (error) {
      throw new ProtocolError(`this is no line of JSON (${error}): ${line.slice(0, 200)}`);
    }
  }

  /**
   * @param {string} text
   * @returns {Promise<void>}
   */
  write(text) {
    return new Promise((resolve, reject) => {
      this.#write(text, (error) => (error ? reject(new EngineGone()) : resolve()));
    });
  }

  close() {
    this.#input.destroy();
    this.#output.destroy();
  }
}

/**
 * A descriptor of our own for the pipe at `fd`, which stands for something else from now on: programs that a handler
 * starts inherit it. Node cannot duplicate descriptors, but opens the lowest one that is free. Where that is not
 * possible (no pipe, Windows), it stays as it is.
 *
 * @param {number} fd
 * @param {number} flags
 * @param {string} instead
 * @param {number} insteadFlags
 * @returns {number | undefined}
 */
function takeOver(fd, flags, instead, insteadFlags) {
  try {
    if (!fs.fstatSync(fd).isFIFO()) return undefined;
    const other = fs.openSync(instead, insteadFlags);
    const ours = fs.openSync(`/dev/fd/${fd}`, flags);
    fs.closeSync(fd);
    fs.openSync(instead, insteadFlags);
    fs.closeSync(other);
    return ours;
  } catch {
    return undefined;
  }
}
