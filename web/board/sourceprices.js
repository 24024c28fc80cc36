// The win prices of a race from each of its sources, side by side. They are read once the visitor opens them: those of
// an open race from a channel of their own, those of any other from the API.

import { element, setText, wide } from "./dom.js";
import * as formats from "./formats.js";

export class SourcePrices {
  #race;
  #board;
  #channel = null;
  /** By source: its prices by horse. */
  #books = new Map();
  #note = element("p", { class: "market" });
  #table = element("table", { class: "runners" });

  constructor(race, board) {
    this.#race = race;
    this.#board = board;
    this.element = element(
      "details",
      { class: "by-source" },
      element("summary", {}, "Prices from each source"),
      this.#note,
      wide(`Prices of ${race.title} from each source`, this.#table),
    );
    this.element.addEventListener("toggle", () => (this.element.open ? this.#open() : this.close()));
  }

  close() {
    this.#channel?.close();
    this.#channel = null;
    this.#board.painter.drop(this);
  }

  async #open() {
    this.#books.clear();
    this.#board.painter.mark(this);
    const { replay, refused } = this.#board;
    if (this.#race.isOpen && !refused && !replay) return this.#follow();
    try {
      await this.#read();
      setText(this.#note, this.#books.size > 0 ? "The latest prices of each." : "No price is known.");
    } catch (error) {
      setText(this.#note, error.message);
    }
    this.#board.painter.mark(this);
  }

  async #read() {
    const { date, number, venueCode } = this.#race;
    const path = `odds/${date}/${number}`;
    const venue = `venue=${encodeURIComponent(venueCode)}`;
    const { document } = await this.#board.api.get(`${path}/sources?${venue}`);
    for (const { source } of document.sources) {
      const book = await this.#board.api.get(`${path}?${venue}&source=${encodeURIComponent(source)}`);
      this.#apply(source, book.document.runners, true);
    }
  }

  #follow() {
    this.#channel = this.#board.quotesOf(this.#race);
    this.#channel.addEventListener("message", ({ detail: message }) => {
      if (message.event === "welcome" && !message.recovered) this.#books.clear();
      if (message.event === "quote") this.#apply(message.source, message.runners, message.snapshot);
      this.#board.painter.mark(this);
    });
    this.#channel.addEventListener("state", ({ detail: { phase, reason } }) => {
      const known = this.#books.size > 0 ? "Each price as its source quotes it." : "No price is known.";
      setText(this.#note, { live: known, connecting: "Prices are being read." }[phase] ?? formats.capitalized(reason));
    });
    this.#channel.connect();
  }

  /** Takes the quoted prices of a source, or all. */
  #apply(source, runners, isAll) {
    if (isAll || !this.#books.has(source)) this.#books.set(source, new Map());
    for (const runner of runners) this.#books.get(source).set(runner.horse_no, runner);
  }

  paint() {
    const sources = [...this.#books.keys()].sort();
    const column = (kind) => (name) => element("th", { scope: "col", class: kind }, name);
    const head = [column("number")("No."), column("horse")("Horse"), ...sources.map(column("number"))];
    const rows = this.#race.rows.filter(({ isWithdrawn }) => !isWithdrawn);
    this.#table.replaceChildren(
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...rows.map((runner) => this.#row(runner, sources))),
    );
    this.#table.hidden = sources.length === 0;
  }

  #row({ horse_no, number, horse_name }, sources) {
    const prices = sources.map((source) => this.#books.get(source).get(horse_no)?.win ?? null);
    const best = Math.max(...prices);
    const cell = (win) =>
      element("td", { class: "number" }, win !== null && element(win === best ? "b" : "span", {}, formats.price(win)));
    return element(
      "tr",
      { "data-horse": horse_no },
      element("td", { class: "number no" }, `${number || ""}`),
      element("th", { scope: "row", class: "horse" }, horse_name),
      ...prices.map(cell),
    );
  }
}
