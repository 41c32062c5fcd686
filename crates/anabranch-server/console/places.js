// Addresses of pages: `#/consumers/orders?by=lag`.

/** What the frame has links to. */
export const NAVIGATION = [
  ["overview", "Overview"], ["failed", "Failed"], ["events", "Events"], ["tasks", "Tasks"],
  ["workflows", "Workflows"], ["deliveries", "Deliveries"], ["batches", "Batches"], ["journal", "Journal"],
];

/** Name, section, pattern. */
const PLACES = [
  ["overview", "overview", []],
  ["consumer", "overview", ["consumers", "name"]],
  ["worker", "overview", ["workers", "id"]],
  ["failed", "failed", ["failed"]],
  ["parkedKey", "failed", ["failed", "consumer", "key"]],
  ["events", "events", ["events"]],
  ["event", "events", ["events", "id"]],
  ["stream", "events", ["streams", "category", "id"]],
  ["tasks", "tasks", ["tasks"]],
  ["task", "tasks", ["tasks", "id"]],
  ["workflows", "workflows", ["workflows"]],
  ["instance", "workflows", ["workflows", "workflow", "id"]],
  ["deliveries", "deliveries", ["deliveries"]],
  ["batches", "batches", ["batches"]],
  ["journal", "journal", ["journal"]],
];

/** The address of a page: `place("consumer", {name: "orders"}, {by: "lag"})`. */
export function place(name, params = {}, query = {}) {
  const [, , parts] = PLACES.find(([known]) => known === name);
  const path = parts.map((part, index) => (isWord(index) ? part : encodeURIComponent(params[part])));
  const wanted = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(wanted).toString();
  return `#/${path.join("/")}${text ? `?${text}` : ""}`;
}

/** The first part of each pattern is a word, the others are parameters. */
function isWord(index) {
  return index === 0;
}

/** The page of an address; the overview if there is none of it. */
export function find(hash) {
  const [path, text = ""] = hash.replace(/^#\/?/, "").split("?");
  let given;
  try {
    given = path.split("/").filter((part) => part !== "").map(decodeURIComponent);
  } catch {
    given = [];
  }
  const query = Object.fromEntries(new URLSearchParams(text));
  const fits = ([, , parts]) => parts.length === given.length && (parts.length === 0 || parts[0] === given[0]);
  const [name, section, parts] = PLACES.find(fits) ?? PLACES[0];
  const params = {};
  if (fits([name, section, parts])) parts.forEach((part, index) => isWord(index) || (params[part] = given[index]));
  return { name, section, params, query, address: path };
}

/** Changes the query of this page without a new one. */
export function requery(query) {
  const [path, text = ""] = location.hash.split("?");
  const all = new URLSearchParams(text);
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") all.delete(name);
    else all.set(name, value);
  }
  const wanted = all.toString();
  location.replace(`${path || "#/"}${wanted ? `?${wanted}` : ""}`);
}
