/** How a handler fails, and how a batch ends. */

import { inspect } from "node:util";

/** The longest wait, in seconds. */
export const YEAR = 366 * 86_400;

export class Failed extends Error {
  /**
   * @param {string} message
   * @param {{again?: boolean | number, event?: import("./index.js").Event, cause?: unknown}} [options]
   */
  constructor(message, { again = true, event, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "Failed";
    if (typeof again !== "boolean" && !(again >= 0 && again <= YEAR)) {
      throw new RangeError(`again is false or a number of seconds, a year at most, not ${inspect(again)}`);
    }
    this.again = again;
    this.event = event;
  }
}

export class Abandoned extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "Abandoned";
  }
}

/** Anabranch has closed a pipe: the program ends. */
export class EngineGone extends Error {}

/** Anabranch said something that this version does not understand. */
export class ProtocolError extends Error {}

/**
 * What a `failed` message says of what was thrown.
 *
 * @param {unknown} error
 * @returns {Record<string, unknown>}
 */
export function failure(error) {
  if (error instanceof Failed) {
    const said = { error: error.message.toWellFormed() };
    if (error.again === true) return said;
    return { ...said, again: error.again === false ? "never" : error.again };
  }
  return { error: inOneLine(error).toWellFormed() };
}

/** @param {unknown} error */
function inOneLine(error) {
  if (!(error instanceof Error)) return typeof error === "string" ? error : inspect(error);
  const said = error.message ? `${error.name}: ${error.message}` : error.name;
  // The innermost frame of the handler's own code; what it handed to this package is its mistake, not ours.
  const here = new URL(".", import.meta.url).href;
  for (const frame of (error.stack ?? "").split("\n")) {
    const found = /^\s+at (?:(.+) \()?((?:file:\/\/)?\/.+):(\d+):\d+\)?$/.exec(frame);
    if (found === null || found[2].startsWith(here)) continue;
    const [, name, path, line] = found;
    const inside = name === undefined ? "" : `, in ${name.replace(/^async /, "")}`;
    return `${said} (${decodeURI(path.slice(path.lastIndexOf("/") + 1))}:${line}${inside})`;
  }
  return said;
}

/**
 * A line for the log of Anabranch.
 *
 * @param {string} text
 */
export function log(text) {
  process.stderr.write(`${text}\n`);
}
