// The frame: which page is shown, what it watches, who one is.
//
// A page is `{ title(params), watch(page) -> paths, draw(page) -> node, open?(page), close?(page), ready?(page),
// alone?(page), changed?(page) }`; while it is `alone` it has the stream of the tab to itself, and `changed` is called after an
// operation. `page` has `params`, `query`, `answers` (path ->
// {status, body}), `session`, `state` (the page's own, kept until it is left), `redraw()`, `rewatch()` and `may(scope)`.
// `draw` is called whenever something has changed, and returns all of it anew.

import { get, remove } from "./api.js";
import { h, morph } from "./dom.js";
import { Live } from "./live.js";
import { sample } from "./rates.js";
import { PAGES } from "./pages/all.js";
import { login } from "./pages/login.js";
import { NAVIGATION, find, place } from "./places.js";
import { install } from "./keys.js";
import { theme, toggleTheme } from "./theme.js";

const app = document.getElementById("app");
const frame = h("div", { class: "frame" });
app.replaceChildren(frame);

let session = null;
let page = null;
let refusal = null;
let stream = "connecting";
let pending = false;

const live = new Live(
  (path, answer) => {
    if (!page) return;
    page.answers.set(path, answer);
    if (path === "/v1/consumers" && answer.status === 200) sample(answer.body.items);
    redraw();
  },
  (state) => {
    stream = state;
    if (state === "refused") session = null;
    redraw();
  },
);

/** Draws once in the next frame, however often it is asked for. */
function redraw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    draw();
  });
}

function rewatch() {
  const own = page && session ? page.kind.watch(page) : [];
  // What the frame itself shows: what needs attention.
  live.watch(session ? (page?.kind.alone?.(page) ? [] : ["/v1/consumers", ...own]) : []);
}

function open() {
  const found = find(location.hash);
  if (page && page.address === found.address && page.kind === PAGES[found.name]) {
    page.query = found.query;
    rewatch();
    return redraw();
  }
  page?.kind.close?.(page);
  const answers = page?.answers ?? new Map();
  page = {
    ...found, kind: PAGES[found.name], answers, state: {}, redraw, rewatch,
    get session() { return session; },
    may: (scope) => session?.scopes.includes(scope) ?? false,
  };
  document.title = `${page.kind.title(page.params)} · Anabranch`;
  page.kind.open?.(page);
  rewatch();
  redraw();
  window.scrollTo(0, 0);
}

/** Asks who one is: a token may have been made, or revoked. */
export async function enter() {
  try {
    session = await get("/v1/session");
    refusal = null;
  } catch (problem) {
    session = null;
    refusal = problem;
  }
  if (session) open();
  else redraw();
}

function draw() {
  const needsLogin = !session && refusal?.status === 401 || stream === "refused";
  const content = needsLogin ? login(enter, refusal)
    : session ? page.kind.draw(page)
    : h("p", { class: "empty" }, refusal ? refusal.message : "Connecting…");
  const wanted = h("div", { class: "frame" },
    h("a", { class: "skip", href: "#main", onclick: skip }, "Skip to the content"),
    header(needsLogin),
    h("main", {
      // Each place anew: what was typed at one must not stay at the next.
      id: "main", tabindex: "-1", "data-test": "page", "data-key": needsLogin ? "login" : `at ${page?.address}`,
      "data-page": needsLogin ? "login" : page?.name ?? "none", "data-ready": needsLogin || isReady() ? "true" : "false",
    }, content));
  morph(frame, wanted);
}

/** Whether everything that the page shows has arrived once. */
function isReady() {
  if (!page || !session) return false;
  return page.kind.watch(page).every((path) => page.answers.has(path)) && (page.kind.ready?.(page) ?? true);
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function header(needsLogin) {
  const links = needsLogin ? [] : NAVIGATION.map(([name, title]) =>
    h("a", { href: place(name), "data-test": `nav-${name}`, "aria-current": page?.section === name ? "page" : null },
      title, name === "failed" ? badge() : null));
  return h("header", { class: "top" },
    h("a", { class: "brand", href: place("overview"), "aria-label": "Anabranch, overview" }, mark(), h("span", null, "Anabranch")),
    h("nav", { "aria-label": "Pages" }, links),
    h("div", { class: "who" },
      h("span", { class: `stream ${stream}`, role: "status", "data-test": "live", "data-state": stream, title: STREAMS[stream] },
        h("span", { class: "dot", "aria-hidden": "true" }), h("span", null, stream)),
      h("button", { type: "button", class: "quiet", onclick: () => (toggleTheme(), redraw()), "aria-label": "Colours: dark or light" },
        theme() === "dark" ? "☀" : "☾"),
      session ? h("span", { class: "unseen", "data-test": "me" }, session.name) : null,
      session?.via === "session"
        ? h("button", { type: "button", class: "quiet", "data-test": "logout", onclick: leave }, `Log out ${session.name}`)
        : null));
}

const STREAMS = {
  live: "What you see is as it is now", connecting: "Connecting", hidden: "Quiet while the tab is hidden",
  lost: "The server does not answer; trying again", refused: "The token is not valid any more",
};

/** How many keys have failed, of all consumers. */
function badge() {
  const items = page?.answers.get("/v1/consumers")?.body?.items ?? [];
  const failed = items.reduce((all, consumer) => all + Number(consumer.parked_keys), 0);
  return failed ? h("span", { class: "badge bad", "aria-label": `${failed} parked` }, failed > 999 ? "999+" : failed) : null;
}

function mark() {
  return h("span", { class: "mark", "aria-hidden": "true" });
}

async function leave() {
  await remove("/v1/session").catch(() => {});
  session = null;
  await enter();
}

window.addEventListener("hashchange", open);
// Ages grow by themselves.
setInterval(() => document.hidden || redraw(), 5000);
install(() => page);
enter();
