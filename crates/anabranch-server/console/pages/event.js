// One event: all that is stored of it, what caused it, what it caused.

import { CONSUMERS, mount, path } from "../api.js";
import { h } from "../dom.js";
import { at, eventLink, eventTable, streamLink } from "../event_table.js";
import { ago } from "../format.js";
import { jsonView } from "../json_view.js";
import { Rows, arrived, asked } from "../lists.js";
import { find, place } from "../places.js";
import { UUID, locate } from "../search.js";
import { copy, heading, section, trouble } from "../ui.js";

/** What is not said of others beside it. */
const LACKS = ["Version", "Tags"];
/** How far before an event others of its correlation are looked for. */
const NEAR = 10_000;

export const event = {
  title: ({ id }) => `Event ${id}`,
  watch: () => [CONSUMERS],
  ready: (page) => arrived(page) && !(page.state.effects?.isFirst ?? false) && !(page.state.others?.isFirst ?? false),
  draw(page) {
    const address = path`/v1/events/${page.params.id}`;
    const answer = asked(page, address);
    if (answer?.status !== 200) return [heading(`Event ${page.params.id}`), trouble(answer)];
    const { event: one, cause } = answer.body;
    return [
      heading([one.type, h("span", { class: "quiet" }, ` at ${one.position}`)],
        copy("Copy as curl", `curl -s '${location.origin}${mount}${address}'`, "copy-curl"), copy("Copy id", one.id, null)),
      h("div", { class: "columns wide-first" },
        h("div", { class: "stack" }, body(page, "data", "Data", one), body(page, "metadata", "Metadata", one),
          causes(one, cause), effects(page, one), correlated(page, one)),
        h("div", { class: "stack" }, fields(one), slots(page, one))),
    ];
  },
};

function body(page, name, title, one) {
  if (one.masked) return section(title, null, h("p", { class: "empty" }, "Your token does not show it."));
  return one[name] === null ? null : section(title, null, jsonView(page, name, one[name], { test: `event-${name}`, label: title }));
}

function fields(one) {
  const field = (name, title, value, of = (text) => text) => (value === null || value === undefined || value === "" ? null
    : h("div", null, h("dt", null, title), h("dd", { "data-test": "event-field", "data-field": name }, of(value))));
  const search = (by) => (value) => h("a", { href: place("events", {}, { [by]: value }) }, value);
  return section("Fields", null, h("dl", { class: "fields" },
    field("type", "Type", one.type, search("types")),
    field("stream", "Stream", one.stream, streamLink),
    field("version", "Version", one.version),
    field("position", "Position", one.position),
    h("div", null, h("dt", null, "Recorded"), h("dd", null, at(one.recorded_at), h("span", { class: "quiet" }, ` ${ago(one.recorded_at)}`))),
    field("id", "Id", one.id, code),
    field("customer", "Customer", one.customer),
    field("tenant", "Tenant", one.tenant, search("tenant")),
    one.tags.length ? h("div", null, h("dt", null, "Tags"), h("dd", { class: "chips" }, one.tags.map((tag) =>
      h("a", { class: "badge", href: place("events", {}, { tags: tag }), "data-test": "event-field", "data-field": "tags" }, tag)))) : null,
    field("correlation", "Correlation", one.correlation, code),
    field("causation", "Causation", one.causation, code),
    field("schema", "Schema", one.schema_version),
    field("traceparent", "Trace", one.traceparent, code)));
}

function code(text) {
  return h("span", { class: "code" }, text);
}

/** Where it belongs in the map of each consumer. */
function slots(page, one) {
  const show = async (click, consumer) => {
    if (click.ctrlKey || click.metaKey) return;
    click.preventDefault();
    const { slot, problem } = await locate(consumer, one.id);
    // Who has gone on to another page is left there.
    if (find(location.hash).address !== page.address) return;
    if (slot !== undefined) return (location.hash = place("consumer", { name: consumer.name }, { slot }));
    page.state.noSlot = problem;
    page.redraw();
  };
  const items = (page.answers.get(CONSUMERS)?.body?.items ?? []).filter(({ kind }) => kind !== "pool" && kind !== "schedules");
  if (items.length === 0) return null;
  return section("Its slot in the map of", null, h("p", { class: "chips" }, items.map((consumer) =>
    h("a", { class: "badge", href: place("consumer", { name: consumer.name }), onclick: (click) => show(click, consumer) }, consumer.name))),
    h("p", { class: "bad", role: "status" }, page.state.noSlot ?? ""));
}

function causes(one, cause) {
  if (cause) return section("Caused by", null, eventTable("Caused by", [cause], { test: "cause", lacks: LACKS }));
  if (!UUID.test(one.causation ?? "")) return null;
  return section("Caused by", null, h("p", null, "No event of this log has that id. What workflows do is caused by a task: ",
    h("a", { href: place("task", { id: one.causation }) }, "look for the task"), "."));
}

/** Events are looked through for it, so it says how far it has come. */
function effects(page, one) {
  const rows = (page.state.effects ??= new Rows(page, "/v1/events", { causation: one.id }, { step: 20, looks: 3, from: one.position }));
  return rows.items.length || rows.next !== null || rows.problem || rows.isFirst ? section("It has caused", null,
    rows.items.length ? eventTable("It has caused", rows.items, { test: "effect", lacks: LACKS }) : null, rows.foot("Look further")) : null;
}

function correlated(page, one) {
  if (!one.correlation) return null;
  // Events of one correlation are near one another, so the search begins a little before this one.
  const from = Math.max(0, Number(one.position) - NEAR);
  const rows = (page.state.others ??= new Rows(page, "/v1/events", { correlation: one.correlation }, { step: 20, looks: 3, from }));
  const others = rows.items.filter((other) => other.id !== one.id);
  return section("Of the same correlation", null,
    others.length ? eventTable("Of the same correlation", others, { test: "correlated", lacks: LACKS })
      : rows.isFirst || rows.problem ? null : h("p", { class: "empty" }, rows.next === null ? "No other event." : "No other event so far."),
    from ? h("p", { class: "quiet" }, `Those after position ${from}.`) : null, rows.foot("Look further"));
}
