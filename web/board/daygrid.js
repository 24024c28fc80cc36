// The races of a day with several meetings: a row is a venue, a cell a race, in the order of the off times.

import * as address from "./address.js";
import { arrange, element, setAttribute, setText, wide } from "./dom.js";
import * as formats from "./formats.js";
import { stateOf } from "./nextraces.js";

/** A race: its time and state, and its winner, or its favourite with the price. */
class RaceCell {
  #time = element("b");
  #state = element("span", { class: "left" });
  #runner = element("span", { class: "who" });
  #price = element("b", { class: "odds" });

  constructor(board, race) {
    this.board = board;
    this.race = race;
    const href = address.ofRace(race.date, race.venueCode, race.number);
    const runner = element("span", { class: "line" }, this.#runner, " ", this.#price);
    this.link = element("a", { href }, this.#time, " ", this.#state, " ", runner);
    this.element = element("td", {}, this.link);
  }

  tick(now) {
    setText(this.#state, stateOf(this.race, now));
  }

  paint() {
    const { race } = this;
    const { runner, price } = firstOf(race);
    setText(this.#time, race.offTime ? formats.clock(race.offTime, { zone: race.zone }) : `Race ${race.number}`);
    setText(this.#runner, runner);
    setText(this.#price, price ? formats.price(price) : "");
    setAttribute(this.link, "title", [`${race.label} ${race.name}`, runner].filter(Boolean).join(": "));
    setAttribute(this.element, "data-status", (race.resultWord || race.status).toLowerCase());
    this.tick(this.board.now());
  }
}

/** The winner of a race with its price, or else the favourite. */
function firstOf(race) {
  const winners = (race.result?.runners ?? []).filter(({ position }) => position === 1);
  if (winners.length > 0) return { runner: `1st ${winners.map(nameOf).join(", ")}`, price: winners[0].win_odds };
  if (race.isOver) return { runner: race.statusReason, price: null };
  const favourites = race.favourites;
  const runner = race.rows.find(({ horse_no }) => favourites.has(horse_no));
  if (!runner) return { runner: "", price: null };
  return { runner: `fav ${nameOf(runner)}`, price: race.prices.get(runner.horse_no).win };
}

const nameOf = ({ number, horse_name, horse_no }) => [number || "", horse_name || horse_no].join(" ").trim();

export class DayGrid {
  #board;
  #body = element("tbody");
  /** By the key of the race, and by venue. */
  #cells = new Map();
  #rows = new Map();
  #region;

  constructor(board) {
    this.#board = board;
    const name = "All races of the day by venue and time";
    const table = element("table", {}, element("caption", { class: "unseen" }, name), this.#body);
    this.#region = wide(name, table);
    this.element = element("section", { class: "day-grid", hidden: true }, this.#region);
  }

  /** Makes the cells of the races of several venues, each with its name. One meeting needs no overview. */
  arrange(meetings) {
    this.element.hidden = meetings.length < 2;
    if (this.element.hidden) return;
    arrange(this.#body, ...meetings.map(({ venue, races }) => this.#row(venue, races)));
  }

  #row(venue, races) {
    const name = races[0].venue;
    if (!this.#rows.has(venue)) this.#rows.set(venue, element("tr", {}, element("th", { scope: "row" })));
    const row = this.#rows.get(venue);
    const head = row.firstElementChild;
    setText(head, name);
    const time = ({ offTime, number }) => Date.parse(offTime) || number;
    const ordered = races.toSorted((a, b) => time(a) - time(b));
    arrange(row, head, ...ordered.map((race) => this.#cell(race).element));
    return row;
  }

  #cell(race) {
    if (!this.#cells.has(race.key)) {
      this.#cells.set(race.key, new RaceCell(this.#board, race));
      this.changed(race);
    }
    return this.#cells.get(race.key);
  }

  /** Scrolls to the first race that is still to be run. */
  scrollToNext() {
    const lefts = [...this.#cells.values()].filter(({ race }) => race.isOpen).map(({ element }) => element.offsetLeft);
    if (lefts.length === 0 || this.element.hidden) return;
    this.#region.scrollLeft = Math.min(...lefts) - this.#body.querySelector("th").offsetWidth;
  }

  changed(race) {
    const cell = this.#cells.get(race.key);
    if (cell) this.#board.painter.mark(cell);
  }

  tick(now) {
    if (!this.element.hidden) for (const cell of this.#cells.values()) cell.tick(now);
  }

  close() {
    for (const cell of this.#cells.values()) this.#board.painter.drop(cell);
  }
}
