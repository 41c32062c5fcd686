// Colours of owners: the same worker has the same colour on every page, as long as the tab lives.

import { theme } from "./theme.js";

/** Told apart by hue and by lightness; 3:1 against the card that they stand on. */
const LIGHT = ["#0f8587", "#c2571a", "#3a6bd0", "#b53d7c", "#4a8a1f", "#7a51c9", "#9c7000", "#a33a32", "#4f7594", "#0b5c48", "#7d2f66", "#697517"];
const DARK = ["#3fc1b8", "#f29a4b", "#79a4ff", "#ef7db3", "#8fcb5c", "#b699ff", "#dfb83b", "#ee836e", "#98bddb", "#43a58c", "#d088c4", "#b8c359"];
const STEPS_LIGHT = ["#a8cfc9", "#6fb0aa", "#c9a227", "#d07a1c", "#c04a22", "#8d1f1f"];
const STEPS_DARK = ["#2e5a55", "#4a8f87", "#b49628", "#df8a35", "#ef6f4f", "#ff9c9c"];
const KINDS_LIGHT = { good: "#7fb8a4", info: "#3a6bd0", warn: "#c98a12", bad: "#c0392b", quiet: "#8b9894" };
const KINDS_DARK = { good: "#3f7a68", info: "#79a4ff", warn: "#e3b04b", bad: "#ff7d72", quiet: "#7f8f8b" };

const places = new Map();

const processes = new Map();

/**
 * Gives workers of one set (`{worker, place}`) colours that differ; workers of several sets in one process have the same,
 * if it is free.
 */
export function know(workers) {
  const news = new Map(workers.filter(({ worker }) => worker && !places.has(worker)).map((one) => [one.worker, one]));
  for (const { worker, place } of [...news.values()].sort((a, b) => (a.worker < b.worker ? -1 : 1))) {
    const taken = new Set(workers.map((other) => places.get(other.worker)));
    let at = processes.get(place) ?? processes.size % LIGHT.length;
    for (let tries = 0; taken.has(at) && tries < LIGHT.length; tries += 1) at = (at + 1) % LIGHT.length;
    places.set(worker, at);
    if (place && !processes.has(place)) processes.set(place, at);
  }
}

/** The colour of a worker. */
export function ofOwner(id) {
  if (!places.has(id)) know([{ worker: id, place: null }]);
  return (theme() === "dark" ? DARK : LIGHT)[places.get(id)];
}

/** Nobody's slots. */
export const ofNobody = () => (theme() === "dark" ? "#3a4845" : "#cfd8d5");

/** From how far behind on a step begins. */
export const STEPS = [0, 1, 10, 100, 1000, 10_000];

/** Which step a lag is on. */
export function step(lag) {
  return STEPS.findLastIndex((from) => lag >= from);
}

export const ofStep = (index) => (theme() === "dark" ? STEPS_DARK : STEPS_LIGHT)[index];

/** The colour of how bad something is; `nth` of the same kind differ a little. */
export function ofKind(kind, nth = 0) {
  const base = (theme() === "dark" ? KINDS_DARK : KINDS_LIGHT)[kind];
  return nth === 0 ? base : mixed(base, theme() === "dark" ? 255 : 0, Math.min(0.2 * nth, 0.6));
}

function mixed(colour, other, part) {
  const of = (at) => Math.round(parseInt(colour.slice(at, at + 2), 16) * (1 - part) + other * part);
  return `rgb(${of(1)} ${of(3)} ${of(5)})`;
}
