// A strip of the next races of a day, which stays in view, and the latest news.

import * as address from "./address.js";
import { arrange, element, setText } from "./dom.js";
import * as formats from "./formats.js";

const RACES = 5;
const NEWS = 6;
/** A race that is not off by then is not next any more: its feeder is gone. */
const DUE_MS_MAX = 12 * 3_600_000;
/** Nobody counts the seconds to a race that is later. */
const COUNTDOWN_MS_MAX = 12 * 3_600_000;

/** The races of a day that are still to be run, in the order of their off times. */
export function nextRaces({ store, date }, now) {
  const races = [...store.races.values()].filter(
    (race) => race.date === date && !race.isOver && Date.parse(race.offTime) > now - DUE_MS_MAX,
  );
  return races.sort((a, b) => Date.parse(a.offTime) - Date.parse(b.offTime) || a.key.localeCompare(b.key));
}

/** The time to the off of a race, or its state once it is not open any more. */
export function stateOf(race, now) {
  if (!race.isOpen) return race.resultWord || formats.statusWord(race.status);
  const left = Date.parse(race.offTime) - now;
  if (Number.isNaN(left) || left > COUNTDOWN_MS_MAX) return "";
  return left >= 0 ? formats.duration(left) : "Due";
}

/** The link to a race of the strip. */
class NextRace {
  #time = element("span");
  #title = element("b");

  constructor(race) {
    this.race = race;
    const href = address.ofRace(race.date, race.venueCode, race.number);
    this.element = element("li", {}, element("a", { href, title: race.label }, this.#title, " ", this.#time));
  }

  tick(now) {
    setText(this.#title, this.race.title);
    setText(this.#time, stateOf(this.race, now).toLowerCase());
  }
}

export class NextRaces {
  #board;
  #list = element("ul");
  /** By the key of the race: the links of those that stay are kept. */
  #links = new Map();

  constructor(board) {
    this.#board = board;
    this.element = element("nav", { class: "next", "aria-label": "Next races" }, this.#list);
  }

  tick() {
    const now = this.#board.now();
    const next = nextRaces(this.#board, now).slice(0, RACES);
    this.element.hidden = next.length === 0;
    if (next.map(({ key }) => key).join() !== [...this.#links.keys()].join()) {
      const link = (race) => this.#links.get(race.key) ?? new NextRace(race);
      this.#links = new Map(next.map((race) => [race.key, link(race)]));
      arrange(this.#list, ...[...this.#links.values()].map(({ element }) => element));
    }
    for (const link of this.#links.values()) link.tick(now);
  }
}

export class News {
  #board;
  #list = element("ol");
  #none = element("p", { class: "hint" }, "Nothing yet.");

  constructor(board) {
    this.#board = board;
    this.element = element(
      "aside",
      { class: "news none", "aria-labelledby": "news-title", hidden: true },
      element("h2", { id: "news-title" }, board.replay ? "In this replay" : "Since you opened the page"),
      this.#none,
      this.#list,
    );
  }

  paint() {
    const news = this.#board.store.news.slice(0, NEWS);
    this.#none.hidden = news.length > 0;
    this.element.classList.toggle("none", news.length === 0);
    const items = news.map(({ race, text, seq, at }) =>
      element(
        "li",
        { title: `${race.label}, seq ${seq}` },
        at && element("time", { datetime: at }, formats.clock(at, { seconds: true, zone: race.zone })),
        " ",
        element("a", { href: address.ofRace(race.date, race.venueCode, race.number) }, race.title),
        ` ${text}`,
      ),
    );
    arrange(this.#list, ...items);
  }
}
