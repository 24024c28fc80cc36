// The visitor's key: asked for once, kept until the tab is closed, never in an address.

import { element } from "./dom.js";

const STORED = "railbird-key";

export function storedKey() {
  return sessionStorage.getItem(STORED);
}

export function storeKey(key) {
  sessionStorage.setItem(STORED, key);
}

export function forgetKey() {
  sessionStorage.removeItem(STORED);
}

/** The key of `railbird dev`, which it gives to its own pages on a loopback address alone; `null` without one. */
export async function devKey(path) {
  if (!path) return null;
  const response = await fetch(path, { method: "POST" });
  return response.ok ? (await response.json()).key : null;
}

/** Asks for the key, and passes it on. `problem` says why the last one does not do. */
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
    element("button", { type: "submit" }, "Show the board"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const key = input.value.trim();
    if (key !== "") take(key);
  });
  return element(
    "section",
    { class: "welcome" },
    element("h1", { tabindex: "-1" }, "The live board"),
    element("p", { class: "lead" }, "Every meeting, every price as it moves, and the proof that none was missed."),
    form,
    element(
      "p",
      { class: "soft" },
      "You have no key? ",
      element("a", { href: "pricing" }, "Get one"),
      ", or read the ",
      element("a", { href: "docs" }, "documentation"),
      " first.",
    ),
  );
}
