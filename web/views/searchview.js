// All that a search finds, by kind.

import { element } from "../board/dom.js";
import { star } from "../board/following.js";
import { find, findAll, isSearchable } from "./search.js";

export async function load(board, { text }) {
  return new SearchView(board, text, isSearchable(text) ? await findAll(board, text) : []);
}

/** What is found of some kinds. */
export class SearchView {
  constructor(board, text, groups) {
    this.title = `Search for “${text}”`;
    this.element = element(
      "section",
      { class: "search-view" },
      element("h1", { tabindex: "-1" }, this.title),
      groups.length === 0 &&
        element(
          "p",
          { class: "lead" },
          isSearchable(text)
            ? "No horse, person, venue or race of the day has this name."
            : "Type two letters or more.",
        ),
      ...groups.map((group) => section(board, text, group)),
    );
  }

  changed() {}
  tick() {}
  close() {}
}

function section(board, text, { title, kind, rows, next }) {
  const id = `found-${kind}`;
  const list = element("ul", { class: "found" }, ...rows.map(item));
  const more = element("button", { type: "button", class: "quiet", hidden: next === "" }, "More");
  let path = next;
  more.addEventListener("click", async () => {
    more.disabled = true;
    try {
      const page = await find(board, kind, text, { path });
      const items = page.rows.map(item);
      list.append(...items);
      // What has the focus vanishes.
      if (page.next === "") (items[0] ?? list.lastElementChild).querySelector("a").focus();
      path = page.next;
      more.hidden = path === "";
    } catch (error) {
      board.report(error);
    }
    more.disabled = false;
  });
  return element("section", { "aria-labelledby": id }, element("h2", { id }, title), list, more);
}

function item({ kind, key, name, about, href }) {
  const link = element("a", { href }, name);
  return element("li", {}, link, kind !== "races" && star(kind, key, name), element("span", { class: "soft" }, about));
}
