// JSON without a loss: what people have stored is shown byte for byte, and large integers keep their digits.

/** JSON as it was written. */
export class Raw {
  constructor(text) {
    this.text = text;
  }
}

/** Members that belong to users: they are never parsed. A `state` may be a word of ours, too. */
const RAW = new Set(["data", "metadata", "payload", "result", "checkpoint", "state"]);
const NUMBER = /-?\d+(\.\d+)?([eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;

/** Parses an answer of the API; members of users become `Raw`, unless they are null. */
export function parse(text) {
  let at = 0;
  const space = () => {
    SPACE.lastIndex = at;
    SPACE.test(text);
    at = SPACE.lastIndex;
  };
  const fail = () => {
    throw new SyntaxError(`not JSON at ${at}`);
  };
  const string = () => {
    const from = at;
    for (at += 1; text[at] !== '"'; at += text[at] === "\\" ? 2 : 1) if (at >= text.length) fail();
    at += 1;
    return JSON.parse(text.slice(from, at));
  };
  const number = () => {
    NUMBER.lastIndex = at;
    const found = NUMBER.exec(text);
    if (!found) fail();
    at = NUMBER.lastIndex;
    const value = Number(found[0]);
    return Number.isSafeInteger(value) || found[1] || found[2] ? value : BigInt(found[0]);
  };
  const word = (name, value) => {
    if (!text.startsWith(name, at)) fail();
    at += name.length;
    return value;
  };
  const value = () => {
    space();
    switch (text[at]) {
      case "{": return object();
      case "[": return list();
      case '"': return string();
      case "t": return word("true", true);
      case "f": return word("false", false);
      case "n": return word("null", null);
      default: return number();
    }
  };
  const object = () => {
    const made = {};
    at += 1;
    space();
    if (text[at] === "}") return (at += 1, made);
    for (;;) {
      space();
      if (text[at] !== '"') fail();
      const name = string();
      space();
      if (text[at++] !== ":") fail();
      space();
      const from = at;
      const member = value();
      const isOfUsers = RAW.has(name) && member !== null && !(name === "state" && typeof member === "string");
      Object.defineProperty(made, name, {
        value: isOfUsers ? new Raw(text.slice(from, at)) : member,
        enumerable: true, configurable: true, writable: true,
      });
      space();
      const next = text[at++];
      if (next === "}") return made;
      if (next !== ",") fail();
    }
  };
  const list = () => {
    const made = [];
    at += 1;
    space();
    if (text[at] === "]") return (at += 1, made);
    for (;;) {
      made.push(value());
      space();
      const next = text[at++];
      if (next === "]") return made;
      if (next !== ",") fail();
    }
  };
  const whole = value();
  space();
  if (at !== text.length) fail();
  return whole;
}
