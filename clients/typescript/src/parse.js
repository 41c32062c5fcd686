/** JSON as values, with all their digits. */

import { randomUUID } from "node:crypto";
import { Decimal } from "./values.js";

/** Where a number may begin that a double cannot hold: many digits, or a large exponent. Texts may look so, too. */
const SUSPECT = /[:,[\s]-?(?:[\d.]{16,}|[\d.]+[eE][+-]?\d{3,})/;
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;
/** Begins a text that stands for a number. Nobody can know it beforehand, so no text of an event begins so. */
const MARK = `number ${randomUUID()} `;

/**
 * `JSON.parse`, but whole numbers beyond 2^53 are BigInt, and other numbers that a double would change are Decimal.
 *
 * @param {string} line
 * @returns {any}
 */
export function parse(line) {
  if (!SUSPECT.test(line)) return JSON.parse(line);
  let marked = false;
  const text = line.replace(TOKENS, (token) => {
    if (token.startsWith('"') || isExact(token)) return token;
    marked = true;
    return `"${MARK}${token}"`;
  });
  return marked ? JSON.parse(text, unmark) : JSON.parse(line);
}

/**
 * @param {string} _key
 * @param {unknown} value
 */
function unmark(_key, value) {
  if (typeof value !== "string" || !value.startsWith(MARK)) return value;
  const digits = value.slice(MARK.length);
  return /^-?\d+$/.test(digits) ? BigInt(digits) : new Decimal(digits);
}

/**
 * Whether a double has these digits. What is no number is left for `JSON.parse` to refuse.
 *
 * @param {string} token
 */
function isExact(token) {
  if (/^-?\d+$/.test(token)) return Number.isSafeInteger(Number(token)) || /^-?0\d/.test(token);
  const wanted = canonical(token);
  return wanted === undefined || wanted === canonical(String(Number(token)));
}

/**
 * Sign, digits without zeros around them, and exponent. All texts of one number have the same.
 *
 * @param {string} token
 */
function canonical(token) {
  const found = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(token);
  if (found === null) return undefined;
  const [, sign, whole, fraction = "", exponent = "0"] = found;
  const all = whole + fraction;
  const digits = all.replace(/0+$/, "");
  const power = Number(exponent) - fraction.length + (all.length - digits.length);
  const shown = digits.replace(/^0+/, "");
  return shown === "" ? "0" : `${sign}${shown}e${power}`;
}
