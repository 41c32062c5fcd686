// A worker: a process that runs consumers of a replica set. What each of its lanes does, and since when.

import { CONSUMERS } from "../api.js";
import { h } from "../dom.js";
import { ago, count, many, span, time } from "../format.js";
import { place } from "../places.js";
import { detailOf, kindOf, lastsOf, wordsOf, worst } from "../reasons.js";
import { operation } from "../operations.js";
import { badge, facts, heading, section, table, trouble } from "../ui.js";
import { knowAll, placeOf, ranOut, swatch } from "../workers.js";

const PATHS = ["/v1/workers", CONSUMERS];

export const worker = {
  title: () => "Worker",
  watch: () => PATHS,
  draw(page) {
    const [workers, consumers] = PATHS.map((path) => page.answers.get(path));
    if (workers?.status !== 200) return [heading("Worker"), trouble(workers)];
    knowAll(workers.body.items);
    const it = workers.body.items.find(({ id }) => id === page.params.id);
    if (!it) return gone(page, workers.body.items);
    const own = (consumers?.body?.items ?? []).map((consumer) => ofConsumer(consumer, it)).filter(Boolean);
    const shortage = it.report?.shortage;
    return [
      heading(h("span", { class: "worker" }, swatch(it.id), placeOf(it)), it.is_alive ? badge("alive", "good") : badge("dead", "bad"),
        operation(page, `Rebalance ${it.replica_set}`, { do: "rebalance", replica_set: it.replica_set })),
      section(null, { "aria-label": "About it" }, facts(
        ["Replica set", it.replica_set], ["Runs", it.runs], ["Lanes of each consumer", it.lanes], ["Lease", lease(it)],
        ["Started", [time(it.started_at), h("span", { class: "quiet" }, ` ${ago(it.started_at)}`)]],
        ["Knows the schema", it.schema ?? null], ["Id", h("span", { class: "code" }, it.id)]),
      shortage ? h("p", { class: "warn" }, `It has ${shortage.sessions} of ${shortage.of} sessions of the database that it could use: ${shortage.error}`) : null,
      it.report?.deaf_ms ? h("p", { class: "warn" }, `It has not been told of new events for ${span(Number(it.report.deaf_ms) / 1000)}: it finds them by looking now and then.`) : null),
      section("Consumers", null, consumersTable(own, it)),
      section("Lanes", null, lanesTable(own)),
    ];
  },
};

function gone(page, others) {
  return [
    heading("A worker that is gone"),
    section(null, null, h("p", null, "No worker has the id ", h("span", { class: "code" }, page.params.id), " any more. It has left, or died, and others have its slots."),
      others.length ? h("p", null, "Workers that run: ", others.map((one) => [h("a", { href: place("worker", { id: one.id }) }, placeOf(one)), " "])) : null),
  ];
}

function lease(it) {
  const end = ranOut(it);
  if (end === null) return it.is_alive ? null : h("span", { class: "bad" }, "ran out");
  const left = (end - Date.now()) / 1000;
  return left > 0 ? `${span(left)} left` : h("span", { class: "bad" }, `ran out ${ago(it.lease_until)}`);
}

