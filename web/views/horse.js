// A horse: its profile, its next race with the price of now, its form, and its races against another horse.

import * as address from "../board/address.js";
import { arrange, element, wide } from "../board/dom.js";
import { star } from "../board/following.js";
import * as formats from "../board/formats.js";
import { person } from "../board/people.js";
import { AheadLine, racesOf } from "./ahead.js";
import { FORM_ROWS, FormTable, placeOf, raceLink } from "./formtable.js";
import { SearchField } from "./searchfield.js";

/** Reads a horse, and another one that it is compared with. */
export async function load(board, { horse, against }) {
  const path = `horses/${encodeURIComponent(horse)}`;
  const [{ document: profile }, { document: form }, pair] = await Promise.all([
    board.api.get(path),
    board.api.get(`${path}/form?limit=${FORM_ROWS}`),
    against && !board.replay ? readPair(board, horse, against) : null,
    board.loadAhead(),
  ]);
  return new HorseView(board, profile, form, pair);
}

/** The races of two horses, and the name of the other one. */
async function readPair(board, horse, other) {
  const [horsePath, otherPath] = [horse, other].map(encodeURIComponent);
  const [{ document }, { document: profile }] = await Promise.all([
    board.api.get(`horses/${horsePath}/against/${otherPath}`),
    board.api.get(`horses/${otherPath}`),
  ]);
  return { ...document, name: profile.horse_name || other };
}

class HorseView {
  #board;
  #profile;
  #form;
  #next = element("div");
  /** The lines about the races ahead, by race and version: another rider makes another line. */
  #lines = new Map();
  #pair = element("div");

  constructor(board, profile, form, pair) {
    this.#board = board;
    this.#profile = profile;
    this.title = profile.horse_name || profile.horse_no;
    const rowsOf = ({ form, unplaced }) =>
      [...form, ...unplaced].sort((a, b) => order(b) - order(a) || b.date.localeCompare(a.date));
    this.#form = new FormTable(board, `Form of ${this.title}`, "horses", rowsOf);
    this.#form.add(form);
    const details = figures(profile).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
    this.element = element(
      "article",
      { class: "horse-view" },
      element(
        "div",
        { class: "titled" },
        element("h1", { tabindex: "-1" }, this.title),
        star("horses", profile.horse_no, this.title),
      ),
      element("p", { class: "lead" }, describe(profile)),
      element("h2", {}, "Next race"),
      this.#next,
      element("dl", { class: "profile" }, ...details),
      element("h2", {}, "Form"),
      this.#form.element,
      !board.replay && this.#against(),
    );
    this.#compare(pair);
    this.paint();
  }

  #against() {
    const input = element("input", {
      type: "search",
      class: "search",
      id: "other-horse",
      autocomplete: "off",
      spellcheck: "false",
    });
    const field = element("div", { class: "field" }, input);
    const choose = ({ key }) => this.#choose(key);
    new SearchField(this.#board, input, { name: "Horses", kinds: ["horses"], choose });
    return element(
      "section",
      { class: "against" },
      element("h2", {}, "Against another horse"),
      element("label", { for: "other-horse" }, "Name of the other horse"),
      field,
      this.#pair,
    );
  }

  async #choose(other) {
    const { horse_no } = this.#profile;
    try {
      this.#compare(await readPair(this.#board, horse_no, other));
      history.replaceState(history.state, "", address.ofPair(horse_no, other));
    } catch (error) {
      if (error.status === 401) return this.#board.report(error);
      this.#pair.replaceChildren(element("p", { role: "status" }, `${error.message}.`));
    }
  }

  #compare(pair) {
    if (!pair) return;
    const { races, ahead, behind, name, other_horse_no } = pair;
    const times = (count) => (count === 1 ? "once" : `${count} times`);
    const other = element("a", { href: address.ofHorse(other_horse_no) }, name);
    const text = `: ${this.title} was ahead ${times(ahead)}, behind ${times(behind)}.`;
    const met = races.length === 0 ? [other, " has never run in a race with it."] : ["Against ", other, text];
    const table = element(
      "table",
      { class: "runners pair" },
      element("caption", { class: "unseen" }, `Races of ${this.title} and ${name}`),
      element(
        "thead",
        {},
        element("tr", {}, ...["Date", "Race", this.title, name].map((head) => element("th", { scope: "col" }, head))),
      ),
      element("tbody", {}, ...races.map(pairRow)),
    );
    const content = [element("p", { role: "status" }, ...met)];
    if (races.length > 0) content.push(wide(`Races of ${this.title} and ${name}`, table));
    this.#pair.replaceChildren(...content);
  }

  paint() {
    const races = racesOf(this.#board, this.#profile.horse_no);
    const line = (race) => {
      const runner = race.runners.get(this.#profile.horse_no);
      return this.#lines.get(idOf(race)) ?? new AheadLine(this.#board, race, runner);
    };
    this.#lines = new Map(races.map((race) => [idOf(race), line(race)]));
    const lines = [...this.#lines.values()];
    for (const line of lines) line.paint();
    const none = this.#next.querySelector(".none") ?? element("p", { class: "none soft" }, "It is on no card now.");
    arrange(this.#next, ...(lines.length > 0 ? lines.map(({ element }) => element) : [none]));
  }

  changed(race) {
    if (race.runners.has(this.#profile.horse_no)) this.#board.painter.mark(this);
  }

  tick() {
    for (const line of this.#lines.values()) line.tick(this.#board.now());
  }

  close() {
    this.#board.painter.drop(this);
  }
}

const idOf = ({ key, version }) => `${key} ${version}`;
const order = ({ date, race_number }) => Date.parse(date) + race_number;

function pairRow(row) {
  return element(
    "tr",
    {},
    element("td", {}, row.date),
    element("th", { scope: "row", class: "horse" }, raceLink(row), element("span", { class: "people" }, row.race_name)),
    element("td", {}, placeOf(row)),
    element("td", {}, placeOf(row.other)),
  );
}

/** A sentence: `Bay gelding, 6 years, AUS`. */
function describe({ colour, sex, age, country_of_origin, registered }) {
  const known = [[colour, sex.toLowerCase()].filter(Boolean).join(" "), age > 0 && `${age} years`, country_of_origin];
  const text = known.filter(Boolean).join(", ");
  return registered ? text : [text, "known from cards and results alone"].filter(Boolean).join(", ");
}

function figures(profile) {
  const { horse_no, trainer, owner, starts, wins, places, stakes } = profile;
  const won = stakes.filter(({ total }) => total > 0).map(({ currency, total }) => formats.money(total, currency));
  return [
    ["Horse number", horse_no],
    ["Trainer", trainer ? person("trainers", trainer) : "–"],
    ["Owner", owner ? person("owners", owner) : "–"],
    ["Starts", formats.whole(starts)],
    ["Wins", formats.whole(wins)],
    ["Second and third places", formats.whole(places)],
    ["Stakes", won.join(" + ") || "–"],
  ];
}
