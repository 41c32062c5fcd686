// Slots as rows: neighbours with the same owner and reason. For those who do not see the map, and for finding.

import { h } from "./dom.js";
import { count } from "./format.js";
import { Lasting } from "./lasting.js";
import { wordsOf } from "./reasons.js";
import { runs } from "./slots.js";
import { ownerOf, swatch } from "./workers.js";

/** From so many rows on they are folded at first. */
const MANY = 60;

export class RunsTable {
  #model = null;
  #theme = null;
  #shown = [];
  #lasting;

  constructor(name) {
    this.body = h("tbody");
    this.summary = h("summary");
    this.element = h("details", { class: "runs" }, this.summary,
      h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Slots as rows" },
        h("table", null,
          h("caption", { class: "unseen" }, `Slots of ${name} as rows`),
          h("thead", null, h("tr", null, ["Slots", "Worker", "Lag", "State"].map((title) => h("th", { scope: "col", class: title === "Lag" ? "number" : null }, title)))),
          this.body)));
    this.#lasting = new Lasting(`runs of ${name}`, this.element);
  }

  node() {
    return this.#lasting.node();
  }

  show(model, theme) {
    if (model === this.#model && theme === this.#theme) return;
    const isFirst = this.#model === null;
    const isOtherTheme = theme !== this.#theme;
    [this.#model, this.#theme] = [model, theme];
    const wanted = runs(model);
    if (isFirst) this.element.open = wanted.length <= MANY;
    const text = `All slots as a table, ${count(wanted.length)} ${wanted.length === 1 ? "row" : "rows"}`;
    if (this.summary.textContent !== text) this.summary.textContent = text;
    wanted.forEach((run, index) => {
      const before = this.#shown[index];
      if (!before || isOtherTheme || before.run.from !== run.from || before.run.to !== run.to || before.run.worker !== run.worker || before.run.reason !== run.reason) {
        const row = this.#row(run);
        if (before) before.row.replaceWith(row);
        else this.body.append(row);
        this.#shown[index] = { run, row };
      } else if (before.run.lag !== run.lag) {
        before.row.cells[2].textContent = count(run.lag);
        before.run = run;
      }
    });
    for (const { row } of this.#shown.splice(wanted.length)) row.remove();
  }

  #row({ from, to, worker, reason, owner, lag }) {
    const name = owner ? `${ownerOf(owner)}${owner.is_alive ? "" : ", dead"}` : "nobody";
    return h("tr", { "data-test": "run-row", "data-from": from, "data-to": to, "data-owner": worker, "data-reason": reason },
      h("td", null, from === to ? `slot ${from}` : `slots ${from}–${to}`), h("td", null, swatch(worker), name),
      h("td", { class: "number" }, count(lag)), h("td", null, wordsOf(reason)));
  }
}
