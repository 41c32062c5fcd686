// What can be done with a consumer as a whole.

import { h } from "./dom.js";
import { PER_SECOND, operation } from "./operations.js";

const FROM = {
  name: "from", label: "Start from", type: "select",
  options: [["start", "from the first event"], ["last", "the last events: how many"], ["after", "after a position"], ["time", "from a time"], ["first_kept", "from the first event that is still there"]],
  apply: (request, from) => ({ ...request, from }),
};

const FROM_VALUE = {
  name: "value", label: "How many, which position, or what time", type: "text", placeholder: "100, or 2026-11-19T18:00:00Z",
  required: ({ from }) => ["last", "after", "time"].includes(from),
  hint: "not needed for the first event", apply: (request, value) => ({ ...request, from: begin(request.from, value.trim()) }),
};

const NEW_IDS = {
  name: "new_ids", label: "Ids of the messages", type: "select", options: [["", "as they were: receivers know them already"], ["yes", "new ones: receivers handle them again"]],
  apply: (request, value) => (value ? { ...request, new_ids: true } : request),
};

const KEY = { name: "key", label: "Key", type: "text", required: () => true, placeholder: "Order:42", hint: "It begins at its first event; other keys go on.", apply: (request, key) => ({ ...request, key: key.trim() }) };

/** What is no number is the server's to refuse. */
function begin(from, value) {
  const number = /^\d+$/.test(value) ? Number(value) : value;
  if (from === "last") return { last: number };
  if (from === "after") return { after: number };
  return from === "time" ? { time: Number.isNaN(Date.parse(value)) ? value : new Date(value).toISOString() } : from;
}

/** A row of buttons; nothing for those who may not operate. */
export function consumerButtons(page, it, set) {
  if (!page.may("operate")) return null;
  const consumer = it.name;
  const isPool = it.kind === "pool";
  const failed = Number(it.parked_keys) + Number(it.retrying_keys) > 0 && !isPool;
  const all = (action, label, kind) => operation(page, label, { do: "parked", consumer, action, filter: {}, all: true }, { kind, fields: [PER_SECOND], title: `${label.replace("…", "")} of ${consumer}, and those that are retrying` });
  return h("div", { class: "operations", "data-key": "operations", role: "group", "aria-label": `What can be done with ${consumer}` },
    it.paused || it.outage ? operation(page, "Resume", { do: "resume", consumer }, { kind: "main", title: `Resume ${consumer}` }) : null,
    it.paused ? null : operation(page, "Pause", { do: "pause", consumer }, { title: `Pause ${consumer}` }),
    isPool ? null : operation(page, "Replay…", { do: "replay", consumer }, { title: `Replay ${consumer}`, fields: [FROM, FROM_VALUE, ...(it.kind === "webhook" ? [NEW_IDS] : [])] }),
    isPool ? null : operation(page, "Replay one key…", { do: "replay_key", consumer }, { title: `Replay one key of ${consumer}`, fields: [KEY] }),
    failed ? all("retry", "Retry parked keys…", "") : null,
    failed ? all("skip", "Skip parked keys…", "") : null,
    set ? operation(page, `Rebalance ${set.name}`, { do: "rebalance", replica_set: set.name }, { title: `Rebalance ${set.name}` }) : null,
    isPool ? null : operation(page, "Skip to head", { do: "skip_to_head", consumer }, { title: `Skip ${consumer} to the head` }),
    operation(page, "Forget", { do: "forget", consumer }, { title: `Forget ${consumer}` }));
}
