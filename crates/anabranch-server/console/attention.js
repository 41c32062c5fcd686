// What needs somebody: worst first, each with since when and where it is mended.

import { h } from "./dom.js";
import { many, span } from "./format.js";
import { place } from "./places.js";
import { detailOf, kindOf, lastsOf, rank, wordsOf } from "./reasons.js";
import { badge } from "./ui.js";
import { placeOf, ranOut } from "./workers.js";

/** What is told of the consumer as a whole, or passes by itself. */
const ELSEWHERE = new Set(["parked_keys", "retrying_keys", "outage", "paused", "replay_asked", "awaits_generation", "awaits_claim", "awaits_release"]);

/** How an attention is called by its kind. */
const KINDS = { bad: "stopped", warn: "needs a look", info: "good to know" };

/** All of it: `{key, kind, who, what, detail, lasts, address, link}`; `lasts` in milliseconds, or null. */
export function things({ consumers = [], workers = [] }) {
  const names = new Set(consumers.map(({ name }) => name));
  const found = [...consumers.flatMap((it) => ofConsumer(it, names)), ...ofDead(workers.filter((one) => !one.is_alive)), ...workers.flatMap(ofWorker)];
  return found.sort((a, b) => rank(a.kind) - rank(b.kind) || (a.who < b.who ? -1 : a.who > b.who ? 1 : 0));
}

function ofConsumer(it, names) {
  const address = place("consumer", { name: it.name });
  const thing = (kind, what, more = {}) => ({ key: `${it.name} ${what}`, kind, who: it.name, what, detail: "", lasts: null, address, link: "Look at it", ...more });
  const found = [];
  if (it.problem) found.push(thing("bad", "Cannot be run", { detail: it.problem }));
  if (it.outage) {
    const next = `One event is tried again in ${span(Number(it.outage.next_ms) / 1000)}; all others follow by themselves when that works.`;
    found.push(thing("bad", wordsOf("outage"), { detail: it.outage.error, note: next, lasts: Number(it.outage.for_ms) }));
  }
  for (const [name, { reason, slots, lasts }] of byReason(it)) {
    if (name === "failing" && it.outage) continue;
    const built = /^(.*)\.next$/.exec(it.name)?.[1];
    if (name === "unassigned" && names.has(built)) {
      found.push(thing("info", `Is the next version of ${built}, and no worker builds it just now`, { note: `“anabranch rebuild FILE ${built}” continues it.`, address: place("consumer", { name: built }), link: "Compare and switch" }));
      continue;
    }
    const map = place("consumer", { name: it.name }, { by: "reason", only: name });
    found.push(thing(kindOf(name), wordsOf(name), {
      detail: detailOf(reason), lasts, address: map, link: "Show where", note: it.cursors.length > 1 ? `${many(slots, "slot")} of it.` : null,
    }));
  }
  const isTold = found.some(({ what }) => what === wordsOf("unable") || what === wordsOf("other_code"));
  for (const runner of isTold ? [] : it.runners.filter(({ unable }) => unable)) {
    found.push(thing("warn", `Cannot be run by ${runner.place}`, { detail: runner.unable, note: "Others have its slots.", address: place("worker", { id: runner.worker }), link: "Look at the worker" }));
  }
  if (Number(it.parked_keys) && it.kind === "pool") {
    found.push(thing("warn", `${many(it.parked_keys, "key has", "keys have")} a task that died`, {
      note: "Its attempts are used up.", address: place("tasks", {}, { pool: it.name, state: "dead" }), link: "Retry or discard them",
    }));
  } else if (Number(it.parked_keys)) {
    found.push(thing("warn", many(it.parked_keys, "parked key"), {
      note: `${many(it.parked_events, "event")} wait until somebody retries or skips them.`, address: place("failed", {}, { consumer: it.name }), link: "Retry or skip them",
    }));
  }
  if (it.paused) found.push(thing("info", "Paused", { note: "Nothing is handled until somebody resumes it." }));
  if (it.replay_from !== null) found.push(thing("info", "A replay is asked for", { note: "The next worker does it." }));
  return found;
}

/** What its cursors say: the worst of each reason, and of how many slots. */
function byReason(it) {
  const found = new Map();
  for (const cursor of it.cursors) {
    for (const reason of cursor.reasons) {
      if (ELSEWHERE.has(reason.reason)) continue;
      const known = found.get(reason.reason) ?? { reason, slots: 0, lasts: null };
      const lasts = lastsOf(reason);
      found.set(reason.reason, { reason: known.reason, slots: known.slots + cursor.slot_count, lasts: lasts === null ? known.lasts : Math.max(lasts, known.lasts ?? 0) });
    }
  }
  return found;
}

const ofOneWorker = (it, what, more) => ({
  key: `${it.id} ${what}`, kind: "warn", who: placeOf(it), what, detail: "", lasts: null, address: place("worker", { id: it.id }), link: "Look at the worker", ...more,
});

/** A process that died is told of once, also if it had workers of several sets. */
function ofDead(workers) {
  return [...new Set(workers.map(placeOf))].map((process) => {
    const own = workers.filter((one) => placeOf(one) === process);
    const sets = own.map(({ replica_set: name }) => name).join(", ");
    const end = ranOut(own[0]);
    return ofOneWorker(own[0], `Died: it ran ${sets}`, { lasts: end === null ? null : Date.now() - end, note: "It does not say that it lives any more; others take its slots." });
  });
}

function ofWorker(it) {
  const short = it.report?.shortage;
  return short ? [ofOneWorker(it, "Too few sessions of the database", { detail: short.error, note: `It has ${short.sessions} of ${short.of}.` })] : [];
}

/** The list of them. */
export function attentionList(all) {
  return h("ul", { class: "attention" }, all.map((one) =>
    h("li", { class: one.kind, "data-test": "attention", "data-kind": one.kind, "data-key": one.key },
      h("div", { class: "attention-what" },
        h("strong", null, one.who), h("span", null, one.what), badge(KINDS[one.kind], one.kind),
        one.lasts === null ? null : h("span", { class: "quiet" }, `for ${span(one.lasts / 1000)}`)),
      one.detail ? h("p", { class: "code why" }, one.detail) : null,
      h("p", { class: "attention-more" }, one.note ? h("span", { class: "quiet" }, one.note, " ") : null, one.address === location.hash.split("?")[0] ? null : h("a", { href: one.address, "aria-label": `${one.link}: ${one.who}, ${one.what}` }, one.link)))));
}

/** What is wrong with a consumer, for its own page; what the page shows anyway is left out. */
export function alarms(consumers) {
  const all = things({ consumers }).filter(({ kind, address }) => kind === "bad" || !address.startsWith("#/failed"));
  return all.length ? h("section", { class: "card alarms", "data-key": "alarms", "aria-label": "What needs attention" }, attentionList(all)) : null;
}
