// The races that are still to be run, with those who run in them.

import * as address from "../board/address.js";
import { element, setText } from "../board/dom.js";
import * as formats from "../board/formats.js";

/** A race that is not off by then is not next any more: its feeder is gone. */
const LATE_MS_MAX = 12 * 3_600_000;

/** The time to the off in words, or the state of a race. */
function countdownOf(race, now) {
  if (!race.isOpen) return formats.statusWord(race.status).toLowerCase();
  return race.offTime ? formats.countdown(Date.parse(race.offTime) - now) : "";
}

/** When a race is off, or, where that is not known, the end of its day. */
const offAt = ({ offTime, date }) => Date.parse(offTime || `${date}T23:59:59Z`);

/** The races ahead of those that `runs` accepts, the next one first. */
export function racesAhead(board, runs = () => true) {
  const since = board.now() - LATE_MS_MAX;
  const races = [...board.store.races.values()].filter((race) => !race.isOver && offAt(race) > since && runs(race));
  return races.sort((a, b) => offAt(a) - offAt(b));
}

/** The races ahead of a horse. */
export function racesOf(board, horse) {
  return racesAhead(board, ({ runners }) => runners.has(horse) && !runners.get(horse).isWithdrawn);
}

/** A line about a race ahead and a runner in it, with the price as it moves. */
export class AheadLine {
  #race;
  #horse;
  #when = element("span", { class: "soft" });
  #price = element("b", { class: "odds" });
  #move = element("span", { class: "soft" });

  /** Without a `runner`, it is about the race alone. `isNamed` has the horse named. */
  constructor(board, race, runner, isNamed = false) {
    this.#race = race;
    this.offAt = offAt(race);
    this.#horse = runner?.horse_no;
    const day = race.date === board.today ? "" : `${formats.day(race.date)}, `;
    const horse = runner && isNamed && element("a", { href: address.ofHorse(runner.horse_no) }, runner.horse_name);
    const runs = runner && [runner.number > 0 && `number ${runner.number}`, !isNamed && runner.jockey];
    this.element = element(
      "p",
      { class: "ahead" },
      element(
        "a",
        { href: address.ofRace(race.date, race.venueCode, race.number) },
        `${day}${race.title} ${race.name}`.trim(),
      ),
      this.#when,
      horse,
      runs && element("span", { class: "soft" }, runs.filter(Boolean).join(", ")),
      this.#price,
      this.#move,
    );
    this.tick(board.now());
    this.paint();
  }

  tick(now) {
    setText(this.#when, countdownOf(this.#race, now));
  }

  paint() {
    const { win = null, opening = null } = (this.#horse && this.#race.prices.get(this.#horse)) || {};
    setText(this.#price, win === null ? "" : formats.price(win));
    setText(this.#move, win === null || opening === null || win === opening ? "" : formats.change(opening, win));
  }
}
