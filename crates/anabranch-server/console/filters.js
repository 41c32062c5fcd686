// What a list is narrowed by: it stands in the address, so that a link shows the same.

import { h } from "./dom.js";
import { requery } from "./places.js";

/**
 * A form of `fields`: `{name, label, options?, placeholder?, type?, test?, search?, now?}`. Chosen ones hold at once, written ones with
 * Enter or the button; `onsubmit(values)` may take some out of the values and do something else with them.
 */
export function filters(page, fields, { label = "Filter", onsubmit = (values) => values, kind = "card" } = {}) {
  follow(page, fields);
  const send = (event) => {
    event.preventDefault();
    const form = event.target.form ?? event.target;
    const given = Object.fromEntries(fields.map(({ name }) => [name, form.elements[name].value.trim()]));
    const values = onsubmit(given);
    if (values) requery(values);
  };
  const isWritten = fields.some((field) => !field.options);
  return h("form", { class: `filters ${kind}`, role: "search", "aria-label": label, onsubmit: send },
    fields.map((field) => h("div", { class: "field" }, h("label", { for: `by-${field.name}` }, field.label), input(page, field, send))),
    isWritten ? h("button", { "data-test": "filter-apply" }, "Search") : null);
}

function input(page, { name, options, placeholder, type = "text", test = name, search, now = page.query[name] ?? "" }, send) {
  const props = { id: `by-${name}`, name, "data-keep": "1", "data-test": `filter-${test}` };
  if (options) {
    const all = options.some(([value]) => value === now) ? options : [...options, [now, now]];
    return h("select", { ...props, "data-keep": [now, ...all.flat()].join("\n"), onchange: send },
      all.map(([value, text]) => h("option", { value, selected: value === now }, text)));
  }
  return h("input", { ...props, type, value: now, placeholder, autocomplete: "off", spellcheck: "false", "data-search": search, step: type === "datetime-local" ? 1 : null });
}

/** Who comes by a link finds what it says in the form, too; what is being written stays. */
function follow(page, fields) {
  const sign = JSON.stringify(page.query);
  if (page.state.filters === sign) return;
  page.state.filters = sign;
  requestAnimationFrame(() => {
    for (const { name, now: chosen } of fields) {
      const there = document.getElementById(`by-${name}`);
      if (there && there !== document.activeElement) there.value = chosen ?? page.query[name] ?? "";
    }
  });
}

/** `a, b` as a list. */
export function several(text) {
  return (text ?? "").split(",").map((one) => one.trim()).filter((one) => one !== "");
}
