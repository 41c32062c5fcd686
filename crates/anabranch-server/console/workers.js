// Names of workers: where one runs is what people know it by.

import { h } from "./dom.js";
import { know, ofNobody, ofOwner } from "./colours.js";
import { place } from "./places.js";

/** A small square in the colour of an owner; a hollow one for nobody. */
export function swatch(id) {
  return h("span", { class: id ? "swatch" : "swatch hollow", "aria-hidden": "true", style: { background: id ? ofOwner(id) : ofNobody() } });
}

/** Where one runs, as people call it. */
export const placeOf = ({ host, pid }) => `${host}:${pid}`;

/** The owner of slots, who may be one of whom nothing is known any more. */
export const ownerOf = ({ place: known }) => known ?? "a worker that is gone";

/** When its lease ran out; null if that is not known: one that was declared dead has a lease from before it began. */
export function ranOut({ lease_until: until, started_at: began }) {
  const at = Date.parse(until ?? "");
  return Number.isNaN(at) || at < Date.parse(began) ? null : at;
}

/** Gives all of them their colours, set by set. */
export function knowAll(workers) {
  for (const set of new Set(workers.map(({ replica_set: name }) => name))) {
    know(workers.filter((one) => one.replica_set === set).map((one) => ({ worker: one.id, place: placeOf(one) })));
  }
}

/** A link to a worker, with its colour. */
export function workerLink(id, name, props = {}) {
  return h("span", { class: "worker" }, swatch(id), h("a", { href: place("worker", { id }), ...props }, name));
}

/** Who has how much, as one bar. */
export function shareBar(shares, label) {
  const all = shares.reduce((sum, { slots }) => sum + slots, 0);
  return h("div", { class: "share-bar", role: "img", "aria-label": all ? label : `${label}: nobody` },
    shares.filter(({ slots }) => slots > 0).map(({ id, slots }) => h("span", { "data-key": id, style: { flexGrow: slots, background: ofOwner(id) } })));
}
