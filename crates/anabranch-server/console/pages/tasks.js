// Tasks: pools with how many are in which state, and those of one of them.

import { CONSUMERS, path, query } from "../api.js";
import { h } from "../dom.js";
import { at } from "../event_table.js";
import { filters } from "../filters.js";
import { count, many } from "../format.js";
import { anew, arrived, asked, rowsOf } from "../lists.js";
import { PER_SECOND, operation } from "../operations.js";
import { place } from "../places.js";
import { badge, heading, notAll, section, table, trouble } from "../ui.js";

export const OPEN = ["ready", "scheduled", "held"];
export const DEAD = ["dead", "compensated", "skipped"];
const STEP = 50;
const STATES = [...OPEN, ...DEAD, "done", "cancelled"];
const KINDS = { ready: "info", dead: "bad", held: "warn", compensated: "warn", skipped: "warn", done: "good" };

export const tasks = {
  title: () => "Tasks",
  watch: () => [CONSUMERS, "/v1/pools"],
  ready: arrived,
  changed: anew,
  draw(page) {
    const answer = page.answers.get("/v1/pools");
    if (answer?.status !== 200) return [heading("Tasks"), trouble(answer)];
    if (page.answers.get(CONSUMERS)?.status !== 200) return [heading("Tasks"), trouble(page.answers.get(CONSUMERS))];
    const all = pools(page, answer.body.items);
    const { pool } = page.query;
    return [
      heading("Tasks", h("span", { class: "quiet" }, many(all.length, "pool"))),
      all.length === 0 ? h("p", { class: "card empty" }, "There are no pools yet. One appears when a task is enqueued, or when a worker first runs it.") : section("Pools", null, poolTable(all, pool)),
      pool ? ofPool(page, pool, all) : null,
      notAll(page.answers.get(CONSUMERS)),
    ];
  },
};

/** Those with open tasks, and those that somebody has run. */
function pools(page, withTasks) {
  const all = new Map();
  for (const one of page.answers.get(CONSUMERS)?.body?.items ?? []) {
    if (one.kind === "pool") all.set(one.name, { pool: one.name, tasks: {}, deadKeys: one.parked_keys, isPaused: one.paused, isRun: one.runners.length > 0, isHere: true });
  }
  for (const { pool, tasks: counts } of withTasks) all.set(pool, { pool, ...all.get(pool), tasks: counts });
  return [...all.values()].sort((one, other) => one.pool.localeCompare(other.pool));
}

function poolTable(all, chosen) {
  const link = (pool, state, value) => (Number(value ?? 0) ? h("a", { href: place("tasks", {}, { pool, state }) }, count(value)) : h("span", { class: "quiet" }, "0"));
  return table("Pools", [
    { title: "Pool", kind: "t-key", of: ({ pool }) => h("a", { href: place("tasks", {}, { pool }), "aria-current": pool === chosen ? "true" : null }, pool) },
    ...OPEN.map((state) => ({ title: title(state), kind: "number", of: ({ pool, tasks: counts }) => link(pool, state, counts[state]) })),
    { title: "Keys with dead ones", kind: "number", of: ({ pool, deadKeys }) => (Number(deadKeys ?? 0) ? h("a", { class: "bad", href: place("tasks", {}, { pool, state: "dead" }) }, count(deadKeys)) : h("span", { class: "quiet" }, "0")) },
    { title: "Runs", kind: "t-when", of: (one) => (one.isPaused ? badge("paused", "warn") : one.isRun ? badge("running", "good") : badge(one.isHere ? "no worker runs it" : "no worker has run it yet", "warn")) },
    { title: "Its slots", of: ({ pool, isHere }) => (isHere ? h("a", { href: place("consumer", { name: pool }) }, "Map") : null) },
  ], all, { key: ({ pool }) => pool, test: "pool", props: ({ pool }) => ({ "data-name": pool }) });
}

const title = (state) => state[0].toUpperCase() + state.slice(1);

