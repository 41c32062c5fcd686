/** Values as JSON, with all their digits. */

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

export class Decimal {
  #text;

  /** @param {string} text */
  constructor(text) {
    if (typeof text !== "string" || !NUMBER.test(text)) {
      throw new TypeError(`a decimal is made of a text such as "19.90", not ${JSON.stringify(text)}`);
    }
    this.#text = text;
  }

  toString() {
    return this.#text;
  }

  toJSON() {
    return this.#text;
  }

  /**
   * As a text it keeps its digits; arithmetic would lose some of them, so it is refused.
   *
   * @param {string} hint
   */
  [Symbol.toPrimitive](hint) {
    if (hint === "string") return this.#text;
    throw new TypeError(`${this.#text} has more digits than a number; use a library of decimals with String(it)`);
  }

  get [Symbol.toStringTag]() {
    return `Decimal ${this.#text}`;
  }
}

/** @param {string} value */
export function text(value) {
  if (!value.isWellFormed()) throw new TypeError("half a character (a lone surrogate) is no text");
  return JSON.stringify(value);
}

/**
 * A value inside of lists and objects, and in the data of events and tasks.
 *
 * @param {unknown} value
 * @returns {string}
 */
export function encode(value) {
  switch (typeof value) {
    case "string":
      return text(value);
    case "number":
      if (!Number.isFinite(value)) throw new TypeError(`${value} is no number that JSON has`);
      return String(value);
    case "boolean":
    case "bigint":
      return String(value);
    case "object":
      return value === null ? "null" : object(value);
    case "undefined":
      throw new TypeError("undefined is no value; use null");
    default:
      throw new TypeError(`a ${typeof value} is no value that JSON has`);
  }
}

/** @param {object} value */
function object(value) {
  if (Array.isArray(value)) return `[${Array.from(value, encode).join(",")}]`;
  if (value instanceof Decimal) return value.toString();
  if (value instanceof Date) return `"${timeText(value)}"`;
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    throw new TypeError("bytes are no value: pass them as hexadecimal, and decode it in the statement");
  }
  if ("toJSON" in value && typeof value.toJSON === "function") return encode(value.toJSON());
  if (value instanceof Map || value instanceof Set) throw new TypeError(`a ${value.constructor.name} is no value`);
  if ("then" in value && typeof value.then === "function") throw new TypeError("a promise is no value; await it");
  const parts = [];
  for (const [key, inner] of Object.entries(value)) {
    if (inner !== undefined) parts.push(`${text(key)}:${encode(inner)}`);
  }
  return `{${parts.join(",")}}`;
}

/**
 * As Anabranch writes times: in UTC, always with microseconds, so that texts sort as times do.
 *
 * @param {Date} value
 */
export function timeText(value) {
  if (Number.isNaN(value.getTime())) throw new TypeError("an invalid date is no value");
  return value.toISOString().replace(/Z$/, "000Z");
}

/**
 * The values of a statement. A decimal is a text there, which no database rounds on the way in.
 *
 * @param {unknown[]} values
 */
export function encodeValues(values) {
  let said = "";
  for (let place = 0; place < values.length; place++) {
    const value = values[place];
    if (place > 0) said += ",";
    try {
      said += value instanceof Decimal ? `"${value}"` : encode(value);
    } catch (error) {
      if (error instanceof TypeError) error.message = `$${place + 1}: ${error.message}`;
      throw error;
    }
  }
  return said;
}
