// Races of horses as rows, newest first, with a button for earlier ones: a form, or the rides of a person.

import * as address from "../board/address.js";
import { element, wide } from "../board/dom.js";
import * as formats from "../board/formats.js";
import { person } from "../board/people.js";

/** Rows that are asked for at a time. */
export const FORM_ROWS = 50;

/** The columns. Those with a `whose` are of a list in which it differs. */
const COLUMNS = [
  { name: "Date", kind: "date extra", cell: ({ date }) => date },
  { name: "Horse", kind: "rider", whose: "horses", cell: horse },
  { name: "Place", kind: "place-word", cell: placeOf },
  { name: "Distance", kind: "number extra", cell: ({ distance }) => formats.distance(distance) },
  { name: "Going", kind: "extra", cell: ({ going }) => going },
  { name: "Jockey", kind: "extra", whose: "jockeys", cell: ({ jockey }) => jockey && person("jockeys", jockey) },
  { name: "Trainer", kind: "extra", whose: "trainers", cell: ({ trainer }) => trainer && person("trainers", trainer) },
  { name: "Time", kind: "number extra", cell: ({ finish_time }) => finish_time },
  { name: "Win", kind: "number", cell: ({ win_odds }) => (win_odds ? formats.price(win_odds) : "") },
];

/** The place of a runner, or why it has none. */
export function placeOf(row) {
  return row.position ? `${row.dead_heat ? "=" : ""}${row.position}` : formats.outcome(row.outcome);
}

export function raceLink({ date, venue, venue_code, race_number }) {
  return element("a", { href: address.ofRace(date, venue_code, race_number) }, `${venue}, race\u00a0${race_number}`);
}

function horse({ horse_no, horse_name }) {
  return element("a", { href: address.ofHorse(horse_no) }, horse_name || horse_no);
}

export class FormTable {
  #board;
  #rowsOf;
  #columns;
  #whose;
  #body = element("tbody");
  #more = element("button", { type: "button", class: "quiet" }, "Earlier races");

  /** `whose` is the kind of which all rows are. `rowsOf` returns the rows of a page, newest first. */
  constructor(board, name, whose, rowsOf) {
    this.#board = board;
    this.#rowsOf = rowsOf;
    this.#whose = whose;
    this.#columns = COLUMNS.filter((column) => column.whose !== whose);
    this.#more.addEventListener("click", () => this.#next());
    // The race stands after the date.
    const head = ({ name, kind }) => element("th", { scope: "col", class: kind }, name);
    const [date, ...others] = this.#columns.map(head);
    const race = head({ name: "Race", kind: "horse" });
    const table = element(
      "table",
      { class: "runners form" },
      element("caption", { class: "unseen" }, `${name}, newest first`),
      element("thead", {}, element("tr", {}, date, race, ...others)),
      this.#body,
    );
    this.element = element("div", { class: "form-table" }, wide(name, table), this.#more);
  }

  /** Adds a page of the list. */
  add(page) {
    this.#body.append(...this.#rowsOf(page).map((row) => this.#row(row)));
    if (this.#body.children.length === 0) {
      const span = `${this.#columns.length + 1}`;
      this.#body.append(element("tr", {}, element("td", { colspan: span }, "No race is known.")));
    }
    this.#more.hidden = page.next === "";
    this.#more.dataset.next = page.next.replace(/^\/?api\/v1\//, "");
  }

  #row(row) {
    const { date, race_name, distance, going, jockey } = row;
    const code = (row.position ? "" : row.outcome) || false;
    const cell = ({ kind, cell }) =>
      element("td", { class: kind, "data-code": kind === "place-word" && code }, cell(row));
    const [first, ...others] = this.#columns.map(cell);
    const rider = this.#whose !== "jockeys" && jockey?.replaceAll(" ", "\u00a0");
    const small = [formats.distance(distance), going, rider].filter(Boolean).map((part) => ` · ${part}`);
    const race = element(
      "th",
      { scope: "row", class: "horse" },
      raceLink(row),
      element("span", { class: "people" }, race_name),
      element("span", { class: "small" }, element("span", { class: "date" }, date), ...small),
    );
    return element("tr", {}, first, race, ...others);
  }

  async #next() {
    this.#more.disabled = true;
    try {
      const last = this.#body.lastElementChild;
      this.add((await this.#board.api.get(this.#more.dataset.next)).document);
      // What had the focus vanishes.
      if (this.#more.hidden) (last.nextElementSibling ?? last).querySelector("a")?.focus();
    } catch (error) {
      this.#board.report(error);
    }
    this.#more.disabled = false;
  }
}
