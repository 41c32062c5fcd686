// Parts that many pages have.

import { h, svg } from "./dom.js";
import { many } from "./format.js";

/** A heading with what stands beside it. */
export function heading(title, ...beside) {
  return h("div", { class: "heading" }, h("h1", null, title), h("div", { class: "beside" }, beside));
}

/** A part of a page with a title. */
export function section(title, props, ...content) {
  return h("section", { class: "card", ...props }, title ? h("h2", null, title) : null, content);
}

/**
 * A table. `columns` are `{title, of(row) -> node or text, kind?: "number" | "code", wide?}`; `key(row)` finds rows again,
 * `props(row)` are attributes of a row. It scrolls by itself where the window is narrow.
 */
export function table(label, columns, rows, { key = null, empty = "Nothing here.", test = null, props = () => ({}) } = {}) {
  if (rows.length === 0) return h("p", { class: "empty", "data-test": test && `${test}-empty` }, empty);
  const cell = (column, row) => h("td", { class: column.kind ?? null, "data-title": column.title }, column.of(row));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", { "data-test": test },
      h("caption", { class: "unseen" }, label),
      h("thead", null, h("tr", null, columns.map((column) => h("th", { scope: "col", class: column.kind ?? null }, column.title)))),
      h("tbody", null, rows.map((row) =>
        h("tr", { "data-key": key ? key(row) : null, "data-test": test && `${test}-row`, ...props(row) }, columns.map((column) => cell(column, row)))))));
}

/** A word with a colour: `good`, `bad`, `warn`, `quiet`, `info`. */
export function badge(text, kind = "quiet") {
  return h("span", { class: `badge ${kind}` }, text);
}

/** Names and values. */
export function facts(...pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, shown.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

/** A button; quiet ones do not change anything. */
export function button(text, onclick, props = {}) {
  return h("button", { type: "button", onclick, ...props }, text);
}

/** A button that copies, and says that it has. */
export function copy(label, text, test) {
  return button(label, async (event) => {
    const where = event.currentTarget;
    try {
      await navigator.clipboard.writeText(text);
      where.textContent = "Copied";
    } catch {
      // Without https other than on this machine browsers have no clipboard: it is shown to be copied by hand.
      window.prompt("Copy this", text);
    }
    setTimeout(() => (where.textContent = label), 1500);
  }, { class: "quiet", "data-test": test, "data-copy": text });
}

/** What an answer is if it is not what was asked for. */
export function trouble(answer) {
  if (!answer) return h("p", { class: "empty" }, "Loading…");
  if (answer.status === 200) return null;
  return h("p", { class: "empty bad", role: "alert", "data-test": "problem", "data-code": answer.body?.code ?? "" },
    answer.body?.detail ?? "no answer");
}

/** Says of a list of consumers that it is not all of them. */
export function notAll({ body }) {
  return body.next ? h("p", { class: "quiet" }, `Of the first ${many(body.items.length, "consumer")}; there are more.`) : null;
}

/** A line of the last minutes; `points` are numbers, 0 at the bottom. */
export function spark(points, label, { width = 120, height = 28 } = {}) {
  const top = Math.max(1, ...points);
  const step = points.length > 1 ? width / (points.length - 1) : 0;
  const at = points.map((value, index) => `${(index * step).toFixed(1)},${(height - 1 - (value / top) * (height - 3)).toFixed(1)}`);
  return svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    points.length > 1 ? svg("polygon", { points: `0,${height} ${at.join(" ")} ${width},${height}` }) : null,
    points.length > 1 ? svg("polyline", { points: at.join(" ") }) : null);
}
