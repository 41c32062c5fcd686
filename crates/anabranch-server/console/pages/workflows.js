// Workflows, and the way to one instance.

import { CONSUMERS, query } from "../api.js";
import { h } from "../dom.js";
import { ago, count } from "../format.js";
import { arrived, asked } from "../lists.js";
import { place } from "../places.js";
import { badge, heading, section, table, trouble } from "../ui.js";

/** The pools of a workflow end so, and the consumer that reacts to its events. */
export const POOLS = ["commands", "actions"];
const REACTS = ".react";

export const workflows = {
  title: () => "Workflows",
  watch: () => [CONSUMERS, "/v1/pools", "/v1/workflows"],
  ready: arrived,
  draw(page) {
    const answer = page.answers.get("/v1/workflows");
    if (answer?.status !== 200) return [heading("Workflows"), trouble(answer)];
    if (page.answers.get(CONSUMERS)?.status !== 200) return [heading("Workflows"), trouble(page.answers.get(CONSUMERS))];
    const all = named(page, answer.body.items);
    if (all.length === 0) return [heading("Workflows"), h("p", { class: "card empty" }, "There are no workflows yet. One appears when a worker first runs it.")];
    return [
      heading("Workflows"),
      section("Workflows", null, list(page, all)),
      section("Open an instance", null, h("form", { class: "filters", onsubmit: open },
        h("div", { class: "field" }, h("label", { for: "of-workflow" }, "Workflow"), h("select", { id: "of-workflow", name: "workflow", "data-keep": all.join("\n"), onchange: ({ target }) => (page.state.chosen = target.value) },
          all.map((name) => h("option", { value: name, selected: name === page.state.chosen }, name)))),
        h("div", { class: "field" }, h("label", { for: "of-id" }, "Instance"), h("input", { id: "of-id", name: "id", required: true, "data-keep": "1", "data-search": true, autocomplete: "off", spellcheck: "false", placeholder: "ord-123", "data-test": "instance-id" })),
        h("button", { class: "main", "data-test": "instance-open" }, "Open"))),
      all.map((name) => section(`Instances of ${name} with something open`, { "data-key": name }, waiting(page, name))),
    ];
  },
};

/** Those of which states are kept, and those that workers have run. */
function named(page, kept) {
  const names = new Set(kept.map(({ workflow }) => workflow));
  for (const { name } of page.answers.get(CONSUMERS)?.body?.items ?? []) if (name.endsWith(REACTS)) names.add(name.slice(0, -REACTS.length));
  return [...names].sort();
}

function open(event) {
  event.preventDefault();
  const { workflow, id } = event.target.elements;
  location.hash = place("instance", { workflow: workflow.value, id: id.value.trim() });
}

function list(page, all) {
  const consumers = new Map((page.answers.get(CONSUMERS)?.body?.items ?? []).map((one) => [one.name, one]));
  const of = (name, pool) => (page.answers.get("/v1/pools")?.body?.items ?? []).find((one) => one.pool === `${name}.${pool}`)?.tasks ?? {};
  const open = (name, pool) => {
    const sum = Object.values(of(name, pool)).reduce((tasks, some) => tasks + Number(some), 0);
    return sum ? h("a", { href: place("tasks", {}, { pool: `${name}.${pool}` }) }, count(sum)) : h("span", { class: "quiet" }, "0");
  };
  const dead = (name) => POOLS.reduce((sum, pool) => sum + Number(consumers.get(`${name}.${pool}`)?.parked_keys ?? 0), 0);
  return table("Workflows", [
    { title: "Workflow", kind: "t-key", of: (name) => name },
    { title: "Open commands", kind: "number", of: (name) => open(name, "commands") },
    { title: "Open actions", kind: "number", of: (name) => open(name, "actions") },
    { title: "Stopped instances", kind: "number", of: (name) => (dead(name) ? h("a", { class: "bad", href: place("failed", {}, { consumer: `${name}.actions` }) }, count(dead(name))) : h("span", { class: "quiet" }, "0")) },
    { title: "Reactions", of: (name) => {
      const reacts = consumers.get(`${name}${REACTS}`);
      return reacts ? h("a", { href: place("consumer", { name: reacts.name }) }, reacts.paused ? badge("paused", "warn") : reacts.lag > 0 ? badge(`${count(reacts.lag)} behind`, "info") : badge("up to date", "good")) : null;
    } },
  ], all, { key: (name) => name, test: "workflow", props: (name) => ({ "data-name": name }) });
}

/** The states in which a pool has tasks that have not ended, as its counts say: what is not there is not asked for. */
export function someOf(page, pool) {
  const counts = page.answers.get("/v1/pools")?.body?.items?.find((one) => one.pool === pool)?.tasks ?? {};
  const dead = page.answers.get(CONSUMERS)?.body?.items?.find((one) => one.name === pool)?.parked_keys ?? 0;
  return Object.entries({ ...counts, dead }).filter(([, tasks]) => Number(tasks)).map(([state]) => state);
}

/** Whether something has changed with a workflow's tasks. */
export function countsOf(page, workflow) {
  return JSON.stringify((page.answers.get("/v1/pools")?.body?.items ?? []).filter(({ pool }) => pool.startsWith(`${workflow}.`)));
}

/** Instances by their open and dead tasks: there is no list of all of them. */
function waiting(page, name) {
  const version = countsOf(page, name);
  const answers = POOLS.flatMap((end) => {
    const pool = `${name}.${end}`;
    return someOf(page, pool).map((state) => asked(page, query("/v1/tasks", { pool, state, limit: 50 }), version));
  });
  const found = new Map();
  for (const task of answers.flatMap((answer) => (answer?.status === 200 ? answer.body.items : []))) {
    const one = found.get(task.key) ?? { key: task.key, states: {}, since: task.enqueued_at };
    one.states[task.state] = (one.states[task.state] ?? 0) + 1;
    if (task.enqueued_at < one.since) one.since = task.enqueued_at;
    found.set(task.key, one);
  }
  return table(`Instances of ${name} with something open`, [
    { title: "Instance", kind: "t-key", of: ({ key }) => h("a", { href: place("instance", { workflow: name, id: key }) }, key) },
    { title: "Waits for", of: ({ states }) => h("span", { class: "chips" }, Object.entries(states).map(([state, tasks]) => badge(`${tasks} ${state}`, state === "dead" ? "bad" : "quiet"))) },
    { title: "Since", kind: "t-when", of: ({ since }) => ago(since) },
  ], [...found.values()].slice(0, 100), { key: ({ key }) => key, test: "instance", empty: "Nothing is under way." });
}
