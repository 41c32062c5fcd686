// The slot map: a canvas of 84 × 60 cells. It looks after itself; a page gives it what to show.

import { ofKind, ofNobody, ofOwner, ofStep, step } from "./colours.js";
import { h } from "./dom.js";
import { Lasting } from "./lasting.js";
import { kindOf, nthOf } from "./reasons.js";
import { COLUMNS, ROWS, moved } from "./slots.js";
import { theme } from "./theme.js";

/** How long a cell that has moved is lit, in milliseconds. */
const LIT = 2000;
const stillness = matchMedia("(prefers-reduced-motion: reduce)");

/** What colours stand for: the key of a cursor in the legend, and the colour of a key. */
export const COLOURINGS = {
  owner: { of: (cursor) => cursor.worker, colour: (id) => (id ? ofOwner(id) : ofNobody()) },
  lag: { of: (cursor) => step(cursor.lag), colour: ofStep },
  reason: { of: (cursor) => cursor.reason, colour: (name) => (name === "" ? ofKind("good") : ofKind(kindOf(name), nthOf(name))) },
};

/** A key of the legend as an address has it. */
export const keyText = (key) => (key === "" ? "-" : String(key));

export class SlotMap {
  #shown = {};
  #lit = [];
  #cell = 0;
  #lasting;

