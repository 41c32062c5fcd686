// The slots of a consumer: what is known of each, from the runs of its cursors.

import { worst } from "./reasons.js";

export const COLUMNS = 84;
export const ROWS = 60;
export const SLOTS = COLUMNS * ROWS;

/** Reasons that are those of keys: other slots of the same cursor go on. */
const OF_KEYS = { parked_keys: "parked", retrying_keys: "retrying" };

/**
 * A model of an answer: `cursors`, and which one each slot is in (-1: none). `failed` are all keys that have failed, null
 * if not all are known: with them a cursor is parted into slots that have such a key, and those that go on. A global
 * consumer has one slot.
 */
export function model(answer, failed) {
  const of = new Int16Array(SLOTS).fill(-1);
  const states = new Map();
  for (const { slot, state } of failed ?? []) states.set(Number(slot), [...(states.get(Number(slot)) ?? []), state]);
  const cursors = [];
  for (const cursor of answer.cursors) {
    const parts = new Map();
    const part = (slot) => {
      const isKept = ({ reason }) => failed === null || !OF_KEYS[reason] || (states.get(slot) ?? []).includes(OF_KEYS[reason]);
      const kept = cursor.reasons.map(isKept);
      const sign = kept.join();
      if (!parts.has(sign)) parts.set(sign, cursors.push(made(cursor, kept)) - 1);
      return parts.get(sign);
    };
    // Most slots have no such key.
    let rest = null;
    for (const { from, to, step = 1 } of cursor.slots) {
      for (let slot = from; slot <= to; slot += step) {
        of[slot] = states.has(slot) ? part(slot) : (rest ??= part(-1));
        cursors[of[slot]].slots += 1;
      }
    }
  }
  const total = cursors.reduce((all, cursor) => all + cursor.slots, 0);
  return { head: answer.head, cursors, of, size: total === 1 && of[0] === 0 ? 1 : SLOTS };
}

/** A cursor, or a part of one, with those of its reasons that hold for it. */
function made(cursor, kept) {
  const reasons = cursor.reasons.filter((_, index) => kept[index]);
  return {
    position: cursor.position, lag: Number(cursor.lag), reasons, why: cursor.why.filter((_, index) => kept[index]), reason: worst(reasons)?.reason ?? "",
    owner: cursor.owner, worker: cursor.owner?.worker ?? "", together: cursor.slot_count, slots: 0,
  };
}

/** What is known of a slot, or null. */
export function at(model, slot) {
  return model.cursors[model.of[slot]] ?? null;
}

/** The slots that have another owner than before. */
export function moved(before, now) {
  if (!before) return [];
  const found = [];
  for (let slot = 0; slot < now.size; slot += 1) {
    if ((at(before, slot)?.worker ?? "") !== (at(now, slot)?.worker ?? "")) found.push(slot);
  }
  return found;
}

/** Neighbours with the same owner and the same reason: `{from, to, cursor, lag}`, lag of the slowest. */
export function runs(model) {
  const found = [];
  for (let slot = 0; slot < model.size; slot += 1) {
    const cursor = at(model, slot);
    const last = found.at(-1);
    if (last && last.worker === (cursor?.worker ?? "") && last.reason === (cursor?.reason ?? "")) {
      last.to = slot;
      last.lag = Math.max(last.lag, cursor?.lag ?? 0);
    } else {
      found.push({ from: slot, to: slot, worker: cursor?.worker ?? "", reason: cursor?.reason ?? "", owner: cursor?.owner ?? null, lag: cursor?.lag ?? 0 });
    }
  }
  return found;
}

/** How many slots there are of each: a map from what `of(cursor)` says. */
export function counts(model, of) {
  const found = new Map();
  for (const cursor of model.cursors) found.set(of(cursor), (found.get(of(cursor)) ?? 0) + cursor.slots);
  return found;
}
