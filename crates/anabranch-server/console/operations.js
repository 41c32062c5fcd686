// One dialog for all operations: what would be done, counted; then it is done, and one sees how far it is.

import { get, mount, path, post } from "./api.js";
import { h, morph } from "./dom.js";
import { commandOf } from "./commands.js";
import { count, many, span } from "./format.js";
import { copy } from "./ui.js";

/** How often is asked how far a plan is; how soon again if that fails. */
const LOOK = 500;
const LOOK_AGAIN = 2000;

/**
 * A button that leads to a plan. `request` is an operation of the API; `fields` are what may be chosen before:
 * `{name, label, type: "number" | "text" | "select", options?, hint?, required?(values), apply(request, value)}`. Who may not operate sees none.
 * `most` is how many the place of the button is about: a plan about more says so.
 */
export function operation(page, label, request, { fields = [], kind = "", title = label, most = null } = {}) {
  if (!page.may("operate")) return null;
  return h("button", {
    type: "button", class: kind, title, "data-test": "do", "data-do": request.do, "data-action": request.action ?? null,
    "data-consumer": request.consumer ?? request.pool ?? null, "data-key": request.key ?? request.filter?.key ?? null,
    "data-id": request.id ?? null, "data-set": request.replica_set ?? request.set ?? null,
    onclick: () => open(page, title, request, fields, most),
  }, label);
}

/** The field of what may be done at a rate. */
export const PER_SECOND = {
  name: "per_second", label: "At most this many per second", type: "number", hint: "empty: as fast as it goes",
  apply: (request, value) => ({ ...request, per_second: value === "" ? null : Number(value) }),
};

function open(page, title, request, fields, most) {
  const state = { most, stage: fields.length ? "form" : "planning", request, values: {}, plan: null, problem: null };
  for (const field of fields) state.values[field.name] = field.value ?? field.options?.[0]?.[0] ?? "";
  const dialog = h("dialog", { class: "plan", "aria-labelledby": "plan-title", "data-test": "plan" });
  const asked = () => meant(fields.reduce((all, field) => field.apply(all, state.values[field.name]), request));
  const show = () => {
    dialog.dataset.stage = state.stage;
    dialog.dataset.plan = state.plan?.id ?? "";
    morph(dialog, h("dialog", { class: "plan", open: dialog.open || null, "aria-labelledby": "plan-title", "data-test": "plan",
      "data-stage": state.stage, "data-plan": state.plan?.id ?? "" }, content(title, fields, state, act)));
    // The button that was pressed may be gone: the keyboard goes on at what does nothing, or at the first field.
    if (dialog.open && (document.activeElement === dialog || !dialog.contains(document.activeElement))) {
      dialog.querySelector("form input, form select, [data-test=plan-close]")?.focus();
    }
  };
  const fail = (problem) => {
    state.problem = problem;
    state.stage = "refused";
    show();
  };
  const act = {
    async plan() {
      state.stage = "planning";
      state.problem = null;
      show();
      try {
        state.request = asked();
        state.plan = await post("/v1/plans", state.request);
        state.stage = "planned";
        show();
      } catch (problem) {
        fail(problem);
      }
    },
    again() {
      state.plan = null;
      state.problem = null;
      if (fields.length === 0) return act.plan();
      state.stage = "form";
      show();
    },
    async apply() {
      state.stage = "applying";
      show();
      try {
        state.plan = await applied(state.plan.id);
        if (state.plan) await follow();
      } catch (problem) {
        fail(problem);
      }
    },
    async stop() {
      try {
        state.plan = await post(path`/v1/plans/${state.plan.id}/cancel`);
      } catch (problem) {
        // It goes on.
        state.problem = problem;
        show();
      }
    },
    close: () => dialog.close(),
    set(name, value) {
      state.values[name] = value;
      // What must be filled in may follow from what was chosen.
      for (const field of fields) if (field.required) dialog.querySelector(`#plan-${field.name}`).required = field.required(state.values);
    },
  };
  /** The plan as it is now, whenever the server answers; null if nobody waits for it any more. */
  const look = async (id) => {
    while (dialog.open) {
      try {
        const plan = await get(path`/v1/plans/${id}`);
        if (state.problem?.passes) state.problem = null;
        return plan;
      } catch (problem) {
        if (!problem.passes) throw problem;
        state.problem = problem;
        show();
        await new Promise((done) => setTimeout(done, LOOK_AGAIN));
      }
    }
    return null;
  };
  /** Where the answer was lost, the plan says whether it was begun. */
  const applied = async (id) => {
    try {
      return await post(path`/v1/plans/${id}/apply`);
    } catch (problem) {
      if (!problem.passes) throw problem;
      const plan = await look(id);
      if (plan?.state === "open") throw problem;
      return plan;
    }
  };
  /** Until it has ended, or nobody looks any more; the server goes on by itself. */
  const follow = async () => {
    while (state.plan.state === "running") {
      show();
      await new Promise((done) => setTimeout(done, LOOK));
      const plan = await look(state.plan.id);
      if (!plan) return;
      state.plan = plan;
    }
    state.stage = "done";
    show();
    page.kind.changed?.(page);
    page.redraw();
  };
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  if (fields.length) show();
  else act.plan();
}