/** What this worker has to do with a consumer: its runner, its cursors, and what its lanes report; null if nothing. */
function ofConsumer(consumer, it) {
  const runner = consumer.runners.find((one) => one.worker === it.id);
  const cursors = consumer.cursors.filter((cursor) => cursor.owner.worker?.id === it.id || cursor.owner.dead === it.id);
  if (!runner && cursors.length === 0) return null;
  const reports = (it.report?.lanes ?? []).filter((lane) => lane.consumer === consumer.name);
  // Lanes that are as they should be are not reported: they are one row, with all slots that no other lane has.
  const told = reports.toSorted((a, b) => a.lane - b.lane);
  const rest = Array.from({ length: it.lanes }, (_, lane) => lane).filter((lane) => !told.some((one) => Number(one.lane) === lane));
  const isTold = (cursor) => told.some(({ lane }) => lane === cursor.lane);
  const row = (lane, own, report) => ({
    consumer: consumer.name, lane, report, slots: own.reduce((all, cursor) => all + cursor.slot_count, 0),
    lag: Math.max(0, ...own.map((cursor) => Number(cursor.lag_ready))), reasons: own.flatMap((cursor) => cursor.reasons),
  });
  const lanes = told.map((report) => row(String(report.lane), cursors.filter(({ lane }) => lane === report.lane), report));
  if (rest.length) lanes.push(row(rest.length === it.lanes && rest.length > 1 ? `0–${rest.length - 1}` : rest.join(", "), cursors.filter((cursor) => !isTold(cursor)), null));
  const slots = cursors.reduce((all, cursor) => all + cursor.slot_count, 0);
  return { name: consumer.name, kind: consumer.kind, unable: runner?.unable ?? null, version: runner?.version ?? null, slots, limit: it.report?.limits?.[consumer.name] ?? null, lanes };
}

function consumersTable(own, it) {
  return table("Consumers of this worker", [
    { title: "Consumer", of: (row) => h("span", { class: "name" }, h("a", { href: place("consumer", { name: row.name }) }, row.name), h("span", { class: "quiet" }, row.kind)) },
    { title: "Slots", kind: "number", of: (row) => count(row.slots) },
    { title: "Which", of: (row) => (row.slots ? h("a", { class: "on-one-line", href: place("consumer", { name: row.name }, { by: "owner", only: it.id }), "aria-label": `Its slots of ${row.name} in the map` }, "In the map") : null) },
    { title: "Version", kind: "number", of: (row) => row.version ?? "–" },
    { title: "Concurrency", kind: "number", of: (row) => (row.limit === null ? "–" : count(row.limit)) },
    { title: "State", of: (row) => (row.unable ? [badge("cannot run it", "bad"), h("p", { class: "code why" }, row.unable)] : badge("runs it", "good")) },
  ], own, { key: (row) => row.name, empty: "It runs no consumer." });
}

function lanesTable(own) {
  const lanes = own.flatMap((one) => one.lanes);
  return table("Lanes of this worker", [
    { title: "Consumer", of: (row) => h("a", { href: place("consumer", { name: row.consumer }) }, row.consumer) },
    { title: "Lane", kind: "number", of: (row) => row.lane },
    { title: "Slots", kind: "number", of: (row) => count(row.slots) },
    { title: "Behind", kind: "number", of: (row) => count(row.lag) },
    { title: "What it does", of: doing },
    { title: "Since", kind: "number", of: since },
  ], lanes, { key: (row) => `${row.consumer} ${row.lane}`, test: "lane", props: (row) => ({ "data-lane": row.lane }), empty: "It has no slots, so its lanes are idle." });
}

function since(row) {
  const lasts = row.report?.for_ms ?? lastsOf(worst(row.reasons) ?? {});
  return lasts === null ? "–" : span(Number(lasts) / 1000);
}

/** What its report says, or what its cursors do. */
function doing(row) {
  const said = row.report?.doing;
  if (said === "handling") return badge("is at one batch for long", "warn");
  if (said?.failing) return [badge("its handler fails", "bad"), h("p", { class: "code why" }, said.failing.error)];
  if (said?.waiting) return [badge("waits for the database", "bad"), h("p", { class: "code why" }, said.waiting.error)];
  const reason = worst(row.reasons.filter(({ reason: name }) => kindOf(name) !== "warn"));
  if (reason) return [badge(wordsOf(reason.reason), kindOf(reason.reason)), detailOf(reason) ? h("p", { class: "code why" }, detailOf(reason)) : null];
  if (row.slots === 0) return "idle: it has no slots";
  return row.lag > 0 ? `handles events, ${many(row.lag, "event")} to go` : "waits for events";
}
