// From what somebody knows (a slot, a key, a stream, an event) to its slot.

import { Problem, get, path, query } from "./api.js";

export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * What was meant: `{slot, explained?, says}`, or `{problem}`. `isKey`: it is meant as a key, though it looks like a slot
 * or an event; `slots`: how many the map has.
 */
export async function locate(consumer, text, { isKey = false, slots = 0 } = {}) {
  if (!isKey && /^\d{1,4}$/.test(text) && Number(text) < slots) return { slot: Number(text), text, looksLikeKey: true };
  try {
    if (!isKey && UUID.test(text)) {
      const event = await found(path`/v1/events/${text}`);
      if (event) return await ofEvent(consumer, event.event, text);
    }
    return await ofKey(consumer, text, text);
  } catch (problem) {
    if (problem instanceof Problem) return { text, problem: problem.message };
    throw problem;
  }
}

async function found(address) {
  try {
    return await get(address);
  } catch (problem) {
    if (problem.status === 404) return null;
    throw problem;
  }
}

async function ofKey(consumer, key, text) {
  const explained = await get(query(path`/v1/consumers/${consumer.name}/explain`, { key }));
  return { text, slot: explained.slot, explained };
}

async function ofEvent(consumer, event, text) {
  const key = keyOf(consumer.strategy, event);
  if (key === null) return { text, problem: `${event.type} ${event.stream} has nothing that this consumer goes by (${consumer.strategy})` };
  if (key === undefined) return { text, problem: `Only its program knows the key of an event; search the key itself` };
  return { ...(await ofKey(consumer, key, text)), event };
}

/** The key of an event; null if it has none, undefined if only a program can tell. */
function keyOf(strategy, event) {
  const scope = /^dcb "(.*?)"/.exec(strategy)?.[1];
  if (scope) {
    const tag = event.tags.find((one) => one.startsWith(`${scope}:`));
    return tag && event.tenant ? `dcb:tenant:${event.tenant}:${tag}` : null;
  }
  switch (strategy.split(/[ ,]/)[0]) {
    case "entity": return event.stream;
    case "customer": return event.customer;
    case "saga": return event.correlation;
    case "global": return "global";
    default: return undefined;
  }
}
