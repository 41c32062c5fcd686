// Who are you?

import { post } from "../api.js";
import { h } from "../dom.js";

/** The form; `entered` is called when the server knows who one is. */
export function login(entered, refusal) {
  return h("form", { class: "card login", "data-test": "login", onsubmit: (event) => send(event, entered) },
    h("h1", null, "Log in"),
    h("p", null, "This server asks for a token. ", h("code", null, "anabranch token make NAME --scope read"), " makes one."),
    h("p", { class: "field" },
      h("label", { for: "token" }, "Token"),
      h("input", { id: "token", name: "token", type: "password", autocomplete: "current-password", required: true, autofocus: true,
        placeholder: "anb_…", spellcheck: "false", "data-test": "login-token", "data-keep": "1" })),
    h("p", { class: "bad", role: "alert", id: "login-problem", "data-test": "problem", "data-keep": "1" },
      refusal && refusal.status !== 401 ? refusal.message : ""),
    h("div", { class: "buttons" }, h("button", { class: "main", "data-test": "login-submit" }, "Log in")));
}

async function send(event, entered) {
  event.preventDefault();
  const form = event.target;
  const problem = form.querySelector("#login-problem");
  problem.textContent = "";
  try {
    await post("/v1/session", { token: form.token.value.trim() });
    form.token.value = "";
    await entered();
  } catch (refused) {
    problem.dataset.code = refused.code;
    problem.textContent = refused.message;
    form.token.focus();
  }
}
