// The visitor's key: asked for once, kept until the tab is closed, never in an address. Someone who is signed in needs
// none: the browser sends the cookie of the session.

import { element } from "./dom.js";

const STORED = "railbird-key";

/** Whether this browser has been signed in: no script can read the cookie. */
const SIGNED_IN = "railbird-signed-in";
/** Stands for the session. */
export const NO_KEY = "";

/** The key of this tab, or else [`NO_KEY`] for a browser that is signed in; `null` without both. */
export function storedKey() {
  return sessionStorage.getItem(STORED) ?? (localStorage.getItem(SIGNED_IN) ? NO_KEY : null);
}

export function storeKey(key) {
  if (key !== NO_KEY) sessionStorage.setItem(STORED, key);
}

export function noteSession() {
  localStorage.setItem(SIGNED_IN, "yes");
}

export function forgetKey() {
  sessionStorage.removeItem(STORED);
  localStorage.removeItem(SIGNED_IN);
}

/** The key of `railbird dev`, which it gives to its own pages on a loopback address alone; `null` without one. */
export async function devKey(path) {
  if (!path) return null;
  try {
    const response = await fetch(path, { method: "POST" });
    return response.ok ? (await response.json()).key : null;
  } catch {
    // The visitor is asked for a key.
    return null;
  }
}

/** A form that asks for the key, and passes it on. `problem` says why the last one does not do. */
export function keyForm(problem, take) {
  const input = element("input", {
    type: "password",
    id: "key",
    name: "key",
    autocomplete: "off",
    autocapitalize: "none",
    spellcheck: "false",
    required: true,
    "aria-describedby": problem ? "key-problem key-hint" : "key-hint",
    "aria-invalid": problem ? "true" : false,
  });
  const form = element(
    "form",
    { class: "key-form" },
    element("label", { for: "key" }, "Your API key"),
    element(
      "p",
      { class: "hint", id: "key-hint" },
      "It begins with rb_. It stays in this tab until you close it, and is sent to this service alone.",
    ),
    problem && element("p", { class: "wrong", id: "key-problem" }, problem),
    input,
    element("button", { type: "submit", class: "plain" }, "Show the board"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const key = input.value.trim();
    if (key !== "") take(key);
  });
  return form;
}
