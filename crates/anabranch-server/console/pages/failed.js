// What has failed: parked keys and dead tasks, by what was said of them.

import { CONSUMERS, path, query } from "../api.js";
import { h } from "../dom.js";
import { filters } from "../filters.js";
import { ago, count, many } from "../format.js";
import { grouped, isOf, literals } from "../grouping.js";
import { anew, arrived, asked } from "../lists.js";
import { PER_SECOND, operation } from "../operations.js";
import { place } from "../places.js";
import { badge, heading, notAll, table, trouble } from "../ui.js";

/** How many keys or tasks are asked for at once, and how many of a group are shown. */
const LOOKED_AT = 1000;
const SHOWN = 50;

export const failed = {
  title: () => "Failed",
  watch: () => [CONSUMERS],
  ready: arrived,
  changed: anew,
  draw(page) {
    const answer = page.answers.get(CONSUMERS);
    if (answer?.status !== 200) return [heading("Failed"), trouble(answer)];
    const all = answer.body.items.filter((one) => Number(one.parked_keys) + Number(one.retrying_keys) > 0);
    const wanted = all.filter(({ name }) => !page.query.consumer || name === page.query.consumer);
    const sum = all.reduce((keys, one) => keys + Number(one.parked_keys), 0);
    return [
      heading("Failed", h("span", { class: "quiet" }, sum ? many(sum, "parked key") : ""),
        all.length > 1 ? filters(page, [{ name: "consumer", label: "Consumer", options: [["", "all consumers and pools"], ...all.map(({ name }) => [name, name])] }], { kind: "inline" }) : null),
      all.length === 0 ? h("p", { class: "card empty good" }, "Nothing has failed. A key is parked here when an event of it fails again and again; other keys go on.") : null,
      wanted.map((one) => (one.kind === "pool" ? ofPool(page, one) : ofConsumer(page, one))),
      notAll(answer),
    ];
  },
};

function card(one, counts, buttons, ...content) {
  const title = h("h2", null, h("a", { href: place("consumer", { name: one.name }) }, one.name));
  return h("section", { class: "card", "data-key": one.name, "aria-label": one.name },
    h("div", { class: "heading" }, h("div", { class: "beside" }, title, badge(one.kind), counts), h("div", { class: "beside" }, buttons)), content);
}

function ofConsumer(page, one) {
  const version = [one.parked_keys, one.parked_events, one.retrying_keys, one.retrying_events].join(" ");
  const list = path`/v1/consumers/${one.name}/parked`;
  const answer = asked(page, `${list}/groups`, version);
  const counts = h("span", { class: "quiet" }, [
    many(one.parked_keys, "parked key"), `, ${many(one.parked_events, "event")} behind`,
    Number(one.retrying_keys) ? `; ${count(one.retrying_keys)} more retrying` : ""].join(""));
  const act = (action, label, props) => operation(page, label, { do: "parked", consumer: one.name, action, filter: {}, all: true }, { ...props, fields: [...FILTER, PER_SECOND] });
  return card(one, counts, [
    act("retry", "Retry…", { title: `Retry keys of ${one.name}` }),
    act("skip", "Skip…", { title: `Skip the event that failed, of keys of ${one.name}` }),
  ], answer?.status === 200 ? groups(page, one, answer.body, {
    noun: "key", keys: () => asked(page, query(list, { limit: LOOKED_AT }), version), row: keyRow, buttons: keyButtons,
  }) : trouble(answer));
}

function ofPool(page, one) {
  const address = query("/v1/tasks", { pool: one.name, state: "dead", limit: LOOKED_AT });
  const answer = asked(page, address, String(one.parked_keys));
  const dead = answer?.status === 200 ? answer.body.items.map((task) => ({ ...task, since: task.finished_at })) : [];
  const found = { items: grouped(dead), looked_at: dead.length, is_all: answer?.body?.next === null };
  const act = (action, label, title) => operation(page, label, { do: "tasks", action, where: [`pool=${one.name}`] }, { title, fields: [...WHERE, PER_SECOND] });
  return card(one, h("span", { class: "quiet" }, `dead tasks of ${many(one.parked_keys, "key")}`), [
    act("retry", "Retry…", `Retry dead tasks of ${one.name}`), act("discard", "Discard…", `Discard dead tasks of ${one.name}`),
    h("a", { class: "button", href: place("tasks", {}, { pool: one.name, state: "dead" }) }, "All dead tasks"),
  ], answer?.status === 200 ? groups(page, one, found, { noun: "task", keys: () => ({ status: 200, body: { items: dead, next: answer.body.next } }), row: taskRow, buttons: taskButtons })
    : trouble(answer));
}

const text = (name, label, apply, hint) => ({ name, label, type: "text", hint, apply });
const narrowed = (request, member, value) => (value ? { ...request, filter: { ...request.filter, [member]: value } } : request);
const FILTER = [
  text("error_contains", "Errors with this text", (request, value) => narrowed(request, "error_contains", value), "empty: whatever the error"),
  text("key_contains", "Keys with this text", (request, value) => narrowed(request, "key_contains", value), "empty: all keys"),
  { name: "state", label: "State", type: "select", options: [["", "Parked and retrying"], ["parked", "Parked"], ["retrying", "Retrying"]],
    apply: (request, value) => narrowed(request, "state", value) },
];
const met = (sign) => (request, value) => (value ? { ...request, where: [...request.where, `${sign}${value}`] } : request);
const WHERE = [text("error", "Errors with this text", met("error~"), "empty: whatever the error"), text("key", "Keys with this text", met("key~"), "empty: all keys")];

