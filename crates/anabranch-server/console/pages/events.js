// Events of the log, the newest first: as they come, or by what they are searched for.

import { query as asking } from "../api.js";
import { h } from "../dom.js";
import { eventTable, parts } from "../event_table.js";
import { filters, several } from "../filters.js";
import { many } from "../format.js";
import { place, requery } from "../places.js";
import { Rows } from "../lists.js";
import { Tail, newest } from "../tail.js";
import { positionAt } from "../time_search.js";
import { button, heading, trouble } from "../ui.js";

/** How many rows there are at most, and how far before the end a tail begins: appends under way may still come below it. */
const MOST = 500;
const BEFORE = 200;
const FIELDS = [
  { name: "go", label: "Go to", placeholder: "Order:17, an id, a position", search: true },
  { name: "types", label: "Types", placeholder: "OrderPlaced, OrderPaid" },
  { name: "tags", label: "All of the tags", placeholder: "cust:7" },
  { name: "category", label: "Categories", placeholder: "Order" },
  { name: "tenant", label: "Tenants", placeholder: "acme" },
  { name: "until", label: "Until", type: "datetime-local" },
];
const STATES = { live: "As they are stored", connecting: "Connecting", hidden: "Quiet while the tab is hidden" };

export const events = {
  title: () => "Events",
  watch: () => [],
  alone: isLive,
  stream: (page) => (isLive(page) ? page.state.list?.tail?.state ?? "connecting" : undefined),
  ready: (page) => Boolean(page.state.list) && !page.state.list.rows.isFirst,
  close: (page) => page.state.list?.close(),
  draw(page) {
    const sign = asking("", page.query);
    if (page.state.sign !== sign) {
      page.state.list?.close();
      Object.assign(page.state, { sign, list: new List(page) });
    }
    const { list } = page.state;
    return [
      heading("Events", live(page, list)),
      filters(page, FIELDS, { label: "Search events", onsubmit: (values) => go(values) }),
      h("section", { class: "card", "aria-label": "Events found" },
        list.says ? h("p", { class: "quiet" }, list.says) : null,
        list.rows.isFirst ? trouble(null) : eventTable("Events, the newest first", list.rows.items, { lacks: ["Version"], empty: list.rows.next === null ? "No such events." : "None among those that were looked at." }),
        list.rows.isFirst ? null : list.foot()),
    ];
  },
};

/** One event or one stream has a page of its own. */
function go({ go: wanted, ...values }) {
  if (!wanted) return { ...values, before: "" };
  if (!wanted.includes(":")) location.hash = place("event", { id: wanted });
  else {
    const [category, id] = parts(wanted);
    location.hash = place("stream", { category, id });
  }
  return null;
}

function asked({ types, tags, category, tenant }) {
  return { types: several(types), tags: several(tags), category: several(category), tenant: several(tenant) };
}

/** Without a word in the address it is live unless something is searched for. */
function isLive({ query }) {
  if (query.until || query.before) return false;
  return query.live ? query.live === "on" : !Object.values(asked(query)).some((list) => list.length);
}

function live(page, { tail }) {
  const isOn = isLive(page);
  const isBad = tail?.state === "lost" || tail?.state === "stopped";
  const said = !isOn ? "" : isBad ? `${tail.state === "lost" ? "Cut off, trying again" : "Ended"}: ${tail.why}` : STATES[tail?.state ?? "connecting"];
  return [
    h("span", { class: isBad ? "bad" : "quiet", role: "status", "data-test": "tail", "data-state": tail?.state ?? "off" }, said),
    h("button", { type: "button", class: "switch", role: "switch", "aria-checked": String(isOn), "data-test": "events-live", "data-live": String(isOn),
      onclick: () => requery({ live: isOn ? "off" : "on", until: "", before: "" }) }, h("span", { class: "knob", "aria-hidden": "true" }), "Live"),
  ];
}

/** What is shown for one search. */
class List {
  tail = null;
  says = "";
  #isClosed = false;

  constructor(page) {
    this.page = page;
    this.params = asked(page.query);
    this.rows = { items: [], isFirst: true, next: null };
    this.says = page.query.before ? `Events before position ${page.query.before}.` : "";
    this.#begin();
  }

  close() {
    this.#isClosed = true;
    this.tail?.close();
  }

  async #begin() {
    const { page, params } = this;
    const isTail = isLive(page);
    let [after, head] = [page.query.before ?? null, 0];
    try {
      if (page.query.until) after = await this.#until(new Date(page.query.until));
      if (isTail) head = await newest();
    } catch (problem) {
      this.rows = { ...this.rows, isFirst: false, foot: () => trouble({ status: problem.status, body: { ...problem.body, detail: problem.message } }) };
      return page.redraw();
    }
    if (this.#isClosed) return;
    this.rows = new Rows(page, "/v1/events", { ...params, direction: "backwards" }, { from: after });
    page.redraw();
    await this.rows.first;
    if (!isTail || this.#isClosed) return;
    this.tail = new Tail(params, Math.max(0, head - BEFORE), {
      onEvents: (found) => this.#add(found), onState: () => (this.tail?.state === "stopped" ? page.enter() : page.redraw()),
      onFar: () => ((page.state.sign = null), page.redraw()),
    });
    page.redraw();
  }

  async #until(time) {
    const { position, at } = await positionAt(time);
    this.says = at ? `Up to about ${time.toLocaleString("en-GB")}: position ${position} was recorded at ${at}.` : "The log has nothing from before that.";
    return position + 1;
  }

  /** Each once, in its place, however it came. */
  #add(found) {
    const all = new Map([...this.rows.items, ...found].map((event) => [event.position, event]));
    const sorted = [...all.values()].sort((one, other) => (one.position < other.position ? 1 : -1));
    this.rows.items = sorted.slice(0, MOST);
    if (sorted.length > MOST) this.rows.next = String(this.rows.items.at(-1).position);
    this.page.redraw();
  }

  foot() {
    if (this.rows.items.length < MOST) return this.rows.foot("Older");
    const last = this.rows.items.at(-1);
    return h("p", { class: "foot" }, h("span", { class: "quiet" }, `${many(MOST, "row")} at most. `),
      button("Older ones", () => requery({ live: "", until: "", before: last.position })));
  }
}
