// What happened with an instance of a workflow, in words: an event, a command, an action or a timer.

import { h } from "./dom.js";
import { eventLink } from "./event_table.js";
import { many, span, time } from "./format.js";
import { place } from "./places.js";

const ENDED = { put_off: "put off: what came before it goes first", cancelled: "the instance was cancelled before", outdated: "of a schedule that there is no more" };

/** An event. */
export function ofEvent({ id, recorded_at: at, type, version, data }) {
  return { id, kind: "event", at, title: eventLink(id, type), says: `version ${version}`, data, mark: "event" };
}

/** A task, with its details if they are known. */
export function ofTask(task, details, isOpen) {
  const payload = read(details?.payload);
  const isTimer = details?.unique_key?.startsWith("timer:") ?? false;
  const isAction = task.pool.endsWith(".actions");
  const asked = isAction ? payload : payload?.command ?? payload?.sent?.command ?? payload?.late?.command;
  const kind = isTimer ? "timer" : isAction ? "action" : "command";
  const name = [isTimer ? details.unique_key.split(":").at(-1) : null, named(asked) ?? payload?.schedule?.name].filter(Boolean).join(": ");
  return {
    id: task.id, kind, state: task.state, name,
    at: isOpen && task.run_at ? task.run_at : task.enqueued_at,
    title: h("a", { href: place("task", { id: task.id }) }, name || task.id),
    says: when(task, isOpen), data: asked && typeof asked === "object" ? details.payload : null,
    result: task.error ?? ended(read(task.result), isAction), mark: task.state === "dead" ? "bad" : isOpen ? "open" : "",
  };
}

/** JSON only to name what is in it. */
function read(raw) {
  try {
    return raw ? JSON.parse(raw.text) : null;
  } catch {
    return null;
  }
}

/** The name of a value as serde writes it: a word, or an object with one member. */
function named(value) {
  if (typeof value === "string") return value;
  const names = value && typeof value === "object" ? Object.keys(value) : [];
  return names.length === 1 ? names[0] : null;
}

function when({ run_at: due, enqueued_at: at, finished_at: end }, isOpen) {
  if (isOpen && due && Date.parse(due) > Date.now()) return `due in ${span((Date.parse(due) - Date.now()) / 1000)}`;
  if (due) return `due ${time(due)}${end ? `, ended ${time(end)}` : ""}`;
  if (!end) return "";
  const took = Date.parse(end) - Date.parse(at);
  return `ended after ${took < 1000 ? `${Math.max(0, took)} ms` : span(took / 1000)}`;
}

function ended(result, isAction) {
  if (result === null) return null;
  if (isAction) return typeof result === "number" && result > 0 ? `${many(result, "command")} followed` : null;
  if (result.done) return result.done.events ? `${many(result.done.events, "event")}, up to version ${result.done.version}` : "no event";
  const why = result.rejected?.why ?? result.unreadable?.why;
  return why ? `refused: ${why}` : ENDED[result] ?? JSON.stringify(result);
}
