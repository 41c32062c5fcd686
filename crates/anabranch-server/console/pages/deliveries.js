// What webhooks have sent: each delivery with its attempts and answers.

import { CONSUMERS, query } from "../api.js";
import { h } from "../dom.js";
import { at, eventLink } from "../event_table.js";
import { filters } from "../filters.js";
import { ago, count } from "../format.js";
import { PER_SECOND, operation } from "../operations.js";
import { place } from "../places.js";
import { badge, heading, table, trouble } from "../ui.js";

const SHOWN = 100;
/** How many events of one delivery are named. */
const MEMBERS = 12;
const STATES = { open: ["under way", "info"], failed: ["failed", "bad"], delivered: ["delivered", "good"] };

const address = ({ query: { consumer, state, key } }) => query("/v1/deliveries", { consumer, state, key, limit: SHOWN });

export const deliveries = {
  title: () => "Deliveries",
  watch: (page) => [CONSUMERS, address(page)],
  draw(page) {
    const hooks = (page.answers.get(CONSUMERS)?.body?.items ?? []).filter(({ kind }) => kind === "webhook").map(({ name }) => name);
    const answer = page.answers.get(address(page));
    return [
      heading("Deliveries", again(page)),
      filters(page, [
        { name: "consumer", label: "Webhook", options: [["", "All webhooks"], ...hooks.map((name) => [name, name])] },
        { name: "state", label: "State", options: [["", "any"], ...Object.entries(STATES).map(([state, [text]]) => [state, text])] },
        { name: "key", label: "Key", placeholder: "cust-7", search: true },
      ], { label: "Filter deliveries" }),
      h("div", { class: "card" }, answer?.status === 200 ? list(page, answer.body.items) : trouble(answer)),
    ];
  },
};

/** All that match, for one webhook. */
function again(page) {
  const { consumer, state, key } = page.query;
  if (!consumer) return h("span", { class: "quiet" }, page.may("operate") ? "Choose a webhook to send many again" : "");
  const filter = Object.fromEntries(Object.entries({ state, key }).filter(([, value]) => value));
  const what = [Object.hasOwn(STATES, state ?? "") ? STATES[state][0] : "all", key ? `of ${key}` : "", `of ${consumer}`].filter(Boolean).join(" ");
  return operation(page, "Send all of these again…", { do: "resend", consumer, filter, all: true }, { title: `Send again: ${what}`, fields: [PER_SECOND] });
}

function list(page, items) {
  const open = (page.state.open ??= new Set());
  const toggle = (id) => () => (open.has(id) ? open.delete(id) : open.add(id), page.redraw());
  const id = (one) => `${one.consumer} ${one.id}`;
  return [
    table("Deliveries, the newest first", [
      { title: "Last tried", kind: "t-when", of: (one) => at(one.at) },
      { title: "State", of: (one) => badge(...STATES[one.state]) },
      { title: "Key", kind: "t-key", of: (one) => one.key },
      { title: "Answer, attempts and events", kind: "t-answer", of: (one) => [
        h("button", { type: "button", class: "quiet fold", "aria-expanded": String(open.has(id(one))), onclick: toggle(id(one)), "data-test": "delivery-open" },
          h("span", { class: "arrow", "aria-hidden": "true" }), h("span", { class: "line" }, one.answer || without(page, one, "no answer yet"))),
        open.has(id(one)) ? more(page, one) : null] },
      { title: "Webhook", kind: "t-key", of: (one) => h("a", { href: place("consumer", { name: one.consumer }) }, one.consumer) },
      { title: "Status", kind: "number", of: (one) => one.status ?? "–" },
      { title: "Took", kind: "number", of: (one) => took(one.took_us) },
      { title: "Attempts", kind: "number", of: (one) => count(one.attempts) },
      { title: "Actions", kind: "t-acts", of: (one) => (one.state === "open" ? null : operation(page, "Send again", { do: "resend", consumer: one.consumer, filter: { id: one.id } }, { title: `Send ${one.id} again` })) },
    ], items, { key: id, test: "delivery", empty: "Nothing was sent that matches.", props: (one) => ({ "data-id": one.id, "data-state": one.state }) }),
    items.length === SHOWN ? h("p", { class: "quiet" }, `The newest ${SHOWN}. Name a webhook, a state or a key to see others.`) : null,
  ];
}

function took(us) {
  if (us === null || us === undefined) return "–";
  return us < 1e6 ? `${Math.max(1, Math.round(us / 1000))} ms` : `${(us / 1e6).toFixed(1)} s`;
}

/** Why there is no text of an answer. */
function without(page, one, none) {
  if (!one.status) return none;
  return page.session?.masked ? "not shown to you" : "an empty answer";
}

function more(page, { id, members, failures, state }) {
  return h("div", { class: "more" },
    h("p", null, "webhook-id ", h("span", { class: "code" }, id)),
    h("p", null, members.length === 1 ? "Event " : "Events ", members.slice(0, MEMBERS).map((position, index) => [index ? ", " : "", eventLink(position, position)]), members.length > MEMBERS ? ` and ${members.length - MEMBERS} more` : ""),
    failures.length ? h("ol", null, failures.map((one) => h("li", null, at(one.at), h("span", { class: "quiet" }, ` ${ago(one.at)}, ${took(one.took_us)}: `), one.status ? `${one.status} ` : "", one.answer || without(page, one, "no answer")))) : null,
    failures.length && state === "delivered" ? h("p", { class: "quiet" }, "These failed before it was delivered.") : null);
}
