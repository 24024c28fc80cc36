// A strip of the next races of a day, which stays in view, and the latest news.

import * as address from "./address.js";
import { element, setText } from "./dom.js";
import * as formats from "./formats.js";

const RACES = 5;
const NEWS = 6;
/** A race that is not off by then is not next any more: its feeder is gone. */
const DUE_MS_MAX = 12 * 3_600_000;

export class NextRaces {
  #board;
  #list = element("ul");
  #links = [];

  constructor(board) {
    this.#board = board;
    this.element = element("nav", { class: "next", "aria-label": "Next races" }, this.#list);
  }

  tick() {
    const now = this.#board.now();
    const races = [...this.#board.store.races.values()].filter(
      (race) => race.date === this.#board.date && !race.isOver && Date.parse(race.offTime) > now - DUE_MS_MAX,
    );
    races.sort((a, b) => Date.parse(a.offTime) - Date.parse(b.offTime) || a.key.localeCompare(b.key));
    const next = races.slice(0, RACES);
    this.element.hidden = next.length === 0;
    const keys = next.map(({ key }) => key).join();
    if (this.#list.dataset.keys !== keys) {
      this.#list.dataset.keys = keys;
      this.#links = next.map((race) => ({ race, time: element("span") }));
      this.#list.replaceChildren(
        ...this.#links.map(({ race, time }) => {
          const href = address.ofRace(race.date, race.venueCode, race.number);
          return element("li", {}, element("a", { href }, element("b", {}, race.label), " ", time));
        }),
      );
    }
    for (const { race, time } of this.#links) {
      const left = Date.parse(race.offTime) - now;
      const word =
        race.status === "open" || race.status === "scheduled" ? "" : formats.statusWord(race.status).toLowerCase();
      setText(time, word || (left >= 0 ? formats.duration(left) : "due"));
    }
  }
}

export class News {
  #board;
  #list = element("ol");

  constructor(board) {
    this.#board = board;
    this.element = element(
      "aside",
      { class: "news", "aria-labelledby": "news-title", hidden: true },
      element("h2", { id: "news-title" }, board.replay ? "In this replay" : "Since you opened the page"),
      this.#list,
    );
  }

  paint() {
    const news = this.#board.store.news.slice(0, NEWS);
    this.element.hidden = news.length === 0;
    this.#list.replaceChildren(
      ...news.map(({ race, text, seq, at }) =>
        element(
          "li",
          { title: `seq ${seq}` },
          at && element("time", { datetime: at }, formats.clock(at, { seconds: true })),
          " ",
          element("a", { href: address.ofRace(race.date, race.venueCode, race.number) }, race.label),
          ` ${text}`,
        ),
      ),
    );
  }
}
