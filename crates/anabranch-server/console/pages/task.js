// One task: what it was given, how it stands, what became of it.

import { path } from "../api.js";
import { h } from "../dom.js";
import { at } from "../event_table.js";
import { ago, count } from "../format.js";
import { jsonView } from "../json_view.js";
import { operation } from "../operations.js";
import { place } from "../places.js";
import { copy, heading, section, trouble } from "../ui.js";
import { DEAD, OPEN, taskState } from "./tasks.js";

const address = (page) => path`/v1/tasks/${page.params.id}`;

export const task = {
  title: ({ id }) => `Task ${id}`,
  watch: (page) => [address(page)],
  draw(page) {
    const answer = page.answers.get(address(page));
    if (answer?.status !== 200) return [heading("Task"), trouble(answer)];
    const it = answer.body;
    return [
      h("p", { class: "crumb" }, h("a", { href: place("tasks", {}, { pool: it.pool, state: it.state }) }, it.pool), ", key ",
        h("a", { href: place("tasks", {}, { pool: it.pool, state: it.state, key: it.key }) }, it.key)),
      heading(["Task ", taskState(it.state)], buttons(page, it), copy("Copy id", it.id, null)),
      it.error ? h("p", { class: "error code" }, it.error) : null,
      h("div", { class: "columns wide-first" },
        h("div", { class: "stack" }, it.masked ? section("Payload", null, h("p", { class: "empty" }, "Your token does not show it.")) : null,
          given(page, "payload", "Payload", it), given(page, "result", "Result", it), given(page, "checkpoint", "What it has saved on its way", it)),
        h("div", { class: "stack" }, fields(it), follows(it))),
    ];
  },
};

function given(page, name, title, it) {
  return it[name] === null || it[name] === undefined ? null : section(title, null, jsonView(page, name, it[name], { test: `task-${name}`, label: title }));
}

function buttons(page, it) {
  const act = (action, label, { kind, force } = {}) => operation(page, label, { do: "task", action, id: it.id, ...(force ? { force } : {}) }, { kind, title: `${label}: task of ${it.key}` });
  return [
    it.state === "compensated" ? act("retry", "Retry all the same", { force: true }) : DEAD.includes(it.state) || it.state === "ready" && it.run_at ? act("retry", "Retry", { kind: "main" }) : null,
    DEAD.includes(it.state) ? act("discard", "Discard", { kind: "danger" }) : null,
    OPEN.includes(it.state) ? act("cancel", "Cancel", { kind: "danger" }) : null,
    OPEN.includes(it.state) ? operation(page, "Pause its key", { do: "pause_key", pool: it.pool, key: it.key }) : null,
  ];
}

function fields(it) {
  const field = (title, value) => (value === null || value === undefined ? null : h("div", null, h("dt", null, title), h("dd", null, value)));
  const when = (text) => (text ? [at(text), h("span", { class: "quiet" }, ` ${ago(text)}`)] : null);
  const [workflow] = it.pool.match(/^(.+)\.(commands|actions)$/)?.slice(1) ?? [];
  return section("Fields", null, h("dl", { class: "fields" },
    field("Pool", it.pool),
    field("Key", it.key),
    field("Attempts", count(it.attempts)),
    field("Enqueued", when(it.enqueued_at)),
    field("Not before", it.run_at ? at(it.run_at) : null),
    field("Ended", when(it.finished_at)),
    field("Unique key", it.unique_key),
    field("Id", h("span", { class: "code" }, it.id)),
    workflow ? field("Instance of", h("a", { href: place("instance", { workflow, id: it.key }) }, `${workflow} ${it.key}`)) : null));
}

function follows(it) {
  const { on_complete: then, compensated_by: instead = [] } = it;
  if (!then && instead.length === 0) return null;
  return section("What follows", null,
    then ? h("p", null, "When it ends, a task of ", h("a", { href: place("tasks", {}, { pool: then.pool, key: then.key }) }, `${then.pool}, key ${then.key}`)) : null,
    instead.map((one) => h("p", null, "Instead of it: ", h("a", { href: place("task", { id: one.id }) }, `${one.pool}, key ${one.key}`), " ", one.state ? taskState(one.state) : h("span", { class: "quiet" }, "not kept any more"))));
}
