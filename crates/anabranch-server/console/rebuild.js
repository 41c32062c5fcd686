// A version that is built beside the old one: in which rows they differ, and the switch.

import { path, query } from "./api.js";
import { h } from "./dom.js";
import { count, many } from "./format.js";
import { answered } from "./lists.js";
import { operation } from "./operations.js";
import { place } from "./places.js";
import { button, section, table, trouble } from "./ui.js";

/** The consumer that builds it; null if none is under way. */
export function builderOf(name, consumers) {
  return consumers.find((other) => other.name === `${name}.next`) ?? null;
}

/** The card of it. To compare reads whole tables, so it is done by a click only. */
export function rebuildCard(page, it, builder) {
  const rebuild = (page.state.rebuild ??= { tables: [], answer: null, isUnderWay: false });
  const compare = async () => {
    rebuild.tables = document.getElementById("rebuild-tables").value.split(/[\s,]+/).filter((name) => name !== "");
    Object.assign(rebuild, { answer: null, isUnderWay: true });
    page.redraw();
    const answer = await answered(query(path`/v1/consumers/${it.name}/rebuild`, { table: rebuild.tables }));
    Object.assign(rebuild, { answer, isUnderWay: false });
    page.redraw();
  };
  return section("A new version is built", { class: "card rebuild", "data-key": "rebuild" },
    h("p", null, `Version ${builder.version} is built beside version ${it.version} by `, h("a", { href: place("consumer", { name: builder.name }) }, builder.name),
      Number(builder.lag) === 0 ? ", which has caught up. " : `, which is ${many(builder.lag, "event")} behind. `,
      "Readers have the old rows until somebody switches."),
    h("form", { class: "slot-tools", onsubmit: (event) => (event.preventDefault(), compare()) },
      h("div", { class: "field" }, h("label", { for: "rebuild-tables" }, "Its tables"),
        h("input", { id: "rebuild-tables", placeholder: "order_totals order_lines", autocomplete: "off", "data-keep": "1", "data-test": "rebuild-tables" }),
        h("small", null, "Empty for a view or a rollup.")),
      h("div", { class: "field" }, h("span", { "aria-hidden": "true" }, "\u00a0"), h("button", { disabled: rebuild.isUnderWay, "data-test": "rebuild-compare" }, rebuild.isUnderWay ? "Comparing all rows…" : "Compare all rows"))),
    h("div", { role: "status" }, rebuild.answer ? differences(page, it, rebuild, compare) : null));
}

function differences(page, it, { answer, tables }, again) {
  if (answer.status !== 200) return trouble(answer);
  const { is_same: isSame, tables: compared } = answer.body;
  return [
    h("p", { class: isSame ? "good" : "warn" }, isSame ? "Both versions have the same rows." : "The versions differ. What one of them has not handled yet shows as a difference, too."),
    compared.map((one) => h("div", { class: "compared", "data-test": "rebuild-table", "data-table": one.table },
      h("h3", { class: "code" }, one.table),
      h("p", null, one.incomparable ?? `${count(one.only_old)} rows only in the old one, ${count(one.only_new)} only in the new one; by ${one.compared.join(", ")}`),
      columns("New columns", one.new_columns), columns("Columns that are gone", one.gone_columns),
      one.changed_columns.length ? h("p", null, "Columns of another type: ", one.changed_columns.map(({ name, was, is }) => `${name}, ${was} → ${is}`).join("; ")) : null,
      one.examples.length ? table(`Rows of ${one.table} that differ`, [
        { title: "In", of: (row) => (row.startsWith("-") ? "the old one" : "the new one") }, { title: "Row", kind: "code", of: (row) => row.slice(2) },
      ], one.examples) : null)),
    h("div", { class: "operations" }, button("Compare again", again),
      operation(page, "Switch to the new version", { do: "switch_rebuild", consumer: it.name, tables }, { kind: "main" })),
  ];
}

function columns(title, all) {
  return all.length ? h("p", null, `${title}: `, all.map(({ name, type }) => `${name} ${type}`).join(", ")) : null;
}
