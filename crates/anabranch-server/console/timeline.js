// Generations of a replica set: when its slots were assigned anew, why, and who had how many.

import { know, ofOwner } from "./colours.js";
import { h, svg } from "./dom.js";
import { ago, count, many, time } from "./format.js";
import { SLOTS } from "./slots.js";
import { theme } from "./theme.js";
import { table } from "./ui.js";
import { workerLink } from "./workers.js";

/** Who has what in a generation; a consumer may have been handed over by itself. */
const membersOf = (generation, consumer) => generation.apart[consumer] ?? generation.members;

/**
 * The timeline. `items` are generations, the newest first; `chosen` is the number of one, or null for the newest;
 * `onChoose(number or null)`.
 */
export function timeline(page, consumer, items, chosen, onChoose) {
  if (items.length === 0) return h("p", { class: "empty" }, "Its slots have not been assigned yet.");
  const all = items.toReversed();
  know(all.flatMap((one) => membersOf(one, consumer)));
  const found = all.findIndex(({ generation }) => String(generation) === String(chosen));
  const index = found === -1 ? all.length - 1 : found;
  const one = all[index];
  const isNewest = index === all.length - 1;
  const choose = (at) => onChoose(at === all.length - 1 ? null : all[at].generation);
  const says = `Generation ${one.generation}, ${time(one.at)}: ${one.reason}`;
  return [
    h("div", { class: "timeline" },
      strip(page, consumer, all),
      h("div", { class: "timeline-mark", "aria-hidden": "true", style: { left: `${(100 * index) / all.length}%`, width: `${100 / all.length}%` } })),
    h("input", {
      type: "range", class: "timeline-range", "data-test": "timeline", min: 0, max: Math.max(1, all.length - 1), value: index, disabled: all.length === 1,
      "aria-label": "Generation", "aria-valuetext": says, oninput: (event) => choose(Math.min(all.length - 1, Number(event.target.value))),
      style: { width: `calc(${100 - 100 / all.length}% + 16px)`, marginLeft: `calc(${50 / all.length}% - 8px)` },
    }),
    h("div", { class: "generation" },
      h("p", { class: "generation-what" },
        h("strong", null, `Generation ${one.generation}`), isNewest ? h("span", { class: "badge good" }, "now") : null,
        h("span", null, sentence(one.reason)),
        h("span", { class: "quiet" }, `${time(one.at)}, ${ago(one.at)}`)),
      members(one, all[index - 1], consumer)),
  ];
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A column for each generation, a share of it for each worker. It is drawn when something has changed. */
function strip(page, consumer, all) {
  const sign = `${theme()} ${all[0].generation} ${all.at(-1).generation}`;
  const props = { class: "strip", "data-key": "strip", "data-keep": sign };
  if (page.state.strip === sign && document.querySelector(".strip")?.dataset.keep === sign) return h("div", props);
  page.state.strip = sign;
  const columns = all.map((generation, index) => {
    let top = 0;
    return membersOf(generation, consumer).toSorted((a, b) => (a.worker < b.worker ? -1 : 1)).map(({ worker, slots }) => {
      const height = (100 * Number(slots)) / SLOTS;
      top += height;
      return svg("rect", { x: index * 10 + 0.6, width: 8.8, y: 100 - top, height, fill: ofOwner(worker) });
    });
  });
  return h("div", props, svg("svg", { viewBox: `0 0 ${all.length * 10} 100`, preserveAspectRatio: "none", "aria-hidden": "true" }, columns));
}

/** Who has how many, and what is different from the one before. */
function members(now, before, consumer) {
  const had = new Map((before ? membersOf(before, consumer) : []).map((one) => [one.worker, one]));
  const rows = membersOf(now, consumer).map((one) => ({ ...one, had: Number(had.get(one.worker)?.slots ?? 0) }));
  const stay = new Set(rows.map(({ worker }) => worker));
  for (const one of had.values()) if (!stay.has(one.worker)) rows.push({ ...one, slots: 0, had: Number(one.slots), isGone: true });
  rows.sort((a, b) => (a.worker < b.worker ? -1 : 1));
  const change = ({ slots, had: earlier, isGone }) => {
    const more = Number(slots) - earlier;
    const moved = more === 0 ? "as before" : more > 0 ? `+${count(more)}` : `−${count(-more)}`;
    return isGone ? `${moved}, gone` : before && earlier === 0 && more > 0 ? `${moved}, new` : moved;
  };
  return table("Who has how many slots in this generation", [
    { title: "Worker", of: (row) => workerLink(row.worker, row.place) },
    { title: "Slots", kind: "number", of: (row) => count(row.slots) },
    { title: "Share", kind: "number", of: (row) => `${((100 * Number(row.slots)) / SLOTS).toFixed(1)} %` },
    { title: "Change", kind: "number", of: (row) => (before ? change(row) : "–") },
  ], rows, { key: (row) => row.worker, empty: `Nobody: ${many(SLOTS, "slot")} wait for a worker.` });
}
