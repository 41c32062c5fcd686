// Errors that say the same of different things, and by which text they are found again.

const PLACE = "…";
const DIFFERS = /"[^"]*"|'[^']*'|`[^`]*`|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+(?:[.,:]\d+)*/gi;

/** An error with what differs from one to the next left out. */
function saying(error) {
  return error.replace(DIFFERS, PLACE);
}

/** The longest text that all errors of a saying have. */
function literal(says) {
  return says.split(PLACE).reduce((longest, piece) => (piece.length > longest.length ? piece : longest), "");
}

/** All texts of a saying, for filters that take several. */
export function literals(says) {
  return says.split(PLACE).map((piece) => piece.trim()).filter((piece) => piece.length > 2);
}

/** Whether an error is of a saying, also of one that the server has made. */
export function isOf(says, error) {
  const pieces = says.split(PLACE);
  let at = 0;
  return pieces.every((piece, index) => {
    const found = index === 0 ? (error.startsWith(piece) ? 0 : -1) : error.indexOf(piece, at);
    at = found + piece.length;
    return found >= 0;
  }) && (pieces.at(-1) === "" || error.endsWith(pieces.at(-1)));
}

/** Groups of `{says, contains, keys, retrying, events, since, example}` from tasks, which the server does not group. One error is itself. */
export function grouped(keys) {
  const groups = new Map();
  for (const key of keys) {
    const says = saying(key.error ?? "");
    const group = groups.get(says) ?? { says, contains: literal(says), keys: 0, retrying: 0, events: 0, since: key.since, example: key.key, error: key.error };
    group.keys += 1;
    if (group.error !== key.error) group.error = null;
    group.retrying += key.state === "retrying" ? 1 : 0;
    group.events += Number(key.events ?? 0);
    if (key.since < group.since) group.since = key.since;
    groups.set(says, group);
  }
  for (const group of groups.values()) if (group.error) Object.assign(group, { says: group.error, contains: literal(group.error) });
  return [...groups.values()].sort((one, other) => other.keys - one.keys);
}
