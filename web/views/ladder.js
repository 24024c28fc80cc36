// Every price of a runner, newest first.

import { element, setText, wide } from "../board/dom.js";
import * as formats from "../board/formats.js";

/** Rows that are written: more are in the history of the API. */
const ROWS_MAX = 100;

export class PriceLadder {
  #race;
  #choice = element("select", { "aria-label": "Runner" });
  #body = element("tbody");
  #note = element("p", { class: "hint" });
  /** The runners of the choice, and what the rows are of. */
  #offered = "";
  #shown = "";

  constructor(race) {
    this.#race = race;
    this.#choice.addEventListener("change", () => this.paint());
    const head = [
      ["Time", ""],
      ["Win", "number"],
      ["Change", "number"],
      ["Source", ""],
    ].map(([name, kind]) => element("th", { scope: "col", class: kind || false }, name));
    const table = element(
      "table",
      { class: "runners" },
      element("caption", { class: "unseen" }, "The prices of a runner, newest first"),
      element("thead", {}, element("tr", {}, ...head)),
      this.#body,
    );
    this.element = element("div", {}, this.#choice, wide("Price by price", table), this.#note);
    this.paint();
  }

  /** Shows the prices of another source. */
  show(race) {
    this.#race = race;
    this.rewrite();
  }

  /** Writes the prices again. */
  rewrite() {
    this.#shown = "";
    this.paint();
  }

  paint() {
    const { history } = this.#race;
    if (!history?.isComplete) return;
    this.#offer();
    const series = history.series.get(this.#choice.value);
    const shown = `${this.#choice.value} ${series?.seqs.at(-1)}`;
    if (shown === this.#shown) return;
    this.#shown = shown;
    const prices = series?.prices ?? [];
    const rows = [];
    for (let index = prices.length - 1; index >= 0 && rows.length < ROWS_MAX; index--) {
      rows.push(this.#row(series, index));
    }
    this.#body.replaceChildren(...rows);
    const newest = prices.length > ROWS_MAX ? `The newest ${ROWS_MAX} of ${prices.length} prices. ` : "";
    setText(this.#note, series?.isThinned ? `${newest}Older ones are thinned out.` : newest);
  }

  /** Offers the runners that have prices. The favourite is chosen first. */
  #offer() {
    const { rows, history, favourites } = this.#race;
    const runners = rows.filter(({ horse_no }) => history.series.has(horse_no));
    const offered = runners.map(({ horse_no }) => horse_no).join();
    if (offered === this.#offered) return;
    this.#offered = offered;
    const chosen = this.#choice.value || [...favourites][0];
    const option = (runner) =>
      element("option", { value: runner.horse_no, selected: runner.horse_no === chosen }, formats.runner(runner));
    this.#choice.replaceChildren(...runners.map(option));
  }

  #row(series, index) {
    const { history, zone, date } = this.#race;
    const [price, before] = [series.prices[index], series.prices[index - 1]];
    const isChange = price > 0 && before > 0;
    const time = new Date(history.times(series)[index]).toISOString();
    const move = isChange ? (price < before ? "in" : "out") : "none";
    return element(
      "tr",
      { "data-move": move, title: `seq ${series.seqs[index]}` },
      element("td", {}, formats.moment(time, zone, date)),
      element("td", { class: "number" }, element("b", {}, formats.price(price))),
      element("td", { class: "number share" }, isChange ? formats.change(before, price) : ""),
      element("td", {}, history.source),
    );
  }
}
