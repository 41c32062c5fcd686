// What is said about one slot: who has it, how far it is, and what keeps it.

import { h } from "./dom.js";
import { ago, count, many, span } from "./format.js";
import { place } from "./places.js";
import { detailOf, kindOf, lastsOf, wordsOf } from "./reasons.js";
import { at } from "./slots.js";
import { facts } from "./ui.js";
import { ownerOf, swatch, workerLink } from "./workers.js";

/** How many keys that have failed are shown of a slot. */
const SOME = 5;

/** `parked` are keys of the consumer that have failed; `found` is what a search has come to, if it was for this slot; `onGo(slot)`. */
export function slotDetail(consumer, model, slot, parked, found, onGo) {
  const cursor = at(model, slot);
  const own = parked.filter((one) => Number(one.slot) === slot);
  return h("div", { class: "slot-detail", "data-test": "slot-detail", "data-slot": slot, "data-owner": cursor?.worker ?? "" },
    h("div", { class: "slot-name" }, h("h3", null, `Slot ${slot}`), model.size === 1 ? null : [
      h("button", { type: "button", class: "quiet small", "aria-label": "The slot before", disabled: slot === 0, onclick: () => onGo(slot - 1) }, "←"),
      h("button", { type: "button", class: "quiet small", "aria-label": "The slot after", disabled: slot === model.size - 1, onclick: () => onGo(slot + 1) }, "→")]),
    found ? foundKey(consumer, found) : null,
    cursor ? [
      facts(["Worker", owner(cursor.owner)], ["Position", count(cursor.position)], [model.size === 1 ? "Behind" : "Behind, together", many(cursor.lag, "event")],
        ["Moves with", model.size === 1 ? null : many(cursor.together - 1, "other slot")]),
      cursor.reasons.length
        ? h("ul", { class: "reasons" }, cursor.reasons.map((reason, index) => reasonLine(reason, cursor.why[index])))
        : h("p", { class: "good" }, cursor.lag === 0 ? "Running; nothing waits." : "Running."),
    ] : h("p", { class: "empty" }, "This consumer does not use it."),
    own.length ? [
      h("h4", null, many(own.length, "parked or retrying key")),
      h("ul", { class: "reasons" }, own.slice(0, SOME).map((one) => h("li", null,
        h("a", { class: "code", href: place("parkedKey", { consumer: consumer.name, key: one.key }) }, one.key), " ",
        h("span", { class: "quiet" }, `${many(one.events, "event")}, ${ago(one.since)}`), h("p", { class: "code why" }, one.error)))),
      own.length > SOME ? h("p", { class: "quiet" }, `and ${own.length - SOME} more`) : null,
    ] : null);
}

/** The same in one sentence, to be read out. */
export function slotSentence(model, slot, parked) {
  const cursor = at(model, slot);
  if (!cursor) return `Slot ${slot}: not used`;
  const failed = parked.filter((one) => Number(one.slot) === slot).length;
  const name = cursor.owner ? `${ownerOf(cursor.owner)}${cursor.owner.is_alive ? "" : ", dead"}` : "nobody";
  return `Slot ${slot}, ${name}, lag ${count(cursor.lag)}${cursor.reason ? `, ${wordsOf(cursor.reason)}` : ""}${failed ? `, ${many(failed, "parked or retrying key")}` : ""}`;
}

function owner(known) {
  if (!known) return [swatch(""), "nobody"];
  return [workerLink(known.worker, ownerOf(known)), known.is_alive ? null : h("span", { class: "badge bad" }, "dead")];
}

function reasonLine(reason, said) {
  const lasts = lastsOf(reason);
  const detail = detailOf(reason);
  return h("li", null, h("span", { class: `badge ${kindOf(reason.reason)}` }, wordsOf(reason.reason)),
    lasts === null ? null : h("span", { class: "quiet" }, ` for ${span(lasts / 1000)}`),
    detail ? h("p", { class: "code why" }, detail) : kindOf(reason.reason) === "quiet" ? h("p", null, said) : null);
}

function foundKey(consumer, { text, explained, event }) {
  const { key, parked, next, tasks, why } = explained;
  const waits = tasks ? Number(tasks.tasks) : 0;
  return h("div", { class: "found" },
    h("p", null, event ? `The event ${event.type} belongs to the key ` : "The key ", h("strong", { class: "code" }, key), event ? ", which is in this slot." : " is in this slot."),
    parked ? h("p", { class: "bad" }, parked.state === "parked" ? "It is parked, with " : "It is retrying, with ",
      h("a", { href: place("parkedKey", { consumer: consumer.name, key: parked.key }) }, many(parked.events, "event"), " waiting")) : null,
    next ? h("p", null, "Next: ", h("a", { href: place("event", { id: String(next.position) }) }, `${next.type} ${next.stream}@${next.version}`)) : null,
    waits ? h("p", null, `${many(waits, "task")} of it wait${waits === 1 ? "s" : ""}${tasks.is_paused ? "; the key is paused" : ""}.`) : null,
    !parked && !next && !waits ? h("p", { class: "good" }, why.length ? "Nothing of the key itself waits." : "Nothing of it waits.") : null,
    event ? h("p", null, h("a", { href: place("event", { id: event.id }), title: text }, "Look at the event")) : null);
}
