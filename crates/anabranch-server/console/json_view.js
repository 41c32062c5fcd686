// JSON as it was stored, byte for byte. It is laid out by line breaks of the style sheet alone: the text stays what it is.

import { h } from "./dom.js";
import { Raw } from "./json.js";
import { copy } from "./ui.js";

const PIECE = /"(?:[^"\\]|\\[^])*"|-?\d[\d.eE+-]*|[a-z]+|[{}[\]:,]|[ \t\r\n]+|[^]/g;
/** Longer texts are not taken apart. */
const LONGEST = 200_000;
/** Texts that need no lines of their own. */
const SHORT = 72;

/** A value of users in a box: which way it is shown is kept in `page.state`, under the name. */
export function jsonView(page, name, value, { test = null, label = name } = {}) {
  if (value === null || value === undefined) return null;
  const shown = (page.state.json ??= {});
  // A state may be a word, which is no `Raw`.
  const text = value instanceof Raw ? value.text : JSON.stringify(value);
  const isLong = text.length > SHORT && text.length <= LONGEST && /^[{[]/.test(text);
  const isLaidOut = isLong && !shown[name];
  return h("div", { class: "json-view" },
    h("div", { class: "json-tools" },
      isLong ? h("button", { type: "button", class: "quiet small", "aria-label": `${isLaidOut ? "As stored" : "Laid out"}: ${label}`,
        onclick: () => ((shown[name] = isLaidOut), page.redraw()) }, isLaidOut ? "As stored" : "Laid out") : null,
      copy("Copy", text, null)),
    h("pre", { class: isLaidOut ? "json lines" : "json", tabindex: "0", role: "region", "aria-label": label, "data-test": test },
      text.length > LONGEST ? text : pieces(text, isLaidOut)));
}

/** JSON in one line of a list. */
export function jsonLine(value, longest = 300) {
  if (value === null || value === undefined) return h("span", { class: "quiet" }, "–");
  const text = value.text ?? String(value);
  return h("code", { class: "line" }, text.length > longest ? `${text.slice(0, longest)}…` : text);
}

/** The same text in pieces with colours, and in lines if it is laid out. */
function pieces(text, isLaidOut) {
  const all = [...text.matchAll(PIECE)].map(([piece]) => ({ text: piece, kind: kindOf(piece) }));
  const solid = all.filter((piece) => piece.kind !== "space");
  solid.forEach((piece, at) => {
    if (piece.kind === "string" && solid[at + 1]?.text === ":") piece.kind = "name";
  });
  const token = ({ kind, text: said }) => (kind === "mark" ? said : h("span", { class: kind }, said));
  return isLaidOut ? lines(all, token) : all.map(token);
}

function kindOf(piece) {
  const first = piece[0];
  if (first === '"') return "string";
  if (/[-\d]/.test(first)) return "number";
  if (/[a-z]/.test(first)) return "word";
  return /\s/.test(first) ? "space" : "mark";
}

/** Lines as blocks that are set in; spaces between pieces are there, but not shown. */
function lines(all, token) {
  const made = [];
  let [depth, line, isOpen] = [0, [], false];
  const end = (next) => {
    if (line.length) made.push(h("span", { class: "row", style: { paddingLeft: `${Math.min(depth, 20) * 2}ch` } }, line));
    [line, depth, isOpen] = [[], next, false];
  };
  for (const piece of all) {
    const { text } = piece;
    const isEnd = text === "}" || text === "]";
    // A line ends behind what opens, unless it is closed at once.
    if (isOpen && piece.kind !== "space" && !isEnd) end(depth + 1);
    else if (isEnd && !isOpen) end(depth - 1);
    line.push(token(piece));
    if (piece.kind === "space") continue;
    isOpen = text === "{" || text === "[";
    if (text === ",") end(depth);
    if (text === ":") line.push(h("span", { class: "gap" }));
  }
  end(depth);
  return made;
}
