// The HTTP API, below the place where it is mounted.

import { parse } from "./json.js";

/** All consumers: as many as one list has. What is watched is found by this very text. */
export const CONSUMERS = "/v1/consumers?limit=1000";

export const mount = document.querySelector("meta[name=anabranch-mount]").content;

/** A refusal of the server, or no answer at all (`status` 0). */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || "no answer");
    this.status = status;
    this.code = body.code ?? "";
    this.body = body;
  }

  /** Whether it may be over when the same is asked again. */
  get passes() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

async function call(method, path, body) {
  let [response, text] = [null, ""];
  try {
    response = await fetch(mount + path, {
      method,
      headers: method === "GET" ? {} : { "x-anabranch": "1", "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
    });
    text = await response.text();
  } catch {
    throw new Problem(0, { detail: "the server does not answer" });
  }
  let answer = null;
  try {
    answer = text === "" ? null : parse(text);
  } catch {
    answer = { detail: text.slice(0, 300) };
  }
  if (!response.ok) throw new Problem(response.status, answer ?? {});
  return answer;
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body ?? {});
export const remove = (path) => call("DELETE", path);

/** A path with its parts encoded: ``path`/v1/consumers/${name}` ``. */
export function path(texts, ...parts) {
  return texts.reduce((all, text, index) => all + encodeURIComponent(parts[index - 1]) + text);
}

/** A path with a query; what is null or empty is left out, lists are repeated. */
export function query(path, params) {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") all.append(name, one);
    }
  }
  return all.size === 0 ? path : `${path}?${all}`;
}