function content(title, fields, state, act) {
  const { stage, plan, problem } = state;
  return [
    h("h2", { id: "plan-title" }, title),
    stage === "form" ? form(fields, state, act) : null,
    stage === "planning" ? h("p", { class: "quiet", role: "status" }, "Counting what it would do…") : null,
    plan && stage !== "form" ? effect(plan, state.most) : null,
    problem ? h("p", { class: "bad", role: "alert", "data-test": "plan-problem", "data-code": problem.code },
      problem.message, problem.body?.hint ? ` ${problem.body.hint}` : null) : null,
    stage === "applying" || stage === "done" ? progress(plan, stage) : null,
    stage === "planned" ? h("p", { class: "copies" },
      copy("Copy as command", commandOf(state.request), "copy-command"), " ",
      copy("Copy as curl", curlOf(state.request), "copy-curl")) : null,
    h("div", { class: "buttons" },
      h("button", { type: "button", class: "quiet", "data-test": "plan-close", onclick: act.close },
        ["done", "refused", "applying"].includes(stage) ? "Close" : "Cancel"),
      stage === "applying" && plan?.state === "running" ? h("button", { type: "button", onclick: act.stop }, "Stop here") : null,
      stage === "refused" && !fields.length ? h("button", { type: "button", onclick: act.again }, "Preview again") : null,
      (stage === "planned" || stage === "refused") && fields.length ? h("button", { type: "button", onclick: act.again }, "Back") : null,
      stage === "planned" && !isOfNothing(plan) ? h("button", { type: "button", class: plan.effect.is_final ? "danger" : "main", "data-test": "plan-apply",
        onclick: act.apply }, plan.effect.is_final ? "Apply; it cannot be undone" : "Apply") : null),
  ];
}

function form(fields, state, act) {
  return h("form", { onsubmit: (event) => (event.preventDefault(), act.plan()) },
    fields.map((field) => {
      const props = { id: `plan-${field.name}`, name: field.name, "data-keep": "1", oninput: (event) => act.set(field.name, event.target.value) };
      const input = field.type === "select"
        ? h("select", { ...props, onchange: (event) => act.set(field.name, event.target.value) },
          field.options.map(([value, label]) => h("option", { value, selected: value === state.values[field.name] }, label)))
        : h("input", { ...props, type: field.type, min: field.type === "number" ? 1 : null, placeholder: field.placeholder ?? null,
          required: field.required?.(state.values) ?? null, value: state.values[field.name] });
      return h("p", { class: "field" }, h("label", { for: props.id }, field.label), input, field.hint ? h("small", null, field.hint) : null);
    }),
    h("div", { class: "buttons" }, h("button", { class: "main", "data-test": "plan-make" }, "Preview")));
}

/** How many things a plan is about, as far as it counts them. */
function totalOf({ effect: { counts, first } }) {
  return Number(counts.keys ?? counts.tasks ?? counts.deliveries ?? first.length);
}

/** Whether a plan is about many things, and there are none. */
function isOfNothing(plan) {
  return ["parked", "tasks", "resend"].includes(plan.request?.do) && totalOf(plan) === 0;
}

function effect(plan, most) {
  const { says, counts, first, seconds, notes } = plan.effect;
  const total = totalOf(plan);
  return h("div", { class: "effect" },
    h("p", { "data-test": "plan-says" }, says),
    most !== null && total > Number(most) ? h("p", { class: "bad", role: "alert", "data-test": "plan-more" },
      `Others have this text in their error, too: it is about ${count(total)}, not about ${count(most)}.`) : null,
    h("dl", { class: "facts" }, Object.entries(counts).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, count(value))))),
    first.length ? h("p", null, total > first.length ? `The first ${first.length} of ${count(total)}: ` : "", h("span", { class: "code" }, first.join(", "))) : null,
    seconds ? h("p", null, `It takes about ${span(seconds)}.`) : null,
    notes.map((note) => h("p", { class: "warn" }, note)));
}

function progress(plan, stage) {
  const total = Number(plan.total);
  const done = Number(plan.done);
  const ends = { done: "Done", cancelled: "Stopped", failed: "Failed" };
  const said = stage === "done" ? ends[plan.state] ?? plan.state : "Applying";
  const gone = Number(plan.gone) ? `, ${many(plan.gone, "was", "were")} gone meanwhile` : "";
  return h("div", { role: "status", "data-test": "plan-outcome" },
    total > 1 ? h("progress", { max: total, value: done, "aria-label": "How far it is" }) : null,
    h("p", { class: stage === "done" && plan.state === "done" ? "good" : plan.state === "failed" ? "bad" : null },
      total > 1 ? `${said}: ${count(done)} of ${count(total)}${gone}.` : `${said}.`, plan.problem ? ` ${plan.problem}` : null));
}

/** All are meant where that is said, and no filter was chosen. */
function meant(request) {
  const narrows = Object.keys(request.filter ?? {}).length > 0 || (request.where ?? []).length > 0;
  const { all, ...some } = request;
  return all && !narrows ? request : some;
}

/** The same for a shell. A token is the reader's to add. */
function curlOf(request) {
  const body = JSON.stringify(request).replaceAll("'", "'\\''");
  return `curl -s '${location.origin}${mount}/v1/plans' -H 'x-anabranch: 1' -H 'content-type: application/json' -d '${body}'`;
}
