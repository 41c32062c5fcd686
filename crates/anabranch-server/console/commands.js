// An operation of the API as a command line that does the same.

/** `anabranch parked retry orders --all --per-second 50`. What begins with a dash is no option if it is a name. */
export function commandOf(request) {
  const found = COMMANDS[request.do]?.(request);
  if (!found) return "";
  const [verb, about, ...options] = found.map((words) => [words].flat(2).filter((word) => word !== null && word !== undefined && word !== false));
  const isPlain = about.every((name) => !String(name).startsWith("-"));
  return ["anabranch", ...verb, ...(isPlain ? [...about, ...options.flat()] : [...options.flat(), "--", ...about])].map(quoted).join(" ");
}

const flag = (name, value) => {
  if (value === null || value === undefined || value === false || value === "") return [];
  if (value === true) return [name];
  return String(value).startsWith("-") ? [`${name}=${value}`] : [name, value];
};
const rate = (request) => flag("--per-second", request.per_second);

function from(begin) {
  if (begin === "start") return ["--from-start"];
  if (begin === "first_kept") return ["--from-first-kept"];
  if (begin.after !== undefined) return ["--after", begin.after];
  return begin.time !== undefined ? ["--from-time", begin.time] : ["--last", begin.last];
}

function keys({ filter = {} }) {
  const chosen = [...flag("--key-contains", filter.key_contains), ...flag("--error-contains", filter.error_contains)];
  if (filter.key) return [];
  return [...(chosen.length ? chosen : ["--all"]), ...flag("--state", filter.state)];
}

function deliveries({ filter = {} }) {
  const chosen = [...flag("--id", filter.id), ...flag("--key", filter.key), ...flag("--state", filter.state)];
  return chosen.length ? chosen : ["--all"];
}

function tasks({ state, where = [] }) {
  return [...(where.length ? where.flatMap((one) => flag("--where", one)) : ["--all"]), ...flag("--state", state)];
}

/** Each is the command, what it is about, and its options. */
const COMMANDS = {
  pause: (r) => ["pause", r.consumer],
  resume: (r) => ["resume", r.consumer],
  replay: (r) => ["replay", r.consumer, from(r.from), flag("--new-id", r.new_ids), "--yes"],
  replay_key: (r) => ["replay", r.consumer, flag("--key", r.key), "--yes"],
  skip_to_head: (r) => ["skip-to-head", r.consumer, "--yes"],
  parked: (r) => r.action === "retry"
    ? [["parked", "retry"], [r.consumer, r.filter?.key], keys(r), rate(r)]
    : [["parked", "skip"], [r.consumer, r.filter?.key], keys(r), r.action === "skip_all" ? "--all-events" : null, rate(r), "--yes"],
  tasks: (r) => [["tasks", r.action], [], tasks(r), rate(r), "--yes"],
  task: (r) => [["tasks", r.action], r.id, flag("--force", r.force), "--yes"],
  pause_key: (r) => [["tasks", "pause-key"], [r.pool, r.key]],
  resume_key: (r) => [["tasks", "resume-key"], [r.pool, r.key]],
  resend: (r) => [["deliveries", "send-again"], r.consumer, deliveries(r), rate(r), "--yes"],
  rebalance: (r) => ["rebalance", r.replica_set],
  switch_rebuild: (r) => [["rebuild", "switch"], r.consumer, (r.tables ?? []).length ? r.tables.flatMap((one) => flag("--table", one)) : "--view", "--yes"],
  forget: (r) => ["forget", r.consumer, "--yes"],
};

/** `anabranch batch verify …` for a job of the processing log `log`, null for the usual one. */
export function batchCommand(verb, { job, of }, log) {
  const source = flag(of.kind === "query" ? "--query" : "--source", of.source);
  return ["anabranch", "batch", verb, ...source, ...flag("--key", of.key_column), ...flag("--job", job), ...flag("--log-table", log)].map(quoted).join(" ");
}

/** As a shell takes it. */
function quoted(word) {
  const text = String(word);
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
