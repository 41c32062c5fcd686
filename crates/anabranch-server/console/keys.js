// Keys for the whole console: `g` and a letter go to a page, `/` to the search of this one, `?` lists them.

import { h } from "./dom.js";
import { NAVIGATION, place } from "./places.js";

const GO = { o: "overview", f: "failed", e: "events", t: "tasks", w: "workflows", d: "deliveries", b: "batches", j: "journal" };

/** Listens from now on. */
export function install() {
  let after = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, dialog[open]")) return;
    if (event.key === "?") return help();
    if (event.key === "/") {
      const search = document.querySelector("[data-search]");
      if (search) {
        event.preventDefault();
        search.focus();
      }
      return;
    }
    if (event.key === "g") {
      after = event.timeStamp;
    } else if (event.timeStamp - after < 1500 && GO[event.key]) {
      after = 0;
      location.hash = place(GO[event.key]);
    }
  });
}

function help() {
  const titles = Object.fromEntries(NAVIGATION);
  const dialog = h("dialog", { class: "keys", "aria-label": "Keys" },
    h("h2", null, "Keys"),
    h("dl", { class: "facts" },
      Object.entries(GO).map(([key, name]) => h("div", null, h("dt", null, `g ${key}`), h("dd", null, titles[name]))),
      [["/", "Search on this page"], ["?", "These keys"], ["arrows", "Move in the slot map"], ["Esc", "Close"]]
        .map(([key, what]) => h("div", null, h("dt", null, key), h("dd", null, what)))),
    h("form", { method: "dialog" }, h("button", { autofocus: true }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