/** Groups, the largest first; each opens to what is in it. */
function groups(page, one, { items, looked_at: lookedAt, is_all: isAll }, kind) {
  const open = (page.state.open ??= new Set());
  return [
    h("ul", { class: "groups" }, items.map((group, index) => {
      // Who may not see errors has groups that say nothing.
      const name = `${one.name} ${group.says || group.example}`;
      const isOpen = open.has(name);
      const id = `group-${one.name}-${index}`;
      const toggle = () => (isOpen ? open.delete(name) : open.add(name), page.redraw());
      return h("li", { "data-key": name, "data-test": "failed-group", "data-error": group.says },
        h("div", { class: "group" },
          h("button", { type: "button", class: "quiet fold", "aria-expanded": String(isOpen), "aria-controls": id, "data-test": "failed-open", onclick: toggle },
            h("span", { class: "arrow", "aria-hidden": "true" }), h("span", { class: "code" }, group.says || "(not shown to you)")),
          h("p", { class: "sum" }, h("strong", null, many(group.keys, kind.noun)),
            group.events ? h("span", { class: "quiet" }, `${many(group.events, "event")} behind`) : null,
            group.retrying ? badge(`${count(group.retrying)} retrying`, "info") : null,
            h("span", { class: "quiet" }, `since ${ago(group.since)}`)),
          h("div", { class: "beside" }, kind.buttons(page, one, group, isAll && items.length === 1))),
        h("div", { id, hidden: !isOpen }, isOpen ? members(page, one, group, kind) : null));
    })),
    isAll ? null : h("p", { class: "quiet" }, `Of the first ${many(lookedAt, kind.noun)}; there are more. Buttons mean all that match.`),
  ];
}

/** Those of a group, among as many as are looked at. */
function members(page, one, group, { keys, row, noun }) {
  const answer = keys();
  if (answer?.status !== 200) return trouble(answer);
  const found = answer.body.items.filter((key) => isOf(group.says, key.error ?? ""));
  const shown = found.slice(0, SHOWN);
  const more = group.keys - shown.length;
  return [row(page, one, shown), more > 0 ? h("p", { class: "quiet" }, `and ${many(more, `more ${noun}`)}`) : null];
}

function keyRow(page, one, keys) {
  return table(`Keys of ${one.name} that failed so`, [
    { title: "Key", kind: "t-key", of: (key) => h("a", { href: place("parkedKey", { consumer: one.name, key: key.key }) }, key.key) },
    { title: "Events behind", kind: "number", of: (key) => count(key.events) },
    { title: "Attempts", kind: "number", of: (key) => count(key.attempts) },
    { title: "Since", kind: "t-when", of: (key) => ago(key.since) },
    { title: "State", of: standing },
    { title: "Error", kind: "t-body", of: (key) => h("span", { class: "line", title: key.error }, key.error) },
    { title: "Actions", kind: "t-acts", of: (key) => operation(page, "Retry", { do: "parked", consumer: one.name, action: "retry", filter: { key: key.key } }, { title: `Retry ${key.key}` }) },
  ], keys, { key: (key) => key.key, test: "parked", props: (key) => ({ "data-consumer": one.name, "data-key": key.key }) });
}

/** The state of a key, in words. */
export function standing({ state, asked: wish }) {
  if (wish) return badge(wish.startsWith("retry") ? "about to be retried" : "about to be skipped", "info");
  return state === "retrying" ? badge("retrying", "info") : badge("parked", "warn");
}

function taskRow(page, one, tasks) {
  return table(`Tasks of ${one.name} that failed so`, [
    { title: "Key", kind: "t-key", of: (task) => h("a", { href: place("task", { id: task.id }) }, task.key) },
    { title: "Attempts", kind: "number", of: (task) => count(task.attempts) },
    { title: "Since", kind: "t-when", of: (task) => ago(task.since) },
    { title: "Error", kind: "t-body", of: (task) => h("span", { class: "line", title: task.error }, task.error) },
    { title: "Actions", kind: "t-acts", of: (task) => operation(page, "Retry", { do: "task", action: "retry", id: task.id }, { title: `Retry a task of ${task.key}` }) },
  ], tasks, { key: (task) => task.id, test: "task", props: (task) => ({ "data-id": task.id, "data-state": task.state }) });
}

function keyButtons(page, one, { contains, keys }, isOnly) {
  // Errors that have no words in common cannot be told from others by a filter.
  if (!contains && !isOnly) return [];
  const filter = contains ? { error_contains: contains } : {};
  const act = (action, label) => operation(page, label, { do: "parked", consumer: one.name, action, filter, all: true },
    { most: keys, fields: [PER_SECOND], title: contains ? `${label} keys of ${one.name} whose error has “${contains}”` : `${label} all keys of ${one.name}` });
  return [act("retry", "Retry"), act("skip", "Skip")];
}

function taskButtons(page, one, { says, keys }, isOnly) {
  const pieces = literals(says);
  // Without a word in common it would mean all tasks of the pool.
  if (pieces.length === 0 && !isOnly) return [];
  const where = [`pool=${one.name}`, ...pieces.map((piece) => `error~${piece}`)];
  const act = (action, label) => operation(page, label, { do: "tasks", action, where }, { most: keys, fields: [PER_SECOND], title: `${label} dead tasks of ${one.name} with this error` });
  return [act("retry", "Retry"), act("discard", "Discard")];
}
