// The slots of a consumer: what is known of each, from the runs of its cursors.

import { worst } from "./reasons.js";

export const COLUMNS = 84;
export const ROWS = 60;
export const SLOTS = COLUMNS * ROWS;

/** A model of an answer: `cursors`, and which one each slot is in (-1: none). A global consumer has one slot. */
export function model(answer) {
  const of = new Int16Array(SLOTS).fill(-1);
  const cursors = answer.cursors.map((cursor, index) => {
    for (const { from, to, step = 1 } of cursor.slots) for (let slot = from; slot <= to; slot += step) of[slot] = index;
    return {
      position: cursor.position, lag: Number(cursor.lag), why: cursor.why, reasons: cursor.reasons, slots: cursor.slot_count,
      owner: cursor.owner, worker: cursor.owner?.worker ?? "", reason: worst(cursor.reasons)?.reason ?? "",
    };
  });
  const total = cursors.reduce((all, cursor) => all + cursor.slots, 0);
  return { head: answer.head, cursors, of, size: total === 1 && of[0] === 0 ? 1 : SLOTS };
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
