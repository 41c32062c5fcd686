// Events in a table, and links to what they name.

import { h } from "./dom.js";
import { time } from "./format.js";
import { jsonLine } from "./json_view.js";
import { place } from "./places.js";
import { table } from "./ui.js";

/** Events, each with a link. `lacks` are columns that say nothing here. */
export function eventTable(label, events, { test = "event", lacks = [], empty = "No events." } = {}) {
  const columns = [
    { title: "Position", kind: "number", of: (event) => eventLink(event.position, event.position) },
    { title: "Version", kind: "number", of: (event) => event.version },
    { title: "Recorded", kind: "t-when", of: (event) => at(event.recorded_at) },
    { title: "Type", kind: "t-type", of: (event) => eventLink(event.id, event.type) },
    { title: "Stream", kind: "t-stream", of: (event) => streamLink(event.stream) },
    { title: "Tags", kind: "t-tags", of: (event) => event.tags.join(", ") },
    { title: "Data", kind: "t-body", of: (event) => (event.masked ? h("span", { class: "quiet" }, "not shown to you") : jsonLine(event.data)) },
  ].filter(({ title }) => !lacks.includes(title));
  return table(label, columns, events, {
    test, empty, key: (event) => String(event.position), props: (event) => ({ "data-position": event.position, "data-id": event.id }),
  });
}

/** A link to an event, by its id or its position. */
export function eventLink(id, text) {
  return h("a", { href: place("event", { id: String(id) }) }, text);
}

/** A link to a stream, by `CATEGORY:ID`. */
export function streamLink(stream) {
  const [category, id] = parts(stream);
  return h("a", { class: "code", href: place("stream", { category, id }) }, stream);
}

/** The category and the id of a stream. */
export function parts(stream) {
  const colon = stream.indexOf(":");
  return [stream.slice(0, colon), stream.slice(colon + 1)];
}

/** A time of day; the whole of it for those who point at it. */
export function at(text) {
  return text ? h("time", { datetime: text, title: text }, time(text)) : "–";
}
