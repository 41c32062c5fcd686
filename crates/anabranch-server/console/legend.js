// What the colours of the map stand for, with counts. A click shows only these.

import { STEPS } from "./colours.js";
import { h } from "./dom.js";
import { count } from "./format.js";
import { COLOURINGS, keyText } from "./map.js";
import { kindOf, rank, wordsOf } from "./reasons.js";
import { counts } from "./slots.js";
import { ownerOf } from "./workers.js";

/** `only` is what is shown alone, or null; `onOnly(key or null)`; `failed` is how many slots are marked. */
export function legend(model, by, only, onOnly, failed) {
  const { of, colour } = COLOURINGS[by];
  const found = [...counts(model, of)].sort(([a], [b]) => order(by, a, b));
  const names = new Map(model.cursors.map((cursor) => [cursor.worker, cursor.owner]));
  const total = found.reduce((all, [, slots]) => all + slots, 0);
  return h("ul", { class: "legend", "aria-label": "What the colours stand for" }, found.map(([key, slots]) =>
    h("li", { "data-key": `${by} ${key}` }, h("button", {
      type: "button", class: "quiet", "aria-pressed": String(only === keyText(key)), onclick: () => onOnly(only === keyText(key) ? null : keyText(key)),
    },
    h("span", { class: by === "owner" && key === "" ? "swatch hollow" : "swatch", "aria-hidden": "true", style: { background: colour(key) } }),
    h("span", { class: "legend-name" }, nameOf(by, key, names)), h("span", { class: "legend-count" }, count(slots)),
    h("span", { class: "quiet legend-share" }, `${Math.round((100 * slots) / total)} %`)))),
    failed ? h("li", { class: "legend-mark" }, h("span", { class: "mark-failed", "aria-hidden": "true" }), h("span", { class: "legend-name" }, "with a parked or retrying key"), h("span", { class: "legend-count" }, count(failed)), h("span", { class: "legend-share" })) : null);
}

function nameOf(by, key, names) {
  if (by === "lag") return stepName(key);
  if (by === "reason") return wordsOf(key);
  const owner = names.get(key);
  return owner ? `${ownerOf(owner)}${owner.is_alive ? "" : " (dead)"}` : "nobody";
}

function stepName(index) {
  const [from, next] = [STEPS[index], STEPS[index + 1]];
  if (from === 0) return "nothing behind";
  return next ? `${count(from)}–${count(next - 1)} behind` : `${count(from)} and more behind`;
}

function order(by, a, b) {
  if (by === "lag") return a - b;
  if (by === "reason") return (a === "") - (b === "") || rank(kindOf(a)) - rank(kindOf(b)) || (a < b ? -1 : 1);
  return (a === "") - (b === "") || (a < b ? -1 : 1);
}
