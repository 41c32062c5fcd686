// Who did what, when, by which way, and what came of it; and what is being done now.

import { path, post, query } from "../api.js";
import { h } from "../dom.js";
import { at } from "../event_table.js";
import { filters } from "../filters.js";
import { ago, count, many } from "../format.js";
import { Rows, anew } from "../lists.js";
import { place } from "../places.js";
import { badge, heading, section, table, trouble } from "../ui.js";

const SHOWN = 50;
/** How many rows there are at most, unless somebody wants older ones. */
const MOST = 500;
const STAGES = { applied: ["done", "good"], done: ["done", "good"], began: ["began", "info"], cancelled: ["stopped", "warn"], failed: ["failed", "bad"] };

const journalOf = ({ query: { target, plan } }) => query("/v1/journal", { target, plan, limit: SHOWN });
const plansOf = ({ query: { target } }) => query("/v1/plans", { target, limit: 20 });

export const journal = {
  title: () => "Journal",
  watch: (page) => [journalOf(page), plansOf(page)],
  changed: anew,
  draw(page) {
    const answer = page.answers.get(journalOf(page));
    const plans = page.answers.get(plansOf(page));
    const running = plans?.status === 200 ? plans.body.items.filter(({ state }) => state === "running") : [];
    return [
      heading("Journal", h("span", { class: "quiet" }, "Every operation that changed something, by the command, the API or the console")),
      running.length ? section("Being done now", null, running.map((plan) => progress(page, plan))) : null,
      filters(page, [
        { name: "target", label: "About", placeholder: "a consumer, a pool, a set or a task", search: true },
        { name: "plan", label: "Plan", placeholder: "its id" },
      ], { label: "Filter the journal" }),
      h("div", { class: "card" }, answer?.status === 200 ? entries(page, answer.body) : trouble(answer)),
    ];
  },
};

function progress(page, plan) {
  const { id, effect, total, done, who, began_at: began } = plan;
  const refusals = (page.state.refusals ??= new Map());
  const refusal = refusals.get(id);
  const stop = async (event) => {
    event.currentTarget.disabled = true;
    refusals.set(id, await post(path`/v1/plans/${id}/cancel`).then(() => null, (problem) => problem));
    page.redraw();
  };
  return h("div", { class: "running", "data-key": id, "data-test": "plan-running", "data-id": id },
    h("p", null, h("strong", null, `${words(plan.verb)} ${plan.target}`), ` ${effect.says}`),
    h("div", { class: "beside" },
      h("progress", { max: Number(total) || 1, value: Number(done), "aria-label": `How far ${words(plan.verb)} of ${plan.target} is` }),
      h("span", { role: "status" }, `${count(done)} of ${count(total)}`),
      h("span", { class: "quiet" }, `${who}, ${ago(began)}`),
      page.may("operate") ? h("button", { type: "button", onclick: stop, "data-test": "plan-stop" }, "Stop here") : null),
    refusal ? h("p", { class: "bad", role: "alert", "data-test": "problem", "data-code": refusal.code }, refusal.message) : null);
}

function entries(page, { items, next }) {
  const sign = journalOf(page);
  if (page.state.of !== sign) Object.assign(page.state, { of: sign, rows: null, seen: new Map(), from: next });
  const { seen, rows } = page.state;
  for (const entry of [...items, ...(rows?.items ?? [])]) seen.set(entry.seq, entry);
  const all = [...seen.values()].sort((one, other) => Number(other.seq) - Number(one.seq));
  if (!rows && all.length > MOST) {
    for (const { seq } of all.splice(MOST)) seen.delete(seq);
    page.state.from = all.at(-1).seq;
  }
  const { target, plan } = page.query;
  const older = () => ((page.state.rows = new Rows(page, "/v1/journal", { target, plan }, { by: "before", from: page.state.from, step: SHOWN })), page.redraw());
  return [
    table("Entries, the newest first", [
      { title: "When", kind: "t-when", of: (entry) => at(entry.at) },
      { title: "Who", of: (entry) => entry.who },
      { title: "By", of: (entry) => entry.via },
      { title: "What", kind: "t-key", of: (entry) => words(entry.verb) },
      { title: "About", kind: "t-key", of: (entry) => h("a", { href: place("journal", {}, { target: entry.target }) }, entry.target) },
      { title: "Outcome", of: (entry) => [badge(...(STAGES[entry.stage] ?? [entry.stage])), " ", outcome(entry)] },
      { title: "As it was planned", kind: "t-says", of: (entry) => entry.effect.says },
    ], all, { key: (entry) => String(entry.seq), test: "journal", empty: "Nobody has changed anything yet.", props: (entry) => ({ "data-what": entry.verb, "data-target": entry.target, "data-stage": entry.stage }) }),
    rows ? rows.foot("Older") : page.state.from !== null ? h("p", { class: "foot" }, h("button", { type: "button", onclick: older, "data-test": "more" }, "Older")) : null,
  ];
}

/** `retry_parked` as people say it. */
function words(verb) {
  return verb.replaceAll("_", " ");
}

/** One thing says nothing by a number. */
function outcome({ outcome: { done, gone } = {}, stage }) {
  if (stage === "began" || done === undefined) return null;
  const meanwhile = Number(gone) ? `, ${many(gone, "was", "were")} gone` : "";
  return Number(done) > 1 || meanwhile ? h("span", { class: "quiet" }, `${count(done)}${meanwhile}`) : null;
}
