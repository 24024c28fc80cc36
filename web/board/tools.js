// What stands in the head of the page beside the links: the search, the way to what is followed, and the key.

import * as address from "./address.js";
import { element } from "./dom.js";
import { load } from "./load.js";

/** Elements in which a slash is a character. */
const TEXTS = "input, select, textarea";

export class Tools {
  #isLoading = false;
  #input = element("input", {
    type: "search",
    class: "search",
    placeholder: "Search",
    "aria-label": "Search horses, people, venues and races",
    "aria-keyshortcuts": "/",
    autocomplete: "off",
    autocapitalize: "none",
    spellcheck: "false",
    enterkeyhint: "search",
  });

  /** `forget` has the key forgotten; without it, the visitor is signed in. */
  constructor(board, forget) {
    const key = forget
      ? element("button", { type: "button", class: "quiet" }, "Forget key")
      : element("a", { href: "account" }, "Sign out");
    if (forget) key.addEventListener("click", forget);
    // No search is as of a moment of the past.
    const search = !board.replay && element("search", {}, this.#input);
    const following = element("a", { href: address.FOLLOWING }, "Following");
    this.element = element("div", { class: "tools" }, search, following, key);
    this.#input.addEventListener("focus", () => this.#load(board));
  }

  /** Shows it in the head of the page. */
  open() {
    document.querySelector("header").append(this.element);
    addEventListener("keydown", this.#focus);
  }

  close() {
    removeEventListener("keydown", this.#focus);
    this.element.remove();
  }

  /** Has the field search, once it is used. What cannot be loaded is, with the next focus. */
  async #load(board) {
    if (this.#isLoading) return;
    this.#isLoading = true;
    try {
      const { SearchField } = await load("searchfield");
      new SearchField(board, this.#input);
    } catch (error) {
      this.#isLoading = false;
      board.say(`${error.message}.`);
    }
  }

  /** A slash is the way to the search. */
  #focus = (event) => {
    const { key, ctrlKey, metaKey, altKey, target } = event;
    if (key !== "/" || !this.#input.isConnected || ctrlKey || metaKey || altKey || target.matches(TEXTS)) return;
    event.preventDefault();
    this.#input.focus();
    this.#input.select();
  };
}
