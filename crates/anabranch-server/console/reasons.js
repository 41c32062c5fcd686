// Why slots are stopped, in words, and how bad that is.

/** `[kind, in a legend]`; kinds are those of badges. */
const REASONS = {
  outage: ["bad", "Stopped: its handler fails everywhere"],
  failing: ["bad", "Its handler fails"],
  unassigned: ["bad", "No worker runs it"],
  owner_dead: ["bad", "Its owner is dead"],
  waiting: ["bad", "Waits for the database"],
  unable: ["bad", "Its workers cannot run it"],
  other_code: ["bad", "Waits for its code to be accepted"],
  outside_partitions: ["bad", "No worker runs these slots"],
  beyond_log: ["bad", "Beyond the end of the log"],
  wound_back: ["bad", "The log was wound back"],
  other_log: ["bad", "Belongs to another log"],
  blocked: ["warn", "Blocked by a lock"],
  parked_keys: ["warn", "Has parked keys"],
  few_sessions: ["warn", "Too few sessions"],
  no_wake: ["warn", "Wakes do not arrive"],
  busy: ["warn", "Busy with one batch for long"],
  paused: ["info", "Paused"],
  replay_asked: ["info", "A replay is asked for"],
  retrying_keys: ["info", "Retries keys"],
  awaits_generation: ["info", "About to be assigned"],
  awaits_claim: ["info", "About to be claimed"],
  awaits_release: ["info", "About to be handed over"],
};

const ORDER = ["bad", "warn", "info", "quiet"];

export const kindOf = (reason) => REASONS[reason]?.[0] ?? "quiet";

export const wordsOf = (reason) => REASONS[reason]?.[1] ?? (reason === "" ? "Running" : reason.replaceAll("_", " "));

/** Its place among those of the same kind; the most frequent come first. */
export function nthOf(reason) {
  return Math.max(0, Object.keys(REASONS).filter((other) => kindOf(other) === kindOf(reason)).indexOf(reason));
}

/** How bad a kind is: 0 is worst. */
export const rank = (kind) => ORDER.indexOf(kind);

/** The worst of some; the first of several that are as bad. */
export function worst(reasons) {
  return reasons.reduce((all, one) => (all === null || rank(kindOf(one.reason)) < rank(kindOf(all.reason)) ? one : all), null);
}

/** What else is known of one: an error, who blocks, what to do. */
export function detailOf(reason) {
  switch (reason.reason) {
    case "blocked": return `by process ${reason.by.join(", ")} of the database: ${reason.doing}`;
    case "unable": return reason.by.map(({ place, why }) => `${place}: ${why}`).join("; ");
    case "other_code": return `${reason.by.join(", ")} would run other code than the accepted one; run it with --accept, or rebuild`;
    case "beyond_log": return "replay it, or skip to the head";
    case "wound_back": return `${reason.what}: replay it, or skip to the head`;
    case "few_sessions": return `${reason.sessions} of ${reason.of}: ${reason.error}`;
    case "no_wake": return "new events are found by looking now and then";
    case "unassigned": return "no living worker runs it: start one";
    default: return reason.error ?? (reason.by ?? reason.to ?? []).join(", ");
  }
}

/** Since when in milliseconds before now, if it is known. */
export function lastsOf(reason) {
  const known = reason.for_ms ?? reason.deaf_ms;
  return known === undefined || known === null ? null : Number(known);
}
