// Batch records: the jobs of a processing log, who runs them, and rows that have failed.

import { path, query } from "../api.js";
import { batchCommand } from "../commands.js";
import { h } from "../dom.js";
import { at } from "../event_table.js";
import { filters } from "../filters.js";
import { ago, count, many, span } from "../format.js";
import { arrived, rowsOf } from "../lists.js";
import { place, requery } from "../places.js";
import { badge, button, copy, facts, heading, section, table, trouble } from "../ui.js";

/** The processing log where a batch says nothing else. */
const LOG_TABLE = "processing_log";
/** How many instances that have ended are shown before somebody asks for more. */
const ENDED = 3;
const FIRST = "anabranch batch run --source applications --key id --job totals --sql 'INSERT INTO totals VALUES (:id, :cents)'";

const address = ({ query: { table: log, after } }) => query("/v1/batches", { table: log, after });

export const batches = {
  title: () => "Batches",
  watch: (page) => [address(page)],
  ready: arrived,
  draw(page) {
    const answer = page.answers.get(address(page));
    return [
      heading("Batches"),
      filters(page, [{ name: "table", label: "Processing log", placeholder: LOG_TABLE, search: true }], { label: "Choose a processing log", onsubmit: (values) => ({ ...values, after: "" }) }),
      answer?.status !== 200 ? h("div", { class: "card" }, trouble(answer))
        : answer.body.items.length === 0 ? nothing(page)
        : answer.body.items.map((one) => card(page, one)),
      answer?.body?.next ? h("p", { class: "foot" }, h("a", { class: "button", href: place("batches", {}, { ...page.query, after: answer.body.next }) }, "More jobs")) : null,
    ];
  },
};

function nothing(page) {
  return section("No batch has run here", { "data-test": "batch-empty" },
    h("p", null, "There is no job in the processing log ", h("span", { class: "code" }, page.query.table || LOG_TABLE), ". If a batch keeps its log elsewhere (",
      h("span", { class: "code" }, "--log-table"), "), name that table above, with its schema before a dot if it has one."),
    h("p", null, "A batch handles each row of a table once, with as many instances as you start. This begins one:"),
    h("pre", { class: "json" }, FIRST),
    h("div", { class: "copies" }, copy("Copy the command", FIRST, "copy-command")));
}

function card(page, one) {
  const alive = one.sessions.filter((session) => session.is_alive).length;
  return section(null, { "data-key": one.job, "data-test": "batch", "data-job": one.job, "aria-label": `Job ${one.job}` },
    h("div", { class: "heading" }, h("h2", null, one.job),
      h("div", { class: "beside" }, alive ? badge(`${many(alive, "instance")} alive`, "good") : badge("nobody runs it"))),
    one.of ? of(one.of) : h("p", { class: "quiet" }, "It is from before the source of a job was stored; its next run stores it."),
    sessions(page, one),
    failed(page, one),
    commands(page, one));
}

function of({ kind, source, key_column: key, since }) {
  const name = source ? h("span", { class: "code" }, source) : h("span", { class: "quiet" }, "not shown to you");
  return facts([kind === "query" ? "Rows of the query" : "Rows of the table", name], ["Told apart by", h("span", { class: "code" }, key)], ["Since", [at(since), h("span", { class: "quiet" }, ` ${ago(since)}`)]]);
}

/** All that are alive, and the last that have ended. */
function sessions(page, one) {
  const all = (page.state.all ??= new Set());
  let ended = 0;
  const shown = one.sessions.filter((session) => session.is_alive || all.has(one.job) || (ended += 1) <= ENDED);
  const hidden = one.sessions.length - shown.length;
  const beyond = Number(one.session_count) - one.sessions.length;
  return [
    table(`Instances of ${one.job}`, [
      { title: "Instance", kind: "t-key", of: ({ host, pid }) => `${host}:${pid}` },
      { title: "Stands", kind: "t-type", of: stands },
      { title: "Rows", kind: "t-type", of: ({ part }) => (part === "elastic" ? "any" : part) },
      { title: "Started", kind: "t-when", of: (session) => [at(session.started_at), ` ${ago(session.started_at)}`] },
      { title: "Session", kind: "t-key", of: ({ id }) => id },
    ], shown, { key: ({ id }) => id, test: "session", empty: "No instance of it is known.", props: ({ id, is_alive: isAlive }) => ({ "data-id": id, "data-alive": String(isAlive) }) }),
    hidden ? button(`Show ${count(hidden)} more that have ended`, () => (all.add(one.job), page.redraw()), { class: "quiet", "data-test": "session-more" }) : null,
    !hidden && beyond > 0 ? h("p", { class: "quiet" }, `${many(beyond, "instance")} before these.`) : null,
  ];
}

function stands({ is_alive: isAlive, lease_until: until, part }) {
  if (isAlive) return badge("alive", "good");
  if (!until) return badge(part === "imported" ? "imported" : "ended");
  return [badge("died", "bad"), h("span", { class: "quiet" }, ` ${ago(until)}`)];
}

/** Rows that have failed, once somebody opens them: the log has no index of these, so they are not watched. */
function failed(page, one) {
  const isOpen = page.query.open === one.job;
  const rows = isOpen ? rowsOf(page, path`/v1/batches/${one.job}/failed`, { table: page.query.table }, { step: 50 }) : null;
  const toggle = () => requery({ open: isOpen ? "" : one.job });
  const id = `failed-${one.job}`;
  return [
    h("p", null, h("button", { type: "button", class: "quiet fold", "aria-expanded": String(isOpen), "aria-controls": id, "data-test": "batch-open", onclick: toggle },
      h("span", { class: "arrow", "aria-hidden": "true" }), h("span", null, "Rows that have failed"))),
    h("div", { id, hidden: !isOpen }, rows ? opened(page, one, rows) : null),
  ];
}

function opened(page, one, rows) {
  if (rows.isFirst) return trouble(null);
  const columns = [
    { title: "Key", kind: "t-key", of: ({ key }) => key },
    { title: "Failed", kind: "t-when", of: (row) => [at(row.at), ` ${ago(row.at)}`] },
    { title: "Attempts", kind: "number", of: ({ attempts }) => count(attempts) },
    { title: "Error", kind: "t-says", of: ({ error }) => error || (page.session?.masked ? "not shown to you" : "it said nothing") },
  ];
  return [
    rows.items.length || rows.next === null && !rows.problem
      ? table(`Failed rows of ${one.job}`, columns, rows.items, { key: ({ key }) => key, test: "failed", empty: "No row has failed.", props: ({ key }) => ({ "data-row": key }) }) : null,
    rows.foot(),
    rows.items.length ? h("p", { class: "quiet" }, "They are tried again by the run that comes with ", h("span", { class: "code" }, "--retry-failed"), ".") : null,
  ];
}

function commands(page, one) {
  if (!one.of?.source) return null;
  const log = page.query.table && page.query.table !== LOG_TABLE ? page.query.table : null;
  return h("div", { class: "copies" },
    copy("Copy the command that counts and proves", batchCommand("verify", one, log), "copy-command"),
    copy("Copy the command that lists failed rows", batchCommand("failed", one, log), "copy-failed"));
}
