// Colours of owners: the same worker has the same colour on every page, as long as the tab lives.

import { theme } from "./theme.js";

/** Told apart by hue and by lightness; 3:1 against the card that they stand on. */
const LIGHT = ["#0f8587", "#c2571a", "#3a6bd0", "#b53d7c", "#4a8a1f", "#7a51c9", "#9c7000", "#a33a32", "#4f7594", "#0b5c48", "#7d2f66", "#697517"];
const DARK = ["#3fc1b8", "#f29a4b", "#79a4ff", "#ef7db3", "#8fcb5c", "#b699ff", "#dfb83b", "#ee836e", "#98bddb", "#43a58c", "#d088c4", "#b8c359"];
const STEPS_LIGHT = ["#a8cfc9", "#6fb0aa", "#c9a227", "#d07a1c", "#c04a22", "#8d1f1f"];
const STEPS_DARK = ["#2e5a55", "#4a8f87", "#b49628", "#df8a35", "#ef6f4f", "#ff9c9c"];
const KINDS_LIGHT = {
  good: ["#7fb8a4"], quiet: ["#8b9894"], warn: ["#c98a12", "#a05f00", "#ddb35a", "#857024"],
  bad: ["#c0392b", "#e0703f", "#8e2f63", "#d65a7d", "#8c1c13", "#a9486b"], info: ["#3a6bd0", "#6fa3d8", "#7a6fd0", "#2f7f9f", "#1f4a9e", "#9aa6e6"],
};
const KINDS_DARK = {
  good: ["#3f7a68"], quiet: ["#7f8f8b"], warn: ["#e3b04b", "#c98a3a", "#f3d48d", "#b8a04a"],
  bad: ["#ff7d72", "#ffa974", "#d77bb0", "#ff9fb0", "#d9534a", "#c98aa5"], info: ["#79a4ff", "#9fd0f0", "#a79cff", "#5fb0cc", "#5a86e0", "#c3ccff"],
};

const places = new Map();
const processes = new Map();
/** Of how many workers the colour is kept, far more than live at once. */
const MOST = 2000;

/**
 * Gives workers of one set (`{worker, place}`) colours that differ; workers of several sets in one process have the same,
 * if it is free.
 */
export function know(workers) {
  if (places.size > MOST) [places, processes].forEach((known) => known.clear());
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

/** The colour of how bad something is; those of the same kind differ. */
export function ofKind(kind, nth = 0) {
  const all = (theme() === "dark" ? KINDS_DARK : KINDS_LIGHT)[kind];
  return all[nth % all.length];
}
