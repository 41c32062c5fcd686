// What is asked for once, page by page, or again when something has changed: for all that the one stream does not bring.

import { Problem, get, query } from "./api.js";
import { h } from "./dom.js";
import { button, trouble } from "./ui.js";

/** How soon the same is asked for again, though something changes all the time. */
const APART = 2000;

/**
 * The answer of a path as it came last: `{status, body}`, null until it has come. It is asked for once, and anew when
 * `version` is another one.
 */
export function asked(page, path, version = "") {
  const all = (page.state.asked ??= new Map());
  const known = all.get(path) ?? all.set(path, { answer: null, version: null, at: 0, isUnderWay: false }).get(path);
  const wanted = `${version} ${page.state.changes ?? 0}`;
  if (known.version === wanted || known.isUnderWay) return known.answer;
  const wait = known.at + APART - Date.now();
  if (known.answer && wait > 0) {
    setTimeout(page.redraw, wait);
    return known.answer;
  }
  Object.assign(known, { version: wanted, isUnderWay: true, at: Date.now() });
  answered(path).then((answer) => {
    Object.assign(known, { answer, isUnderWay: false });
    page.redraw();
  });
  return known.answer;
}

/** Whether all that was asked for has come once: what a page's `ready` says. */
export function arrived(page) {
  return [...(page.state.asked?.values() ?? [])].every((one) => one.answer) && !page.state.rows?.isFirst;
}

/** Everything is asked for anew: what a page's `changed` does. */
export function anew(page) {
  page.state.changes = (page.state.changes ?? 0) + 1;
  page.state.rows?.begin();
}

/** An answer, also where it is a refusal. */
export async function answered(path) {
  try {
    return { status: 200, body: await get(path) };
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    return { status: problem.status, body: { ...problem.body, detail: problem.message } };
  }
}

/** A list that comes page by page, as far as somebody wants it. */
export class Rows {
  items = [];
  next = null;
  problem = null;
  isUnderWay = false;
  /** Nothing has come yet. */
  isFirst = true;
  #path;
  #params;
  #page;
  #turn = 0;

  constructor(page, path, params, { step = 100, looks = 10, by = "after", from = null } = {}) {
    Object.assign(this, { step, looks, by, from });
    [this.#page, this.#path, this.#params] = [page, path, params];
    /** When the first page has come. */
    this.first = this.begin();
  }

  /** From the beginning; what is shown stays until the new has come. */
  begin() {
    this.#turn += 1;
    this.isUnderWay = false;
    return this.#load(this.from, true);
  }

  more() {
    return this.next === null || this.isUnderWay ? null : this.#load(this.next);
  }

  /** A page may come empty though there is more: then the next is asked for, so many times. */
  async #load(after, isFirst = false) {
    const turn = this.#turn;
    const found = [];
    this.isUnderWay = true;
    let [at, problem] = [after, null];
    for (let look = 0; look < this.looks && found.length < this.step; look += 1) {
      const params = { ...this.#params, limit: this.step - found.length, ...(at === null ? {} : { [this.by]: at }) };
      const answer = await answered(query(this.#path, params));
      if (turn !== this.#turn) return;
      if (answer.status !== 200) {
        problem = answer;
        break;
      }
      found.push(...answer.body.items);
      at = answer.body.next;
      if (at === null) break;
    }
    this.items = isFirst ? found : [...this.items, ...found];
    Object.assign(this, { next: problem ? after : at, problem, isUnderWay: false, isFirst: false });
    this.#page.redraw();
  }

  /** What stands below the rows: that there is more, or why nothing came. */
  foot(more = "More") {
    if (this.problem) return trouble(this.problem);
    if (this.isFirst) return trouble(null);
    if (this.next === null) return null;
    return h("p", { class: "foot" }, button(this.isUnderWay ? "Looking…" : more, () => this.more() && this.#page.redraw(), { "data-test": "more" }),
      this.items.length === 0 ? h("span", { class: "quiet" }, " Nothing so far; there is more to look through.") : null);
  }
}

/** The rows of a page for what its address says: others when that changes. */
export function rowsOf(page, path, params, options) {
  const sign = query(path, params);
  if (page.state.sign !== sign) {
    page.state.sign = sign;
    page.state.rows = new Rows(page, path, params, options);
  }
  return page.state.rows;
}
