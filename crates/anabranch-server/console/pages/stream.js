// A stream: its events, the newest first, and new ones as they come.

import { path, query } from "../api.js";
import { h } from "../dom.js";
import { eventTable } from "../event_table.js";
import { many } from "../format.js";
import { Rows, arrived } from "../lists.js";
import { place } from "../places.js";
import { heading, trouble } from "../ui.js";

/** How many rows there are at most, unless somebody wants older ones. */
const MOST = 500;

const newest = ({ category, id }) => query(path`/v1/streams/${category}/${id}`, { direction: "backwards", limit: 50 });

export const stream = {
  title: ({ category, id }) => `${category}:${id}`,
  watch: (page) => [newest(page.params)],
  ready: arrived,
  draw(page) {
    const { category, id } = page.params;
    const answer = page.answers.get(newest(page.params));
    if (answer?.status !== 200) return [heading(`${category}:${id}`), trouble(answer)];
    const { items, next } = answer.body;
    const all = known(page.state, items, next);
    const shown = [...all.values()].sort((one, other) => Number(other.version) - Number(one.version));
    if (!page.state.rows && shown.length > MOST) {
      for (const { version } of shown.splice(MOST)) all.delete(version);
      page.state.from = Number(shown.at(-1).version) - 1;
    }
    return [
      heading(h("span", { class: "code" }, `${category}:${id}`), h("span", { class: "quiet" }, many(items[0]?.version ?? 0, "event")),
        h("a", { class: "button", href: place("events", {}, { category }) }, `All of ${category}`)),
      h("section", { class: "card", "aria-label": "Events" },
        eventTable(`Events of ${category}:${id}, the newest first`, shown, { lacks: ["Stream"], empty: "This stream has no events." }),
        older(page)),
    ];
  },
};

/** All that came so far. If more has come at once than one page has, it begins anew, so that nothing is missing in between. */
function known(state, items, next) {
  const first = items.at(-1)?.version;
  if (!state.all || first > state.last + 1) Object.assign(state, { all: new Map(), from: next, rows: null });
  state.last = items[0]?.version ?? 0;
  for (const event of [...items, ...(state.rows?.items ?? [])]) state.all.set(event.version, event);
  return state.all;
}

function older(page) {
  const { category, id } = page.params;
  const { rows, from } = page.state;
  if (rows) return rows.foot("Older");
  if (from === null) return null;
  const look = () => (page.state.rows = new Rows(page, path`/v1/streams/${category}/${id}`, { direction: "backwards" }, { by: "from", from }));
  return h("p", { class: "foot" }, h("button", { type: "button", "data-test": "more", onclick: () => (look(), page.redraw()) }, "Older"));
}
