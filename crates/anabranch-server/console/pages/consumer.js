// A consumer: its state, its slots as a map, and what can be done with it.

import { CONSUMERS, path } from "../api.js";
import { alarms } from "../attention.js";
import { know } from "../colours.js";
import { consumerButtons } from "../consumer_operations.js";
import { h } from "../dom.js";
import { ago, count, many, short } from "../format.js";
import { legend } from "../legend.js";
import { anew, arrived, asked } from "../lists.js";
import { COLOURINGS, SlotMap } from "../map.js";
import { operation } from "../operations.js";
import { find, place, requery } from "../places.js";
import { rate, series } from "../rates.js";
import { builderOf, rebuildCard } from "../rebuild.js";
import { RunsTable } from "../runs_table.js";
import { locate } from "../search.js";
import { slotDetail, slotSentence } from "../slot_detail.js";
import { model } from "../slots.js";
import { theme } from "../theme.js";
import { timeline } from "../timeline.js";
import { badge, facts, heading, section, spark, table, trouble } from "../ui.js";
import { knowAll } from "../workers.js";
import { standing } from "./failed.js";

const PARKED = 100;
/** How many of them the page shows; all are on their own page. */
const SHOWN = 10;

const addresses = ({ name }) => ({
  one: path`/v1/consumers/${name}`, slots: path`/v1/consumers/${name}/slots`, parked: `${path`/v1/consumers/${name}/parked`}?limit=${PARKED}`,
  audit: path`/v1/consumers/${name}/audit`,
});

export const consumer = {
  title: ({ name }) => name,
  watch: ({ params }) => [...Object.values(addresses(params)), "/v1/replica-sets", "/v1/workers"],
  ready: arrived,
  changed: anew,
  draw(page) {
    const at = addresses(page.params);
    const [one, slots, parked, audit] = [at.one, at.slots, at.parked, at.audit].map((address) => page.answers.get(address));
    if (one?.status !== 200) return [heading(page.params.name), h("div", { class: "card" }, trouble(one), others(one))];
    const it = one.body;
    // All workers first, so that each has the colour here that it has elsewhere.
    const workers = page.answers.get("/v1/workers");
    if (workers?.status === 200) knowAll(workers.body.items);
    const sets = page.answers.get("/v1/replica-sets")?.body?.items ?? [];
    const set = sets.find((all) => all.consumers.includes(it.name)) ?? null;
    const failed = parked?.body?.items ?? [];
    const builder = builderOf(it.name, page.answers.get(CONSUMERS)?.body?.items ?? []);
    return [
      heading(it.name, badge(it.kind, "quiet"), badge(way(it.strategy), "quiet"), it.paused ? badge("paused", "info") : null, elsewhere(it)),
      figures(it, audit),
      alarms([it]),
      consumerButtons(page, it, set),
      builder ? rebuildCard(page, it, builder) : null,
      slotCard(page, it, workers && parked ? slots : null, failed, parked?.body?.next === null),
      set ? generations(page, it, set) : null,
      it.kind === "pool" ? null : parkedCard(page, it, failed),
    ];
  },
};

/** What belongs together, in words. */
const WAYS = { entity: "by stream", customer: "by customer", saga: "by correlation", global: "all in one sequence", dcb: "by tag", custom: "by a key of its own" };

function way(strategy) {
  const [, word, name] = /^(\w+)(?: "(.*?)")?/.exec(strategy) ?? [];
  return `${WAYS[word] ?? strategy}${name ? ` ${name}` : ""}`;
}

/** Where else there is something of it. */
function elsewhere(it) {
  if (it.kind === "pool") return h("a", { href: place("tasks", {}, { pool: it.name }) }, "Its tasks");
  return it.kind === "webhook" ? h("a", { href: place("deliveries", {}, { consumer: it.name }) }, "Its deliveries") : null;
}

function others(answer) {
  const known = answer?.body?.known ?? [];
  return known.length ? h("p", null, "These are there: ", known.map((name) => [h("a", { href: place("consumer", { name }) }, name), " "])) : null;
}

function figures(it, audit) {
  const speeds = series(it.name);
  const now = rate(it.name);
  const proven = audit?.status === 200
    ? audit.body.proven_at ? `proven up to ${count(audit.body.proven_up_to)}, ${ago(audit.body.proven_at)}` : `recorded since ${ago(audit.body.since).replace(" ago", "")}, not proven yet`
    : null;
  return h("section", { class: "card figures", "data-key": "figures", "aria-label": "Its state" },
    figure("Behind", count(it.lag), it.lag_ready !== it.lag ? `${count(it.lag_ready)} could be handled now` : "events"),
    h("div", { class: "figure" }, h("p", { class: "figure-name" }, "Events a second"), h("p", { class: "figure-value" }, now === null ? "–" : short(now)),
      spark(speeds.map((one) => one.rate), "Events a second in the last minutes")),
    figure("Position", count(it.position), `of ${count(it.head)}`),
    figure("Parked keys", count(it.parked_keys), `${many(it.parked_events, "event")} wait behind`, Number(it.parked_keys) ? "bad" : null),
    figure("Retrying", count(it.retrying_keys), Number(it.retrying_keys) ? many(it.retrying_events, "event") : "keys"),
    facts(["Runs as version", it.version], ["Replays from", it.replay_from === null ? null : count(it.replay_from)], ["Audit", proven]));
}

function figure(name, value, beside, kind = null) {
  return h("div", { class: "figure" }, h("p", { class: "figure-name" }, name), h("p", { class: `figure-value ${kind ?? ""}` }, value), h("p", { class: "quiet" }, beside));
}

