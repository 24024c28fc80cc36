// The runners of a day whose win prices have moved most since the opening.

import * as address from "../board/address.js";
import { element, fromTo, setText } from "../board/dom.js";
import * as formats from "../board/formats.js";

/** Rows of each list, and rows that are read for them: one list may have most of the moves. */
const ROWS = 8;
const READ = 60;
/** They are for the trend, and each reading is a request. */
const INTERVAL_MS = 60_000;

export class Movers {
  #board;
  #date;
  #readAt = -Infinity;
  #movers = [];
  #note = element("p", { class: "hint" });
  #lists = element("div", { class: "lists" });

  constructor(board, date) {
    this.#board = board;
    this.#date = date;
    this.element = element("div", {}, this.#note, this.#lists);
    this.tick();
  }

  /** Reads them again where they are shown and old. */
  tick() {
    const isShown = !this.element.isConnected || this.element.closest("details").open;
    if (isShown && performance.now() - this.#readAt >= INTERVAL_MS) this.#read();
  }

  async #read() {
    this.#readAt = performance.now();
    try {
      const { document } = await this.#board.api.get(`days/${this.#date}/movers?limit=${READ}`);
      this.#movers = document.movers;
      const at = formats.clock(this.#board.now(), { seconds: true, zone: this.#board.zone });
      setText(this.#note, `Win prices since the opening, by the change of the implied chance, as of ${at}.`);
    } catch (error) {
      setText(this.#note, `${error.message}.`);
    }
    this.rewrite();
  }

  /** Writes the prices again. */
  rewrite() {
    const shorter = this.#movers.filter(({ price, opening }) => price < opening);
    const longer = this.#movers.filter(({ price, opening }) => price > opening);
    this.#lists.replaceChildren(this.#list("Shorteners", "in", shorter), this.#list("Drifters", "out", longer));
  }

  #list(title, move, movers) {
    const rows = movers.slice(0, ROWS).map((mover) => this.#row(mover));
    const none = element("p", { class: "hint" }, "None.");
    const list = rows.length > 0 ? element("ol", {}, ...rows) : none;
    return element("section", { "data-move": move }, element("h2", {}, title), list);
  }

  #row({ venue_code, race_number, horse_no, horse_name, number, opening, price, probability_move }) {
    const race = this.#board.store.find(this.#date, venue_code, race_number);
    const points = (100 * Math.abs(probability_move)).toFixed(1);
    return element(
      "li",
      {},
      element("span", { class: "who" }, `${number || ""} ${horse_name || horse_no}`.trim()),
      element("b", {}, fromTo(formats.price(opening), formats.price(price))),
      element(
        "a",
        { href: address.ofRace(this.#date, venue_code, race_number) },
        race?.title ?? `${venue_code} ${race_number}`,
      ),
      element("span", { class: "points" }, `${probability_move > 0 ? "+" : "−"}${points} points`),
    );
  }
}
