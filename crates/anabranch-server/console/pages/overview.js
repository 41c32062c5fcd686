// What needs attention first; then all consumers, and the replica sets that run them.

import { CONSUMERS } from "../api.js";
import { attentionList, things } from "../attention.js";
import { h } from "../dom.js";
import { count, many, short } from "../format.js";
import { place } from "../places.js";
import { rate, series } from "../rates.js";
import { kindOf, rank, wordsOf } from "../reasons.js";
import { badge, heading, notAll, section, spark, table, trouble } from "../ui.js";
import { digits } from "../digits.js";
import { knowAll, placeOf, shareBar, workerLink } from "../workers.js";

const PATHS = [CONSUMERS, "/v1/replica-sets", "/v1/workers"];

export const overview = {
  title: () => "Overview",
  watch: () => PATHS,
  draw(page) {
    const [consumers, sets, workers] = PATHS.map((path) => page.answers.get(path));
    if (consumers?.status !== 200) return [heading("Overview"), trouble(consumers)];
    const all = consumers.body.items;
    const live = workers?.body?.items ?? [];
    knowAll(live);
    return [
      heading("Overview", totals(all, live)),
      attention(things({ consumers: all, workers: live }), all.length > 0),
      section("Consumers", null,
        table("Consumers", columns(), all, { key: (row) => row.name, test: "consumer", props: (row) => ({ "data-name": row.name }),
          empty: "One appears here when a worker first runs it: anabranch run FILE." }),
        notAll(consumers)),
      sets?.status === 200 ? section("Replica sets", null, replicaSets(sets.body.items, all, live)) : null,
    ];
  },
};

function totals(all, live) {
  const alive = live.filter((worker) => worker.is_alive).length;
  return h("span", { class: "quiet" }, `${many(all.length, "consumer")}${live.length ? `, ${many(alive, "worker")}` : ""}`);
}

function attention(all, isRun) {
  const urgent = all.filter(({ kind }) => kind !== "info").length;
  return h("section", { class: `card needs ${urgent ? "" : "calm"}`, "aria-labelledby": "needs" },
    h("h2", { id: "needs" }, urgent ? `${many(urgent, "thing needs", "things need")} attention` : "Nothing needs attention"),
    all.length ? attentionList(all) : h("p", { class: "quiet" }, isRun ? "All consumers are running, and no key is parked." : "No consumer has run yet."));
}

function columns() {
  return [
    { title: "Consumer", of: (row) => h("span", { class: "name" }, h("a", { href: place("consumer", { name: row.name }), "data-test": "consumer-link" }, row.name), h("span", { class: "quiet" }, row.kind), states(row)) },
    { title: "State", kind: "state", of: states },
    { title: "Behind", kind: "number", of: (row) => h("span", { "data-test": "consumer-lag" }, digits(row.lag)) },
    { title: "Events a second", kind: "number", of: speed },
    { title: "Parked keys", kind: "number", of: (row) => h("span", { class: Number(row.parked_keys) ? "bad" : "quiet", "data-test": "consumer-parked" }, digits(row.parked_keys)) },
    { title: "Events behind them", kind: "number", of: (row) => h("span", { class: Number(row.parked_events) ? null : "quiet" }, count(row.parked_events)) },
    { title: "Workers", kind: "number", of: (row) => new Set(row.runners.map(({ worker }) => worker)).size },
  ];
}

function speed(row) {
  const now = rate(row.name);
  return h("span", { class: "speed" }, spark(series(row.name).map((one) => one.rate), `Events a second of ${row.name} in the last minutes`),
    h("span", { class: "speed-now" }, now === null ? "–" : short(now)));
}

/** The reasons of all its cursors, each once, worst first. */
function states(row) {
  const names = new Set(row.cursors.flatMap((cursor) => cursor.reasons.map(({ reason }) => reason)));
  if (row.outage) names.delete("failing");
  const sorted = [...names].sort((a, b) => rank(kindOf(a)) - rank(kindOf(b)));
  if (row.problem) return badge("Cannot be run", "bad");
  return h("span", { class: "states" }, sorted.length ? sorted.map((name) => badge(wordsOf(name), kindOf(name))) : badge("Running", "good"));
}

function replicaSets(sets, consumers, workers) {
  if (sets.length === 0) return h("p", { class: "empty" }, "No replica set has run yet.");
  return h("div", { class: "sets" }, sets.map((set) => {
    const own = consumers.filter(({ name }) => set.consumers.includes(name));
    const members = workers.filter((worker) => worker.replica_set === set.name).sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
    const shares = members.map((worker) => ({ id: worker.id, slots: own.reduce((all, { runners }) => all + Number(runners.find((one) => one.worker === worker.id)?.slots ?? 0), 0) }));
    return h("article", { class: "set", "data-test": "set-row", "data-name": set.name, "data-key": set.name },
      h("h3", null, set.name, h("span", { class: "quiet" }, ` generation ${set.generation}${set.rollout === "recreate" ? ", recreated at a roll-out" : ""}`)),
      h("p", { class: "set-consumers" }, set.consumers.map((name) => h("a", { href: place("consumer", { name }) }, name))),
      shareBar(shares, `Slots of ${set.name} by worker`),
      members.length ? h("ul", { class: "members" }, members.map((worker) => member(worker, shares, own.length)))
        : h("p", { class: "bad" }, "No worker runs it."));
  }));
}

function member(worker, shares, consumers) {
  const all = shares.reduce((sum, one) => sum + one.slots, 0);
  const own = shares.find(({ id }) => id === worker.id).slots;
  return h("li", { "data-key": worker.id }, workerLink(worker.id, placeOf(worker), { "data-test": "worker-link", "data-id": worker.id }),
    worker.is_alive ? null : badge("dead", "bad"),
    h("span", { class: "quiet member-share" }, consumers && all ? `${Math.round((100 * own) / all)} %` : "–"));
}
