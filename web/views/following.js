// What the visitor follows, with the next race of each.

import * as address from "../board/address.js";
import { arrange, element } from "../board/dom.js";
import * as following from "../board/following.js";
import { keyOf } from "../board/people.js";
import { AheadLine, racesAhead } from "./ahead.js";

const WORDS = { horses: "Horse", jockeys: "Jockey", trainers: "Trainer", owners: "Owner", venues: "Venue" };

export async function load(board) {
  if (following.all().length > 0) await board.loadAhead();
  return new FollowingView(board);
}

/** Of what is followed: its name, and its next race. */
class Followed {
  #board;
  #one;
  #line = null;
  #lineOf = "";
  #next = element("div");
  #more = element("span", { class: "soft" });

  constructor(board, one) {
    this.#board = board;
    this.#one = one;
    const { kind, key, name } = one;
    const href = kind === "horses" ? address.ofHorse(key) : address.ofPerson(kind, key);
    this.element = element(
      "li",
      {},
      element(
        "p",
        { class: "who" },
        following.star(kind, key, name),
        element("a", { href }, name),
        element("span", { class: "soft" }, WORDS[kind]),
        this.#more,
      ),
      this.#next,
    );
  }

  /** When its next race is off; later than all others without one. */
  get offAt() {
    return this.#line ? this.#line.offAt : Infinity;
  }

  paint() {
    const rides = racesAhead(this.#board, (race) => runnersOf(this.#one, race).length > 0).flatMap((race) =>
      this.#one.kind === "venues" ? [{ race }] : runnersOf(this.#one, race).map((runner) => ({ race, runner })),
    );
    const [first] = rides;
    const id = first ? `${first.race.key} ${first.race.version} ${first.runner?.horse_no}` : "";
    if (id !== this.#lineOf || this.#next.childElementCount === 0) {
      this.#lineOf = id;
      this.#line = first ? new AheadLine(this.#board, first.race, first.runner, this.#one.kind !== "horses") : null;
      arrange(this.#next, this.#line?.element ?? element("p", { class: "soft" }, "No race is declared."));
    }
    this.#line?.paint();
    const others = rides.length - 1;
    this.#more.textContent = others > 0 ? `and ${others} more ${others === 1 ? "race" : "races"}` : "";
  }

  tick(now) {
    this.#line?.tick(now);
  }
}

/** The runners of a race that are followed by one of them: those of a person, a horse, or, for a venue, all. */
function runnersOf({ kind, key, name }, race) {
  const is = {
    horses: ({ horse_no }) => horse_no === key,
    jockeys: ({ jockey, jockey_id }) => isPerson(race, jockey, jockey_id, key, name),
    trainers: ({ trainer, trainer_id }) => isPerson(race, trainer, trainer_id, key, name),
    owners: ({ owner }) => owner === name,
    venues: () => race.venueCode === key,
  };
  return [...race.runners.values()].filter((runner) => !runner.isWithdrawn && is[kind](runner));
}

/** Whether a person of a card is one of a key: by the identifier, where there is one. */
function isPerson(race, name, id, key, followedName) {
  return id ? keyOf(race, id) === key : name === followedName;
}

class FollowingView {
  title = "Following";
  #board;
  #list = element("ul", { class: "following" });
  #followed;

  constructor(board) {
    this.#board = board;
    this.#followed = following.all().map((one) => new Followed(board, one));
    this.element = element(
      "section",
      { class: "following-view" },
      element("h1", { tabindex: "-1" }, this.title),
      element(
        "p",
        { class: "lead" },
        this.#followed.length > 0
          ? "The next race of each. While a board is open, the news say when a horse's price moves by a tenth or its race is off."
          : "You follow nothing yet. The star beside a horse, a jockey, a trainer, an owner or a venue adds it here. This browser keeps the list.",
      ),
      this.#list,
    );
    this.paint();
  }

  paint() {
    for (const one of this.#followed) one.paint();
    const order = this.#followed.toSorted((a, b) => a.offAt - b.offAt || 0);
    arrange(this.#list, ...order.map(({ element }) => element));
  }

  changed() {
    this.#board.painter.mark(this);
  }

  tick() {
    for (const one of this.#followed) one.tick(this.#board.now());
  }

  close() {
    this.#board.painter.drop(this);
  }
}
