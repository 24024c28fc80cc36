// A horse: its profile and its form.

import * as address from "./address.js";
import { element, wide } from "./dom.js";
import * as formats from "./formats.js";

/** Rows of form that are asked for at a time. */
const FORM_ROWS = 50;

export class HorseView {
  #board;
  #profile;
  #body = element("tbody");
  #more = element("button", { type: "button", class: "quiet" }, "Earlier races");

  /** Reads a horse. */
  static async load(board, horse) {
    const path = `horses/${encodeURIComponent(horse)}`;
    const [{ document: profile }, { document: form }] = await Promise.all([
      board.api.get(path),
      board.api.get(`${path}/form?limit=${FORM_ROWS}`),
    ]);
    return new HorseView(board, profile, form);
  }

  constructor(board, profile, form) {
    this.#board = board;
    this.#profile = profile;
    this.title = profile.horse_name || profile.horse_no;
    this.#more.addEventListener("click", () => this.#next());
    const columns = [
      ["Date", "date extra"],
      ["Race", "horse"],
      ["Place", "place-word"],
      ["Distance", "number extra"],
      ["Going", "extra"],
      ["Jockey", "extra"],
      ["Time", "number"],
      ["Win", "number"],
    ];
    this.element = element(
      "article",
      { class: "horse-view" },
      element("h1", { tabindex: "-1" }, this.title),
      element("p", { class: "lead" }, describe(profile)),
      element(
        "dl",
        { class: "profile" },
        ...figures(profile).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
      ),
      element("h2", {}, "Form"),
      wide(
        `Form of ${this.title}`,
        element(
          "table",
          { class: "runners form" },
          element("caption", { class: "unseen" }, `Form of ${this.title}, newest first`),
          element(
            "thead",
            {},
            element("tr", {}, ...columns.map(([name, kind]) => element("th", { scope: "col", class: kind }, name))),
          ),
          this.#body,
        ),
      ),
      this.#more,
    );
    this.#add(form);
  }

  #add({ form, unplaced, next }) {
    const rows = [...form, ...unplaced].sort((a, b) => order(b) - order(a) || b.date.localeCompare(a.date));
    this.#body.append(...rows.map((row) => formRow(row)));
    if (this.#body.children.length === 0) {
      this.#body.append(element("tr", {}, element("td", { colspan: "8" }, "No race is known.")));
    }
    this.#more.hidden = next === "";
    this.#more.dataset.next = next.replace(/^\/?api\/v1\//, "");
  }

  async #next() {
    this.#more.disabled = true;
    try {
      const { document } = await this.#board.api.get(this.#more.dataset.next);
      this.#add(document);
    } catch (error) {
      this.#board.report(error);
    }
    this.#more.disabled = false;
  }

  changed() {}
  tick() {}
  close() {}
}

const order = ({ date, race_number }) => Date.parse(date) + race_number;

function formRow(row) {
  const place = row.position ? `${row.position}` : formats.outcome(row.outcome);
  const distance = formats.distance(row.distance);
  const race = `${row.venue_code} ${row.race_number}`;
  return element(
    "tr",
    {},
    element("td", { class: "date extra" }, row.date),
    element(
      "th",
      { scope: "row", class: "horse" },
      element("a", { href: address.ofRace(row.date, row.venue_code, row.race_number) }, race),
      element("span", { class: "people" }, row.race_name),
      element("span", { class: "small" }, [row.date, distance, row.going, row.jockey].filter(Boolean).join(" · ")),
    ),
    element("td", { class: "place-word" }, place),
    element("td", { class: "number extra" }, distance),
    element("td", { class: "extra" }, row.going),
    element("td", { class: "extra" }, row.jockey),
    element("td", { class: "number" }, row.finish_time),
    element("td", { class: "number" }, row.win_odds ? formats.price(row.win_odds) : ""),
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
    ["Trainer", trainer || "–"],
    ["Owner", owner || "–"],
    ["Starts", formats.whole(starts)],
    ["Wins", formats.whole(wins)],
    ["Second and third places", formats.whole(places)],
    ["Stakes", won.join(" + ") || "–"],
  ];
}
