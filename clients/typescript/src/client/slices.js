/** Parts of a text of JSON, as they are written. Pure. */

const SPACE = /\s*/y;
const TEXT = /"(?:[^"\\]|\\.)*"/sy;
const PLAIN = /[^\s,\]}[{"]+/y;

/**
 * The values of an object by their names, each as it is written.
 *
 * @param {string} json
 * @returns {Map<string, string>}
 */
export function members(json) {
  /** @type {Map<string, string>} */
  const found = new Map();
  parts(json, "{", "}", (at) => {
    const name = past(TEXT, json, at);
    const colon = past(SPACE, json, name);
    if (json[colon] !== ":") throw new SyntaxError(`a name without a value at character ${colon}`);
    const begin = past(SPACE, json, colon + 1);
    const end = pastValue(json, begin);
    found.set(JSON.parse(json.slice(at, name)), json.slice(begin, end));
    return end;
  });
  return found;
}

/**
 * The values of an array, each as it is written.
 *
 * @param {string} json
 * @returns {string[]}
 */
export function items(json) {
  /** @type {string[]} */
  const found = [];
  parts(json, "[", "]", (at) => {
    const end = pastValue(json, at);
    found.push(json.slice(at, end));
    return end;
  });
  return found;
}

/**
 * @param {string} json
 * @param {string} open
 * @param {string} close
 * @param {(at: number) => number} take one part, and says where it ends
 */
function parts(json, open, close, take) {
  let at = past(SPACE, json, 0);
  if (json[at] !== open) throw new SyntaxError(`${open} was expected at character ${at}`);
  at = past(SPACE, json, at + 1);
  if (json[at] === close) return;
  for (;;) {
    at = past(SPACE, json, take(at));
    if (json[at] === close) return;
    if (json[at] !== ",") throw new SyntaxError(`a comma or ${close} was expected at character ${at}`);
    at = past(SPACE, json, at + 1);
  }
}

/**
 * Where a value ends.
 *
 * @param {string} json
 * @param {number} at
 */
function pastValue(json, at) {
  let depth = 0;
  for (;;) {
    switch (json[at]) {
      case "{":
      case "[":
        depth += 1;
        at += 1;
        break;
      case "}":
      case "]":
        depth -= 1;
        at += 1;
        break;
      case '"':
        at = past(TEXT, json, at);
        break;
      case ",":
        at += 1;
        break;
      default:
        at = past(PLAIN, json, at);
    }
    if (depth <= 0) return at;
    at = past(SPACE, json, at);
  }
}

/**
 * @param {RegExp} pattern a sticky one
 * @param {string} json
 * @param {number} at
 */
function past(pattern, json, at) {
  pattern.lastIndex = at;
  if (!pattern.test(json)) throw new SyntaxError(`this is no JSON at character ${at}`);
  return pattern.lastIndex;
}