function slotCard(page, it, answer, failed, isWhole) {
  if (answer?.status !== 200) return section("Slots", { "data-key": "no slots" }, trouble(answer));
  const { state } = page;
  const sign = failed.map((one) => `${one.slot}${one.state}`).join();
  const isSame = state.parkedSign === sign;
  if (!isSame) [state.parkedSign, state.parkedSlots] = [sign, new Set(failed.map((one) => Number(one.slot)))];
  if (state.from !== answer || !isSame) {
    state.from = answer;
    state.model = model(answer.body, isWhole ? failed : null);
    know(state.model.cursors.flatMap(({ owner }) => (owner ? [owner] : [])));
  }
  state.failed = failed;
  const by = Object.hasOwn(COLOURINGS, page.query.by ?? "") ? page.query.by : "owner";
  const only = page.query.only ?? null;
  if (!state.map) {
    state.map = new SlotMap(it.name, {
      onPoint: (slot) => (state.pointed !== slot && ((state.pointed = slot), page.redraw())),
      onChoose: (slot) => choose(page, slot),
      says: (slot) => slotSentence(state.model, slot, state.failed),
    });
    state.table = new RunsTable(it.name);
    const wanted = Number(page.query.slot);
    if (Number.isInteger(wanted) && wanted >= 0 && wanted < state.model.size) state.map.go(wanted);
  }
  state.map.show(state.model, { by, only, parked: state.parkedSlots });
  state.table.show(state.model, theme());
  const slot = state.pointed ?? state.map.slot;
  return section("Slots", { class: "card slots", "data-key": "slots" },
    h("div", { class: "slot-tools" },
      searchForm(page, it),
      h("div", { class: "field" }, h("label", { for: "colour-by" }, "Colour by"),
        h("select", { id: "colour-by", "data-test": "colour-by", onchange: (event) => requery({ by: event.target.value, only: null }) },
          [["owner", "worker"], ["lag", "lag"], ["reason", "what keeps it"]].map(([value, label]) => h("option", { value, selected: value === by }, label))))),
    h("div", { class: state.model.size === 1 ? "slot-columns one" : "slot-columns" },
      state.map.node(),
      h("div", { class: "slot-side" }, legend(state.model, by, only, (key) => requery({ only: key }), state.parkedSlots.size),
        slotDetail(it, state.model, slot, failed, state.found?.slot === slot && state.found.explained ? state.found : null, (to) => choose(page, to)))),
    state.table.node());
}

function choose(page, slot) {
  page.state.map.go(slot);
  page.state.pointed = null;
  requery({ slot });
  page.redraw();
}

function searchForm(page, it) {
  const { found } = page.state;
  const seek = async (text, isKey) => {
    page.state.found = null;
    const answer = await locate(it, text, { isKey, slots: page.state.model.size });
    // Who has gone on to another page is left there.
    if (find(location.hash).address !== page.address) return;
    page.state.found = answer;
    if (answer.slot !== undefined) choose(page, answer.slot);
    page.redraw();
  };
  return h("form", { class: "field slot-search", role: "search", onsubmit: (event) => {
    event.preventDefault();
    const text = event.target.querySelector("input").value.trim();
    if (text) seek(text, false);
  } },
    h("label", { for: "slot-search" }, "Find a key, stream, event or slot"),
    h("div", { class: "search-line" },
      h("input", { id: "slot-search", type: "search", placeholder: "Order:42", autocomplete: "off", spellcheck: "false", "data-test": "slot-search", "data-search": true, "data-keep": "1" }),
      h("button", null, "Find")),
    h("div", { role: "status", class: "search-says" },
      found?.problem ? h("span", { class: "bad", "data-test": "problem" }, found.problem) : null,
      found?.looksLikeKey ? h("button", { type: "button", class: "quiet small", onclick: () => seek(found.text, true) }, `Find the key “${found.text}” instead`) : null,
      found?.slot !== undefined ? h("span", { class: "unseen" }, slotSentence(page.state.model, found.slot, page.state.failed)) : null));
}

function generations(page, it, set) {
  const answer = asked(page, `/v1/generations?replica_set=${encodeURIComponent(set.name)}&limit=100`, String(set.generation));
  const chosen = page.query.generation ?? null;
  return section(`When slots of ${set.name} were assigned anew`, { class: "card generations", "data-key": "generations" },
    answer?.status === 200 ? timeline(page, it.name, answer.body.items, chosen, (generation) => requery({ generation })) : trouble(answer));
}

function parkedCard(page, it, failed) {
  const some = failed.slice(0, SHOWN);
  const all = Number(it.parked_keys) + Number(it.retrying_keys);
  const act = (key, action, label) => operation(page, label, { do: "parked", consumer: it.name, action, filter: { key } }, { kind: "small", title: `${label}: ${key}` });
  return section("Parked and retrying keys", { "data-key": "failed" },
    table("Parked and retrying keys", [
      { title: "Key", kind: "code", of: (row) => h("a", { href: place("parkedKey", { consumer: it.name, key: row.key }) }, row.key) },
      { title: "Error", of: (row) => h("span", { class: "code why" }, row.error) },
      { title: "Since", kind: "number", of: (row) => ago(row.since) },
      { title: "Waiting", kind: "number", of: (row) => many(row.events, "event") },
      { title: "State", of: standing },
      ...(page.may("operate") ? [{ title: "Actions", of: (row) => h("span", { class: "buttons" }, act(row.key, "retry", "Retry"), act(row.key, "skip", "Skip")) }] : []),
    ], some, { key: (row) => row.key, test: "parked", props: (row) => ({ "data-key": row.key }), empty: "None." }),
    all > some.length ? h("p", null, h("a", { href: place("failed", {}, { consumer: it.name }) }, `All ${count(all)}, grouped by error`)) : null);
}
