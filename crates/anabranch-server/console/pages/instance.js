// An instance of a workflow: its events, commands, actions and timers on one line of time.

import { CONSUMERS, path, query } from "../api.js";
import { h } from "../dom.js";
import { at } from "../event_table.js";
import { many } from "../format.js";
import { parse } from "../json.js";
import { jsonLine, jsonView } from "../json_view.js";
import { arrived, asked } from "../lists.js";
import { place } from "../places.js";
import { badge, facts, heading, section, trouble } from "../ui.js";
import { OPEN, taskState } from "./tasks.js";
import { ofEvent, ofTask } from "../workflow_item.js";
import { POOLS, countsOf, someOf } from "./workflows.js";

/** How many events, tasks of one state, and tasks with their payloads are asked for. */
const EVENTS = 200;
const TASKS = 100;
const DETAILS = 80;
const ENDED = ["compensated", "skipped", "done", "cancelled"];

const address = ({ params }) => path`/v1/workflows/${params.workflow}/${params.id}`;
/** Its events are where its workflow keeps them; who knows better says so in the address of the page. */
const events = ({ params, query: { category } }, answer) =>
  query(category ? path`/v1/streams/${category}/${params.id}` : answer?.body?.events ?? path`/v1/streams/${params.workflow}/${params.id}`, { direction: "backwards", limit: EVENTS });

export const instance = {
  title: ({ workflow, id }) => `${workflow} ${id}`,
  watch: (page) => [address(page), "/v1/pools", CONSUMERS],
  ready: arrived,
  draw(page) {
    const { workflow, id } = page.params;
    const answer = page.answers.get(address(page));
    if (!answer) return [heading(`${workflow} ${id}`), trouble(null)];
    const version = `${answer.body.version} ${countsOf(page, workflow)}`;
    const stream = asked(page, events(page, answer), version);
    const stored = stream?.status === 200 ? stream.body.items : [];
    const tasks = POOLS.flatMap((end) => ofPool(page, `${workflow}.${end}`, version));
    const items = onOneLine(page, stored, tasks, version);
    return [
      h("p", { class: "crumb" }, h("a", { href: place("workflows") }, "Workflows"), ` / ${workflow}`),
      heading(h("span", { class: "code" }, id), h("span", { class: "quiet" }, `${many(stored[0]?.version ?? 0, "event")}, ${many(tasks.length, "task")}`)),
      answer.status === 200 || stored.length ? null : unknown(page, answer, tasks),
      answer.status === 200 ? kept(page, answer.body) : null,
      section("What has happened, and what is to come", null,
        items.length ? h("ol", { class: "history" }, items.map(item)) : h("p", { class: "empty" }, "Nothing that is kept."),
        h("p", { class: "quiet" }, "Tasks that have ended are kept for a day; events stay.")),
    ];
  },
};

/** Its events may be in streams of another category than the workflow is called. */
function unknown(page, answer, tasks) {
  if (answer.body.code !== "no_such_instance" || tasks.length === 0) return trouble(answer);
  const look = (event) => {
    event.preventDefault();
    location.hash = place("instance", page.params, { category: event.target.elements.category.value.trim() });
  };
  return h("form", { class: "card filters", onsubmit: look },
    h("p", null, `No stream is called ${page.params.workflow}:${page.params.id}. The workflow keeps its events in another category:`),
    h("div", { class: "field" }, h("label", { for: "in-category" }, "Category"), h("input", { id: "in-category", name: "category", required: true, "data-keep": "1", placeholder: "Order", autocomplete: "off", spellcheck: "false" })),
    h("button", { class: "main" }, "Show its events"));
}

/** The state as the code of the workflow makes it, or, where that is not, as it was kept last. */
function kept(page, { version, state, snapshot }) {
  const folded = state ? parse(state.text) : null;
  const shown = folded ?? snapshot;
  if (!shown) return section("Its state", null, h("p", { class: "empty" }, `At version ${version}; no state of it is kept, it is made from its events when it is needed.`));
  const later = Number(version) - Number(shown.version);
  return section(folded ? "Its state" : "Its state, as it was kept last", null,
    facts(["Is", badge(shown.mode, shown.mode === "running" ? "good" : "warn")], [folded ? "At version" : "Kept at version", shown.version],
      ["Newest version", later > 0 ? version : null], ["Later events that are not in it", later > 0 ? later : null]),
    shown.masked ? h("p", { class: "empty" }, "Your token does not show it.") : jsonView(page, "state", shown.state, { test: "instance-state", label: "State" }));
}

function ofPool(page, pool, version) {
  return [...someOf(page, pool), ...ENDED].flatMap((state) => {
    const answer = asked(page, query("/v1/tasks", { pool, state, key: page.params.id, limit: TASKS }), version);
    return answer?.status === 200 ? answer.body.items : [];
  });
}

/** In the order of time; what a command has led to stands under it. */
function onOneLine(page, stored, tasks, version) {
  const newest = [...tasks].sort((one, other) => (one.enqueued_at < other.enqueued_at ? 1 : -1));
  const items = newest.map((task, index) => {
    const details = index < DETAILS ? asked(page, path`/v1/tasks/${task.id}`, OPEN.includes(task.state) ? version : task.state) : null;
    return ofTask(task, details?.status === 200 ? details.body : null, OPEN.includes(task.state));
  });
  items.push(...stored.map(ofEvent));
  const isComing = ({ at: time }) => Date.parse(time) > Date.now();
  return items.sort((one, other) => Number(isComing(one)) - Number(isComing(other)) || Date.parse(one.at) - Date.parse(other.at) || (one.kind === "event" ? 1 : -1));
}

function item({ id, kind, at: when, title, data, result, says, state, mark }) {
  return h("li", { "data-key": id, "data-test": "timeline-item", "data-kind": kind },
    h("span", { class: `point ${mark}`, "aria-hidden": "true" }),
    h("div", { class: "when" }, at(when), h("span", { class: "ms" }, `.${String(new Date(when).getMilliseconds()).padStart(3, "0")}`)),
    h("div", { class: "what" },
      h("p", null, h("span", { class: "kind" }, kind), h("strong", null, title), state ? taskState(state) : null, h("span", { class: "quiet" }, says)),
      data ? h("div", { class: "line" }, jsonLine(data)) : null,
      result ? h("div", { class: state === "dead" ? "line bad" : "line" }, `→ ${result}`) : null));
}
