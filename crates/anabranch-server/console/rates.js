// How fast consumers go: from their positions, as long as this tab has seen them.

/** How many samples are kept, and how far apart they are at least: five minutes. */
const KEPT = 300;
const APART = 1000;

const all = new Map();

/** Takes the consumers of an answer. */
export function sample(consumers, now = Date.now()) {
  const seen = new Set();
  for (const { name, head, lag } of consumers) {
    seen.add(name);
    const samples = all.get(name) ?? [];
    all.set(name, samples);
    const last = samples.at(-1);
    if (last && now - last.at < APART) continue;
    samples.push({ at: now, head: Number(head), lag: Number(lag ?? 0), done: Number(head) - Number(lag ?? 0) });
    if (samples.length > KEPT) samples.shift();
  }
  for (const name of all.keys()) if (!seen.has(name)) all.delete(name);
}

/** `{at, rate, lag}` between neighbours. A replay goes backwards: that is no negative rate. */
export function series(name) {
  const samples = all.get(name) ?? [];
  return samples.slice(1).map((now, index) => {
    const before = samples[index];
    const seconds = (now.at - before.at) / 1000;
    return { at: now.at, rate: Math.max(0, (now.done - before.done) / seconds), lag: now.lag };
  });
}

/** Events a second in the last moments; null if it is not known yet. */
export function rate(name) {
  const samples = all.get(name) ?? [];
  const now = samples.at(-1);
  const before = samples.findLast((one) => now.at - one.at >= 4000) ?? samples[0];
  if (!now || now === before) return null;
  return Math.max(0, (now.done - before.done) / ((now.at - before.at) / 1000));
}
