// The frame: which page is shown, what it watches, who one is.
//
// A page is `{ title(params), watch(page) -> paths, draw(page) -> node, close?(page), ready?(page), alone?(page),
// stream?(page), changed?(page) }`; while it is `alone` it has the stream of the tab to itself, and `stream` says how that is;
// `changed` is called after an operation. `page` has `params`, `query`, `answers` (path ->
// {status, body}), `session`, `state` (the page's own, kept until it is left), `redraw()`, `rewatch()`, `enter()` and `may(scope)`.
// `draw` is called whenever something has changed, and returns all of it anew.

import { CONSUMERS, get, remove } from "./api.js";
import { h, morph } from "./dom.js";
import { time } from "./format.js";
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
let again = null;
/** Since when what is shown may be old. */
let oldSince = null;
/** How soon one asks again who one is. */
const AGAIN = 2000;

const live = new Live(
  (path, answer) => {
    if (!page) return;
    page.answers.set(path, answer);
    if (path === CONSUMERS) measure();
    redraw();
  },
  (state) => {
    stream = state;
    if (["old", "lost"].includes(state)) oldSince ??= Date.now();
    else if (state === "live") oldSince = null;
    if (state === "refused") {
      refusal = { status: 401 };
      forget();
    }
    redraw();
  },
);

function measure() {
  const answer = page?.answers.get(CONSUMERS);
  if (answer?.status === 200) sample(answer.body.items);
}

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
  if (!page || !session) return live.watch([]);
  // The frame itself shows how many keys are parked.
  const wanted = [CONSUMERS, ...page.kind.watch(page)];
  for (const path of page.answers.keys()) if (!wanted.includes(path)) page.answers.delete(path);
  live.watch(page.kind.alone?.(page) ? [] : wanted);
}

/** Who one was may have seen more than who one will be. */
function forget() {
  session = null;
  page?.kind.close?.(page);
  page = null;
  closeDialogs();
  live.watch([]);
}

function closeDialogs() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
}

function open() {
  closeDialogs();
  const found = find(location.hash);
  if (page && page.address === found.address && page.kind === PAGES[found.name]) {
    page.query = found.query;
    rewatch();
    return redraw();
  }
  page?.kind.close?.(page);
  const answers = page?.answers ?? new Map();
  page = {
    ...found, kind: PAGES[found.name], answers, state: {}, redraw, rewatch, enter,
    get session() { return session; },
    may: (scope) => session?.scopes.includes(scope) ?? false,
  };
  document.title = `${page.kind.title(page.params)} · Anabranch`;
  rewatch();
  redraw();
  window.scrollTo(0, 0);
}

/** Asks who one is: a token may have been made, or revoked. */
async function enter() {
  clearTimeout(again);
  try {
    session = await get("/v1/session");
    refusal = null;
  } catch (problem) {
    refusal = problem;
    forget();
    if (problem.passes) again = setTimeout(enter, AGAIN);
  }
  if (session) open();
  else redraw();
}

function draw() {
  const needsLogin = !session && refusal?.status === 401;
  const content = needsLogin ? login(enter, refusal)
    : session && page ? drawPage()
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

/** A page that cannot be drawn says so: what stood there before belongs to another address. */
function drawPage() {
  let drawn;
  try {
    drawn = page.kind.draw(page);
  } catch (mistake) {
    console.error(mistake);
    drawn = h("p", { class: "empty bad", role: "alert", "data-test": "problem" }, `This page cannot be shown: ${mistake.message}. The address may be wrong.`);
  }
  const isOld = oldSince !== null && !page.kind.stream?.(page);
  return isOld ? [h("p", { class: "old", role: "status", "data-test": "old" },
    `${stream === "old" ? "The server cannot look at its database" : "The server does not answer"} since ${time(new Date(oldSince).toISOString())}: what you see is from then. Trying again…`), drawn] : drawn;
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
  const state = page?.kind.stream?.(page) ?? stream;
  return h("header", { class: "top" },
    h("a", { class: "brand", href: place("overview"), "aria-label": "Anabranch, overview" }, mark(), h("span", null, "Anabranch")),
    h("nav", { "aria-label": "Pages" }, links),
    h("div", { class: "who" },
      session ? h("span", { class: `stream ${state}`, role: "status", "data-test": "live", "data-state": state, title: STREAMS[state] },
        h("span", { class: "dot", "aria-hidden": "true" }), h("span", null, state)) : null,
      h("button", { type: "button", class: "quiet", onclick: () => (toggleTheme(), redraw()), "aria-label": "Colours: dark or light" },
        theme() === "dark" ? "☀" : "☾"),
      session ? h("span", { class: "unseen", "data-test": "me" }, session.name) : null,
      session?.via === "session"
        ? h("button", { type: "button", class: "quiet", "data-test": "logout", onclick: leave }, `Log out ${session.name}`)
        : null));
}

const STREAMS = {
  live: "What you see is as it is now", connecting: "Connecting", hidden: "Quiet while the tab is hidden",
  lost: "Cut off; trying again", old: "The server cannot look: what you see is old", stopped: "Ended",
};

/** How many keys are parked, of all consumers. */
function badge() {
  const items = page?.answers.get(CONSUMERS)?.body?.items ?? [];
  const failed = items.reduce((all, consumer) => all + Number(consumer.parked_keys), 0);
  return failed ? h("span", { class: "badge bad", "aria-label": `${failed} parked` }, failed > 999 ? "999+" : failed) : null;
}

function mark() {
  return h("span", { class: "mark", "aria-hidden": "true" });
}

async function leave() {
  await remove("/v1/session").catch(() => {});
  forget();
  await enter();
}

window.addEventListener("hashchange", open);
setInterval(() => {
  if (document.hidden) return;
  // What has not changed is not sent again, and is as true as before.
  if (stream === "live" && !page?.kind.alone?.(page)) measure();
  // Ages grow by themselves.
  redraw();
}, 5000);
install(() => page);
enter();