  /** `onPoint(slot or null)`: the pointer is there; `onChoose(slot)`: it was clicked, or the keyboard went there. */
  constructor(name, { onPoint, onChoose, says }) {
    this.onPoint = onPoint;
    this.onChoose = onChoose;
    this.says = says;
    this.slot = 0;
    this.cells = h("canvas", { class: "cells", "data-test": "slot-map", "aria-hidden": "true" });
    this.moves = h("canvas", { class: "moves", "aria-hidden": "true" });
    this.cursor = h("div", { role: "gridcell", id: "slot-cursor", class: "cursor" });
    this.row = h("div", { role: "row" }, this.cursor);
    this.grid = h("div", {
      role: "grid", tabindex: "0", class: "grid", "data-test": "slot-grid", "data-slot": 0, "aria-label": `Slots of ${name}`,
      "aria-activedescendant": "slot-cursor", "aria-describedby": "slot-help", onkeydown: (event) => this.#key(event),
      onpointermove: (event) => event.pointerType === "mouse" && this.onPoint(this.#slotAt(event)),
      onpointerleave: () => this.onPoint(null), onclick: (event) => this.#choose(this.#slotAt(event)),
    }, this.row);
    this.live = h("p", { class: "unseen", role: "status" });
    this.box = h("div", { class: "cells-box" }, this.cells, this.moves, this.grid);
    this.element = h("div", { class: "slot-map" }, this.box, this.live,
      h("p", { class: "unseen", id: "slot-help" }, "Arrow keys go from slot to slot, Home and End to the ends of a row, Page up and Page down by ten rows."));
    this.#lasting = new Lasting(`map of ${name}`, this.element);
    new ResizeObserver(() => this.#fit()).observe(this.element);
  }

  node() {
    return this.#lasting.node();
  }

  /** Shows a model; `only` is a key of the legend, `parked` the slots of keys that have failed. */
  show(model, { by, only = null, parked }) {
    const wanted = { model, by, only, parked, theme: theme() };
    const before = this.#shown;
    if (Object.keys(wanted).every((name) => wanted[name] === before[name])) return;
    this.#shown = wanted;
    if (before.model?.size !== model.size) this.#fit();
    else this.#paint();
    if (before.model && before.model !== model) this.#light(moved(before.model, model));
  }

  /** Goes to a slot, as the keyboard would. */
  go(slot) {
    this.slot = slot;
    this.grid.dataset.slot = slot;
    this.#place();
  }

  #columns() {
    return this.#shown.model.size === 1 ? 1 : COLUMNS;
  }

  /** Cells of whole pixels, so that all are as wide; where there is little room they are scaled down. */
  #fit() {
    const { model } = this.#shown;
    const room = this.element.clientWidth;
    if (!model || room === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const columns = this.#columns();
    const rows = columns === 1 ? 1 : ROWS;
    const exact = ((columns === 1 ? Math.min(room, 96) : room) * ratio) / columns;
    this.#cell = exact >= 6 ? Math.floor(exact) : Math.max(4, Math.ceil(exact));
    const width = exact >= 6 ? (this.#cell * columns) / ratio : room;
    for (const canvas of [this.cells, this.moves]) {
      canvas.width = this.#cell * columns;
      canvas.height = this.#cell * rows;
    }
    Object.assign(this.cells.dataset, { columns, rows });
    Object.assign(this.box.style, { width: `${width}px`, height: `${(width * rows) / columns}px` });
    this.grid.setAttribute("aria-colcount", columns);
    this.grid.setAttribute("aria-rowcount", rows);
    this.#paint();
    this.#place();
    this.#light([]);
  }

  #rect(slot, inset = 0) {
    const columns = this.#columns();
    const gap = Math.max(1, Math.round(this.#cell / 9));
    const size = this.#cell - gap - 2 * inset;
    return [(slot % columns) * this.#cell + inset + (gap >> 1), Math.floor(slot / columns) * this.#cell + inset + (gap >> 1), size, size];
  }

  #paint() {
    const { model, by, only, parked } = this.#shown;
    if (!this.#cell) return;
    const { of, colour } = COLOURINGS[by];
    // In memory: cells are many and small, and pixels that are read back cost nothing then.
    const paint = this.cells.getContext("2d", { willReadFrequently: true });
    paint.clearRect(0, 0, this.cells.width, this.cells.height);
    // Colour by colour: to change it costs more than to fill a cell.
    const slots = model.cursors.map(() => []);
    for (let slot = 0; slot < model.size; slot += 1) slots[model.of[slot]]?.push(slot);
    model.cursors.forEach((cursor, index) => {
      paint.fillStyle = colour(of(cursor));
      paint.globalAlpha = only === null || keyText(of(cursor)) === only ? 1 : 0.18;
      // What belongs to a dead worker is smaller, so that it is not told by colour alone.
      const inset = cursor.owner && !cursor.owner.is_alive ? Math.floor(this.#cell / 5) : 0;
      for (const slot of slots[index]) paint.fillRect(...this.#rect(slot, inset));
    });
    paint.globalAlpha = 1;
    if (this.#cell < 6 && model.size > 1) return;
    const mark = Math.max(2, Math.round(this.#cell / 2.8));
    for (const slot of parked) {
      const [left, top, size] = this.#rect(slot);
      paint.fillStyle = theme() === "dark" ? "#101615" : "#fff";
      paint.fillRect(left + size - mark - 1, top + size - mark - 1, mark + 1, mark + 1);
      paint.fillStyle = ofKind("bad");
      paint.fillRect(left + size - mark, top + size - mark, mark, mark);
    }
  }

  /** What has moved lights up; without motion it is framed until something else moves. */
  #light(slots) {
    const now = performance.now();
    if (stillness.matches) this.moves.getAnimations().forEach((one) => one.cancel());
    if (slots.length === 0 && (stillness.matches || this.#lit.length === 0)) return this.#frame();
    const kept = stillness.matches ? [] : this.#lit.filter((one) => now - one.at < LIT / 2);
    this.#lit = [...kept, ...slots.map((slot) => ({ slot, at: now }))];
    if (slots.length) this.moves.dataset.moved = slots.length;
    this.#frame();
    if (!stillness.matches && slots.length) this.moves.animate([{ opacity: 1 }, { opacity: 0 }], { duration: LIT, easing: "ease-in", fill: "forwards" });
  }

  #frame() {
    const paint = this.moves.getContext("2d");
    const isDark = theme() === "dark";
    paint.clearRect(0, 0, this.moves.width, this.moves.height);
    paint.fillStyle = isDark ? "#ffffff" : "#ffdf4d";
    paint.strokeStyle = isDark ? "#ffffff" : "#16211f";
    paint.lineWidth = Math.max(1, Math.round(this.#cell / 8));
    for (const { slot } of this.#lit) {
      if (stillness.matches) paint.strokeRect(...this.#rect(slot, paint.lineWidth / 2));
      else paint.fillRect(...this.#rect(slot));
    }
  }

  #place() {
    const { model } = this.#shown;
    if (!model) return;
    const columns = this.#columns();
    const [column, row] = [this.slot % columns, Math.floor(this.slot / columns)];
    const rows = columns === 1 ? 1 : ROWS;
    Object.assign(this.cursor.style, {
      left: `${(100 * column) / columns}%`, top: `${(100 * row) / rows}%`, width: `${100 / columns}%`, height: `${100 / rows}%`,
    });
    this.row.setAttribute("aria-rowindex", row + 1);
    this.cursor.setAttribute("aria-colindex", column + 1);
    this.cursor.setAttribute("aria-label", `Slot ${this.slot}`);
  }

  #slotAt(event) {
    const box = this.grid.getBoundingClientRect();
    const columns = this.#columns();
    const rows = columns === 1 ? 1 : ROWS;
    const within = (value, most) => Math.min(most - 1, Math.max(0, Math.floor(value * most)));
    return within((event.clientY - box.top) / box.height, rows) * columns + within((event.clientX - box.left) / box.width, columns);
  }

  #choose(slot) {
    this.go(slot);
    this.onChoose(slot);
    this.live.textContent = this.says(slot);
  }

  #key(event) {
    const { model } = this.#shown;
    const columns = this.#columns();
    const start = this.slot - (this.slot % columns);
    const to = {
      ArrowLeft: this.slot - 1, ArrowRight: this.slot + 1, ArrowUp: this.slot - columns, ArrowDown: this.slot + columns,
      Home: event.ctrlKey ? 0 : start, End: event.ctrlKey ? model.size - 1 : start + columns - 1,
      PageUp: Math.max(this.slot % columns, this.slot - 10 * columns),
      PageDown: Math.min(model.size - columns + (this.slot % columns), this.slot + 10 * columns), Enter: this.slot, " ": this.slot,
    }[event.key];
    if (to === undefined || event.altKey || event.metaKey) return;
    event.preventDefault();
    if (to >= 0 && to < model.size) this.#choose(to);
  }
}
