// A parked key: what failed, what waits behind it, and what can be done.

import { path, query } from "../api.js";
import { h } from "../dom.js";
import { at, eventTable } from "../event_table.js";
import { ago, count, span } from "../format.js";
import { anew, arrived, asked } from "../lists.js";
import { operation } from "../operations.js";
import { place } from "../places.js";
import { facts, heading, section, trouble } from "../ui.js";
import { standing } from "./failed.js";

const EVENTS = 100;

/** The word of another address is no key. */
const address = (consumer, key) => `${path`/v1/consumers/${consumer}/parked/`}${key === "groups" ? "%67roups" : encodeURIComponent(key)}`;

export const parkedKey = {
  title: ({ key }) => key,
  watch: ({ params }) => [path`/v1/consumers/${params.consumer}`],
  ready: arrived,
  changed: anew,
  draw(page) {
    const { consumer, key } = page.params;
    const one = page.answers.get(path`/v1/consumers/${consumer}`);
    if (one?.status !== 200) return [heading(key), trouble(one)];
    const { parked_keys: parked, parked_events: events, retrying_keys: retrying, retrying_events: behind } = one.body;
    const version = [parked, events, retrying, behind].join(" ");
    const explained = asked(page, query(path`/v1/consumers/${consumer}/explain`, { key }), version);
    const isGone = explained?.status === 200 && !explained.body.parked;
    const { events: waiting, attempts, asked: wish } = explained?.body?.parked ?? {};
    const answer = isGone || !explained ? null : asked(page, `${address(consumer, key)}?limit=${EVENTS}`, [waiting, attempts, wish].join(" "));
    const title = heading(h("span", { class: "code" }, key), buttons(page, answer));
    const crumb = h("p", { class: "crumb" }, h("a", { href: place("failed", {}, { consumer }) }, "Failed"), " of ", h("a", { href: place("consumer", { name: consumer }) }, consumer));
    if (isGone || answer?.body?.code === "no_such_key") {
      return [crumb, title, h("p", { class: "card good", role: "status" }, "It is not parked any more: nothing of it waits for somebody."), blocks(page, explained)];
    }
    if (answer?.status !== 200) return [crumb, title, trouble(answer)];
    const it = answer.body;
    return [
      crumb, title,
      section("What failed", null,
        h("p", { class: "error code" }, it.error || "Your token does not show it."),
        facts(["State", standing(it)], ["Attempts", count(it.attempts)], ["Since", [at(it.since), h("span", { class: "quiet" }, ` ${ago(it.since)}`)]],
          ["Retried in", it.retry_in ? span(Number(it.retry_in.secs)) : null], ["Events behind", count(it.events)])),
      blocks(page, explained),
      section(it.events > it.next_events.length ? `The first ${it.next_events.length} of ${count(it.events)} events that wait` : "Events that wait", null,
        eventTable("Events that wait, the oldest first", it.next_events)),
    ];
  },
};

function buttons(page, answer) {
  if (answer?.status !== 200) return null;
  const { consumer, key } = page.params;
  const act = (action, label, kind) => operation(page, label, { do: "parked", consumer, action, filter: { key } }, { kind, title: `${label}: ${key}` });
  return [act("retry", "Retry", "main"), act("skip", "Skip this event"), act("skip_all", "Skip all that wait", "danger")];
}

function blocks(page, answer) {
  if (answer?.status !== 200) return trouble(answer);
  const { slot, why, cursor, next } = answer.body;
  const { worker } = cursor?.owner ?? {};
  return section("Its slot", null, facts(
    ["Slot", h("a", { href: place("consumer", { name: page.params.consumer }, { slot }) }, slot)],
    ["Run by", worker ? h("a", { href: place("worker", { id: worker.id }) }, `${worker.host}, process ${worker.pid}`) : "nobody"],
    ["Its position", cursor ? count(cursor.position) : null], ["Behind", cursor ? count(cursor.lag) : null],
    ["Next event", next ? h("a", { href: place("event", { id: String(next.position) }) }, `${next.type} ${next.stream}@${next.version}`) : null],
    ["Its state", why.length ? why.join("; ") : null]));
}
