// Figures by groups, such as the seasons of a jockey, as a table that is sorted on request.

import * as address from "../board/address.js";
import { element, setAttribute, wide } from "../board/dom.js";
import * as formats from "../board/formats.js";
import { person } from "../board/people.js";

/** Rows that are shown before all are asked for, if there are more than a few more. */
const ROWS = 12;
const ROWS_MORE = 8;

/** The columns of figures: how a value is compared, and written. */
const FIGURES = [
  ["Starts", ({ starts }) => starts, formats.whole],
  ["Wins", ({ wins }) => wins, formats.whole],
  ["2nd, 3rd", ({ places }) => places, formats.whole, "extra"],
  ["Rate", ({ strike_rate }) => 100 * strike_rate, formats.percent],
  ["Profit", ({ profit, priced_starts }) => (priced_starts > 0 ? profit : -Infinity), profitText],
];
const NAMES = { jockey: "Jockeys", trainer: "Trainers", draw: "Draw" };
/** What is in the order of its values; others begin with the most wins. */
const ORDERED = ["season", "distance", "draw"];

export class GroupTable {
  #groups;
  #body = element("tbody");
  #all = element("button", { type: "button", class: "quiet" });
  #heads;
  #sort;
  #isAll = false;

  /** A document of figures, of a name. */
  constructor(board, { by, groups }, name) {
    this.#groups = groups.map((group) => ({ ...group, cell: valueOf(board, by, group.value) }));
    const label = NAMES[by] ?? formats.capitalized(by);
    const text = ({ value }) => value;
    const columns = [[label, text], ...FIGURES];
    const wins = columns[2][1];
    const isNewestFirst = by === "season";
    this.#sort = ORDERED.includes(by) ? { of: text, isFalling: isNewestFirst } : { of: wins, isFalling: true };
    this.#heads = columns.map(([name, of, , kind = ""], index) => {
      const button = element("button", { type: "button", class: "sort" }, name);
      button.addEventListener("click", () => this.#sortBy(of, index > 0));
      return { of, element: element("th", { scope: "col", class: index > 0 && `number ${kind}` }, button) };
    });
    const title = `${name} by ${by}`;
    const table = element(
      "table",
      { class: "runners group-table" },
      element("caption", { class: "unseen" }, title),
      element("thead", {}, element("tr", {}, ...this.#heads.map(({ element }) => element))),
      this.#body,
    );
    this.#all.addEventListener("click", () => this.#showAll());
    this.element = element("div", {}, wide(title, table), this.#all);
    this.#write();
  }

  /** Sorts by a column: the greatest number, or the first text, is first; once more, the last one. */
  #sortBy(of, isNumber) {
    this.#sort = this.#sort.of === of ? { of, isFalling: !this.#sort.isFalling } : { of, isFalling: isNumber };
    this.#write();
  }

  #showAll() {
    this.#isAll = true;
    this.#write();
    // What had the focus vanishes.
    this.#heads[0].element.firstElementChild.focus();
  }

  #write() {
    const { of, isFalling } = this.#sort;
    const sign = isFalling ? -1 : 1;
    const order = (a, b) => isKnown(b) - isKnown(a) || sign * compare(of(a), of(b)) || b.starts - a.starts;
    const groups = this.#groups.toSorted(order);
    for (const head of this.#heads) {
      setAttribute(head.element, "aria-sort", head.of !== of ? null : isFalling ? "descending" : "ascending");
    }
    const shown = this.#isAll || groups.length <= ROWS + ROWS_MORE ? groups : groups.slice(0, ROWS);
    this.#body.replaceChildren(...shown.map(row));
    if (groups.length === 0) this.#body.append(element("tr", {}, element("td", { colspan: "6" }, "None")));
    this.#all.hidden = shown.length === groups.length;
    this.#all.textContent = `All ${groups.length}`;
  }
}

function row(group) {
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, group.cell.cloneNode(true)),
    ...FIGURES.map(([, of, write, kind = ""]) => element("td", { class: `number ${kind}` }, write(of(group)))),
  );
}

/** Whether the value of a group is known; one that is not stands last. */
const isKnown = ({ value }) => value !== "" && value !== "0";

function compare(a, b) {
  return typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
}

function profitText(profit) {
  return profit === -Infinity ? "–" : formats.signed(profit);
}

/** The value of a group as people read it. */
function valueOf(board, by, value) {
  if (!isKnown({ value })) return element("span", { class: "soft" }, "not known");
  if (by === "venue") return element("a", { href: address.ofPerson("venues", value) }, board.venueName(value));
  if (by === "jockey" || by === "trainer") return person(`${by}s`, value);
  if (by === "distance") return element("span", {}, formats.distance(Number(value)));
  if (by === "class") return element("span", {}, formats.grade(value));
  return element("span", {}, value);
}