/** Its tasks in one state, and what can be done with all of them. */
function ofPool(page, pool, all) {
  const one = all.find((known) => known.pool === pool);
  const state = page.query.state || (Number(one?.deadKeys ?? 0) ? "dead" : "ready");
  const key = page.query.key ?? "";
  const now = JSON.stringify([one?.tasks, one?.deadKeys]);
  // What the counts say is not there is not asked for.
  const isNone = one && OPEN.includes(state) && !Number(one.tasks[state] ?? 0);
  const rows = isNone ? null : rowsOf(page, "/v1/tasks", { pool, state, key }, { step: STEP });
  // What is shown follows the counts, unless somebody has gone further.
  if (rows && page.state.counts && page.state.counts !== now && rows.items.length <= STEP && !rows.isUnderWay) rows.begin();
  page.state.counts = now;
  return [
    filters(page, [
      { name: "pool", label: "Pool", options: all.map((known) => [known.pool, known.pool]) },
      { name: "state", label: "State", options: STATES.map((known) => [known, known]), now: state },
      { name: "key", label: "Key", placeholder: "cust-7", search: true },
    ], { label: "Filter tasks" }),
    h("section", { class: "card", "aria-label": `Tasks of ${pool}` },
      h("div", { class: "heading" }, h("h2", null, `${title(state)} tasks of ${pool}`), h("div", { class: "beside" }, forMany(page, pool, state, key))),
      key ? ofKey(page, pool, key, now) : null,
      rows?.isFirst ? trouble(null) : taskTable(`${title(state)} tasks of ${pool}`, rows?.items ?? []),
      rows?.isFirst ? null : rows?.foot()),
  ];
}

/** What can be done with those in one state: by what they have in common, never by a page of ids. */
function forMany(page, pool, state, key) {
  const where = [`pool=${pool}`, ...(key ? [`key=${key}`] : [])];
  const and = (name, label, sign) => ({ name, label, type: "text", hint: "empty: all", apply: (request, value) => (value ? { ...request, where: [...request.where, `${sign}${value}`] } : request) });
  const fields = [...(key ? [] : [and("key", "Keys with this text", "key~")]), ...(DEAD.includes(state) ? [and("error", "Errors with this text", "error~")] : []), PER_SECOND];
  const act = (action, label) => operation(page, `${label}…`, { do: "tasks", action, state, where }, { title: `${label} ${state} tasks of ${pool}${key ? `, key ${key}` : ""}`, fields });
  const keyField = { name: "which", label: "Key", type: "text", required: () => true, apply: (request, value) => ({ ...request, key: value }) };
  return [
    state === "dead" || state === "skipped" ? act("retry", "Retry") : null,
    DEAD.includes(state) ? act("discard", "Discard") : null,
    OPEN.includes(state) ? act("cancel", "Cancel") : null,
    key ? null : operation(page, "Pause a key…", { do: "pause_key", pool, key: "" }, { title: `Pause a key of ${pool}`, fields: [keyField] }),
  ];
}

/** The state of a key: whether it is paused, and what is first in its line. */
function ofKey(page, pool, key, version) {
  const answer = asked(page, query(path`/v1/consumers/${pool}/explain`, { key }), version);
  if (answer?.status !== 200) return answer ? null : trouble(null);
  const { tasks: line, slot } = answer.body;
  return h("p", { class: "keyline" },
    line?.is_paused ? badge("paused", "warn") : badge("not paused"),
    `${many(line?.tasks ?? 0, "task")} of ${key} in line, slot ${slot}. `,
    line?.first ? h("span", null, "First: ", h("a", { href: place("task", { id: line.first.id }) }, line.first.state)) : null,
    line?.is_paused ? operation(page, "Resume key", { do: "resume_key", pool, key }) : operation(page, "Pause key", { do: "pause_key", pool, key }));
}

/** Tasks, each with a link. */
function taskTable(label, items) {
  const isAny = (name) => items.some((task) => task[name]);
  return table(label, [
    { title: "Key", kind: "t-key", of: (task) => h("a", { href: place("task", { id: task.id }) }, task.key) },
    { title: "State", of: (task) => taskState(task.state) },
    { title: "Attempts", kind: "number", of: (task) => count(task.attempts) },
    { title: "Enqueued", kind: "t-when", of: (task) => at(task.enqueued_at) },
    items.some((task) => task.run_at && OPEN.includes(task.state)) ? { title: "Not before", kind: "t-when", of: (task) => at(task.run_at) } : null,
    isAny("finished_at") ? { title: "Ended", kind: "t-when", of: (task) => at(task.finished_at) } : null,
    { title: isAny("error") ? "Error" : "Result", kind: "t-body", of: (task) => h("span", { class: "line", title: task.error }, task.error ?? task.result?.text ?? "") },
  ].filter(Boolean), items, { test: "task", empty: "None.", key: (task) => task.id, props: (task) => ({ "data-id": task.id, "data-state": task.state }) });
}

export function taskState(state) {
  return badge(state, KINDS[state] ?? "quiet");
}
