// A field that searches while one types: a combobox with a list of what is found, by kind.

import * as address from "../board/address.js";
import { waitText } from "../board/api.js";
import { element, setAttribute, setText } from "../board/dom.js";
import { findAll, isSearchable } from "./search.js";

/** Rows of a kind in the list; the page of the search has all. */
const ROWS = 5;
/** Typing is over after that pause. */
const PAUSE_MS = 250;

let count = 0;

export class SearchField {
  #board;
  #input;
  #options;
  #list;
  #status = element("p", { role: "status" });
  #popup = element("div", { class: "found-popup", hidden: true });
  #timer;
  #searching = null;
  #active = -1;

  /** `choose` takes a row; without it, the page goes to its address. `kinds` are those of the API, or all. */
  constructor(board, input, { name = "What is found", kinds, choose } = {}) {
    this.#board = board;
    this.#input = input;
    this.#options = { kinds, choose };
    this.id = `found-${++count}`;
    this.#list = element("div", { role: "listbox", id: this.id, "aria-label": name });
    this.#popup.append(this.#list, this.#status);
    input.after(this.#popup);
    const attributes = { role: "combobox", "aria-autocomplete": "list", "aria-controls": this.id };
    for (const [name, value] of Object.entries(attributes)) setAttribute(input, name, value);
    this.#show(false);
    input.addEventListener("input", ({ isComposing }) => !isComposing && this.#typed());
    // Before that, the text is not what is meant.
    input.addEventListener("compositionend", () => this.#typed());
    input.addEventListener("keydown", (event) => this.#press(event));
    input.addEventListener("blur", () => this.#close());
    // The focus stays where one types.
    this.#popup.addEventListener("mousedown", (event) => event.preventDefault());
    this.#list.addEventListener("click", (event) => this.#click(event));
    if (input.value !== "") this.#typed();
  }

  get #text() {
    return this.#input.value.trim();
  }

  get #rows() {
    return [...this.#list.querySelectorAll("[role=option]")];
  }

  #typed() {
    this.#close();
    if (isSearchable(this.#text)) this.#timer = setTimeout(() => this.#search(this.#text), PAUSE_MS);
  }

  async #search(text) {
    this.#searching = new AbortController();
    const { signal } = this.#searching;
    const { kinds } = this.#options;
    this.#write([], "Searching");
    try {
      const groups = await findAll(this.#board, text, { kinds, signal });
      if (signal.aborted) return;
      const found = groups.reduce((sum, { rows }) => sum + rows.length, 0);
      const more = groups.some(({ next }) => next !== "") ? "more than " : "";
      this.#write(groups, found === 0 ? "Nothing has this name." : `${more}${found} found`);
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) return this.#board.report(error);
      this.#write([], error.retryAt ? waitText(error) : `${error.message}.`);
    }
  }

  /** Ends what is being searched, and closes the list. */
  #close() {
    clearTimeout(this.#timer);
    this.#searching?.abort();
    this.#searching = null;
    this.#show(false);
  }

  #show(isShown) {
    this.#popup.hidden = !isShown;
    setAttribute(this.#input, "aria-expanded", `${isShown}`);
    this.#activate(-1);
  }

  #write(groups, status) {
    let index = 0;
    const option = (attributes, ...children) =>
      element(
        "a",
        { role: "option", id: `${this.id}-${index++}`, tabindex: "-1", "aria-selected": "false", ...attributes },
        ...children,
      );
    const parts = groups.map(({ title, kind, rows }) => {
      const id = `${this.id}-${kind}`;
      const options = rows.slice(0, ROWS).map((row) => {
        const { href, name, about } = row;
        const link = option({ href }, element("b", {}, name), " ", element("span", {}, about));
        link.row = row;
        return link;
      });
      return element("div", { role: "group", "aria-labelledby": id }, element("p", { id }, title), ...options);
    });
    if (groups.length > 0 && !this.#options.choose) {
      parts.push(option({ href: address.ofSearch(this.#text), class: "all" }, `All results for “${this.#text}”`));
    }
    this.#list.replaceChildren(...parts);
    this.#list.hidden = parts.length === 0;
    setText(this.#status, status);
    this.#show(true);
  }

  #press(event) {
    if (event.isComposing) return;
    const rows = this.#popup.hidden ? [] : this.#rows;
    const { key } = event;
    if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      if (this.#popup.hidden && isSearchable(this.#text)) this.#search(this.#text);
      const step = key === "ArrowDown" ? 1 : -1;
      // Before the first one is the field itself.
      const places = rows.length + 1;
      if (rows.length > 0) this.#activate(((this.#active + 1 + step + places) % places) - 1);
    } else if (key === "Escape" && !this.#popup.hidden) {
      event.preventDefault();
      this.#close();
    } else if (key === "Enter") {
      event.preventDefault();
      if (this.#active >= 0) this.#take(rows[this.#active]);
      else if (!this.#options.choose && isSearchable(this.#text)) this.#go(address.ofSearch(this.#text));
    }
  }

  #activate(index) {
    this.#active = index;
    for (const [at, row] of this.#rows.entries()) setAttribute(row, "aria-selected", `${at === index}`);
    const active = this.#rows[index];
    setAttribute(this.#input, "aria-activedescendant", active?.id ?? null);
    active?.scrollIntoView({ block: "nearest" });
  }

  #click(event) {
    const option = event.target.closest("[role=option]");
    // In a new tab, the browser opens it.
    if (!option || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.#take(option);
  }

  #take(option) {
    if (!this.#options.choose) return this.#go(option.getAttribute("href"));
    this.#input.value = option.row.name;
    this.#close();
    this.#options.choose(option.row);
  }

  #go(href) {
    this.#close();
    this.#input.value = "";
    this.#input.blur();
    location.hash = href;
  }
}
