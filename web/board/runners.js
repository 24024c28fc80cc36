// The table of a race's runners, with their prices as they move.

import * as address from "./address.js";
import { arrange, element, fromTo, setAttribute, setText, svg, wide } from "./dom.js";
import { star } from "./following.js";
import * as formats from "./formats.js";
import { isLong } from "./odds.js";
import { people } from "./people.js";
import { logScale, priceRange, stepPath, timeScale } from "./steps.js";

/** The size of a price line. */
const LINE = { width: 84, height: 22 };
/** Price lines follow the prices at this distance: they are for the trend. */
const LINE_INTERVAL_MS = 1000;
/** A cell is emphasized at most every so often: less than three times a second. */
const EMPHASIS_INTERVAL_MS = 400;
/** In steps: the browser paints the page again for each change of a colour. */
const EMPHASIS = { duration: 700, easing: "steps(7)" };
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

/** The columns; a number has a button that sorts by it. */
const COLUMNS = [
  ["No.", "number no"],
  ["Horse", "horse"],
  ["Win", "win number"],
  ["Move", "move"],
  ["Since opening", "line"],
  ["Opening", "opening number"],
  ["Chance", "chance number"],
  ["Place", "place number"],
  ["Draw", "draw number"],
  ["Weight", "weight number"],
];

/** A row: its cells, and what they show. */
class Row {
  #emphasizedAt = -Infinity;

  constructor(race, runner) {
    this.horse = runner.horse_no;
    const cell = (kind, ...children) => element("td", { class: kind }, ...children);
    this.win = cell("win number");
    this.move = cell("move");
    this.place = cell("place number");
    this.opening = cell("opening number");
    this.chance = cell("chance number");
    this.change = element("span", { class: "change" });
    this.path = svg("path", { d: "" });
    this.favourite = element(
      "abbr",
      { class: "favourite", title: "favourite: the lowest win price", hidden: true },
      "fav",
    );
    const name = element("a", { href: address.ofHorse(runner.horse_no) }, runner.horse_name);
    const weight = runner.weight > 0 ? `${runner.weight}\u00a0lb` : "";
    const draw = runner.draw > 0 ? `${runner.draw}` : "";
    const small = [draw && `draw\u00a0${draw}`, weight].filter(Boolean).join(" · ");
    this.note = element("span", { class: "note" }, note(runner));
    this.element = element(
      "tr",
      { class: runner.isWithdrawn ? "withdrawn" : false, "data-horse": runner.horse_no },
      cell("number no", `${runner.number || ""}`, star("horses", runner.horse_no, runner.horse_name)),
      element(
        "th",
        { scope: "row", class: "horse" },
        runner.isWithdrawn ? element("s", {}, name) : name,
        this.favourite,
        element("span", { class: "people" }, ...people(race, runner)),
        element("span", { class: "small" }, small),
        this.note,
      ),
      this.win,
      this.move,
      cell(
        "line",
        svg(
          "svg",
          { viewBox: `0 0 ${LINE.width} ${LINE.height}`, "aria-hidden": "true", focusable: "false" },
          this.path,
        ),
        this.change,
      ),
      this.opening,
      this.chance,
      this.place,
      cell("draw number", draw),
      cell("weight number", weight),
    );
  }

  /** Writes the prices of the runner. */
  paint(race, isFavourite, isEmphasized) {
    const prices = race.prices.get(this.horse);
    const isChanged = setText(this.win, winText(prices));
    this.win.classList.toggle("word", prices?.win === null);
    setText(this.place, prices?.place ? formats.price(prices.place) : "");
    setText(this.opening, prices?.opening ? formats.price(prices.opening) : "");
    const { win = null, opening = null, previous = null } = prices ?? {};
    setText(this.chance, win === null ? "" : formats.percent(100 / win));
    setText(this.change, win === null || opening === null ? "" : formats.change(opening, win));
    const move = direction(previous, win);
    setText(this.move, MOVES[move]);
    setAttribute(this.element, "data-move", move);
    setAttribute(this.element, "data-since", direction(opening, win));
    if (this.favourite.hidden === isFavourite) this.favourite.hidden = !isFavourite;
    if (isChanged && isEmphasized) this.#emphasize(move);
  }

  /** Emphasizes a change; without motion, the arrow is enough. */
  #emphasize(move) {
    const now = performance.now();
    if (reducedMotion.matches || now - this.#emphasizedAt < EMPHASIS_INTERVAL_MS) return;
    this.#emphasizedAt = now;
    const color = `var(--${move === "out" ? "out" : "in"}-wash)`;
    this.win.animate([{ backgroundColor: color }, { backgroundColor: color, offset: 0.3 }, {}], EMPHASIS);
  }

  /** Draws the prices since the market opened. */
  draw(history, scale, end) {
    const series = history.series.get(this.horse);
    if (!series) return;
    const times = history.times(series);
    const x = timeScale(history.span.first, end, 1, LINE.width - 1);
    setAttribute(this.path, "d", stepPath(times, series.prices, x, scale, end));
  }
}

/** The words beside the arrows, which are of the style: not every font has them. */
const MOVES = { in: "in", out: "out", none: "" };

/** The direction from a win price to a later one. */
function direction(before, win) {
  if (win === null || before === null || win === before) return "none";
  return win < before ? "in" : "out";
}

/** The win price, or why there is none. */
function winText(prices) {
  if (!prices) return "";
  if (prices.win !== null) return formats.price(prices.win);
  return { scratched: "", suspended: "Suspended", no_market: "No price" }[prices.state] ?? "–";
}

function note(runner) {
  if (!runner.isWithdrawn) return "";
  return runner.reason ? `Withdrawn: ${runner.reason}` : "Withdrawn";
}

export class RunnersTable {
  #rows = [];
  #version = -1;
  #drawnAt = -Infinity;
  #drawnSeq = -1;
  #body = element("tbody");
  #caption = element("caption", { class: "unseen" });
  #heads = COLUMNS.map(([name, kind]) => element("th", { scope: "col", class: kind }, name));
  #table = element(
    "table",
    { class: "runners live" },
    this.#caption,
    element("thead", {}, element("tr", {}, ...this.#heads)),
    this.#body,
  );
  #clock;
  /** The horses in the order of their prices when the visitor asked for it; `null` for that of the numbers. */
  #order = null;

  /** `clock.now()` is the time of the service. */
  constructor(race, clock) {
    this.race = race;
    this.#clock = clock;
    this.#body.addEventListener("pointerover", ({ target }) => this.#explain(target));
    this.#addSort("no", "Sort by number", () => null);
    this.#addSort("win", "Sort by the prices of now", () => this.race.byPrice);
    this.#sort(null);
    this.element = wide(`Runners of ${race.title}`, this.#table);
  }

  /** Shows the prices of another source. */
  show(race) {
    this.race = race;
    this.#version = -1;
  }

  /** Writes where a price is from, once it is pointed at: hardly any is. */
  #explain(target) {
    const { board } = this.race;
    const cell = target.closest("td:is(.win, .place)");
    if (board && cell) setAttribute(cell, "title", `seq ${board.seq}, recorded at ${board.recorded_at}`);
  }

  /** Makes the head of a column a button. */
  #addSort(column, title, order) {
    const head = this.#heads.find(({ classList }) => classList.contains(column));
    const button = element("button", { type: "button", class: "sort", title }, head.textContent);
    button.addEventListener("click", () => this.#sort(order()));
    head.replaceChildren(button);
  }

  /** Orders the rows once: they do not move with the prices. */
  #sort(order) {
    this.#order = order;
    for (const head of this.#heads) {
      const isOrder = head.classList.contains(order === null ? "no" : "win");
      setAttribute(head, "aria-sort", isOrder ? "ascending" : null);
    }
    const { zone } = this.race;
    const by = order === null ? "number" : `the prices of ${formats.clock(this.#clock.now(), { seconds: true, zone })}`;
    setText(this.#caption, `Runners of ${this.race.title}, by ${by}`);
    this.#arrange();
  }

  #arrange() {
    const order = this.#order ?? [];
    // A runner that came later is at the end.
    const place = ({ horse }) => (order.includes(horse) ? order.indexOf(horse) : order.length);
    const rows = this.#rows.toSorted((a, b) => place(a) - place(b));
    arrange(this.#body, ...rows.map((row) => row.element));
  }

  /** Out of view, texts are written alone: they may be searched, or read aloud. */
  paint(isEmphasized, isInView) {
    const { race } = this;
    if (this.#version !== race.version) {
      this.#version = race.version;
      const runners = race.rows;
      this.#rows = runners.map((runner) => new Row(race, runner));
      this.#arrange();
      hideColumns(this.#table, runners);
      this.#drawnAt = -Infinity;
      isEmphasized = false;
    }
    this.#table.classList.toggle("without-prices", race.prices.size === 0);
    this.#table.classList.toggle("without-place", !race.hasPlacePrices);
    this.#table.classList.toggle("long", isLong());
    const favourites = race.favourites;
    for (const row of this.#rows) row.paint(race, favourites.has(row.horse), isEmphasized && isInView);
    if (isInView) this.#draw();
  }

  /** Whether the price lines lack the latest prices. */
  get isBehind() {
    return this.#drawnSeq !== (this.race.history?.isComplete ? this.race.history.lastSeq : -1);
  }

  #draw() {
    const { history } = this.race;
    const now = performance.now();
    if (!history?.isComplete || now - this.#drawnAt < LINE_INTERVAL_MS) return;
    this.#drawnAt = now;
    this.#drawnSeq = history.lastSeq;
    const end = history.end(this.race.isOpen, this.#clock.now());
    // Each runner has a scale of its own: the line is about its move.
    for (const row of this.#rows) {
      const series = history.series.get(row.horse);
      const range = series && priceRange([series]);
      if (!range) continue;
      const [lowest, highest] = [range.lowest / 1.05, range.highest * 1.05];
      row.draw(history, logScale(lowest, highest, 2, LINE.height - 2), end);
    }
  }
}

/** Hides the columns that no runner has. */
function hideColumns(table, runners) {
  table.classList.toggle("without-running", !runners.some(({ running_positions }) => running_positions));
  table.classList.toggle("without-margin", !runners.some(({ margin }) => margin));
  table.classList.toggle("without-no", !runners.some(({ number }) => number > 0));
  table.classList.toggle("without-draw", !runners.some(({ draw }) => draw > 0));
  table.classList.toggle("without-weight", !runners.some(({ weight }) => weight > 0));
}

/**
 * The table of a result: the order, then the runners without a placing. `moves` has how the win prices moved until the
 * off, by horse.
 */
export function resultTable(race, result, moves = new Map()) {
  const columns = [
    ["Place", "place-word"],
    ["No.", "number no"],
    ["Horse", "horse"],
    ["Draw", "draw number"],
    ["Weight", "weight number"],
    ["Running", "running number"],
    ["Margin", "margin number"],
    ["Time", "number finish"],
    ["SP", "number"],
    ["Opening to off", "moved"],
  ];
  // The card says why a runner was withdrawn.
  const reason = ({ outcome, horse_no }) => outcome && race.runners.get(horse_no)?.reason;
  // One that did not run has a price, but no closing one.
  const moveOf = (runner) => (formats.isWithdrawn(runner.outcome) ? undefined : moves.get(runner.horse_no));
  const row = (place, runner) =>
    element(
      "tr",
      { "data-horse": runner.horse_no, "data-move": directionOf(moveOf(runner)) },
      // Where the word has no room, the style shows its code.
      element("td", { class: "place-word", "data-code": runner.outcome || false }, place),
      element(
        "td",
        { class: "number no" },
        `${runner.number || ""}`,
        star("horses", runner.horse_no, runner.horse_name || runner.horse_no),
      ),
      element(
        "th",
        { scope: "row", class: "horse" },
        element("a", { href: address.ofHorse(runner.horse_no) }, runner.horse_name || runner.horse_no),
        element("span", { class: "people" }, ...people(race, runner)),
        element("span", { class: "note" }, reason(runner)),
      ),
      element("td", { class: "draw number" }, runner.draw > 0 && `${runner.draw}`),
      element("td", { class: "weight number" }, runner.weight > 0 && `${runner.weight} lb`),
      element("td", { class: "running number" }, runner.running_positions?.join(" ")),
      element("td", { class: "margin number" }, runner.margin),
      element("td", { class: "number finish" }, runner.finish_time),
      element("td", { class: "number" }, runner.win_odds ? formats.price(runner.win_odds) : ""),
      movedCell(moveOf(runner)),
    );
  const words = formats.places(result.runners);
  const table = element(
    "table",
    { class: "runners result" },
    element("caption", { class: "unseen" }, `Result of ${race.title}`),
    element(
      "thead",
      {},
      element("tr", {}, ...columns.map(([name, kind]) => element("th", { scope: "col", class: kind }, name))),
    ),
    element(
      "tbody",
      {},
      ...result.runners.map((runner, index) => row(words[index], runner)),
      ...result.unplaced.map((runner) => row(formats.outcome(runner.outcome), runner)),
    ),
  );
  hideColumns(table, [...result.runners, ...result.unplaced]);
  table.classList.toggle("without-moved", moves.size === 0);
  return wide(`Result of ${race.title}`, table);
}

const directionOf = (move) => direction(move?.opening ?? null, move?.closing ?? null);

/** The first and the last price before the off, with the range between them. */
function movedCell(move) {
  if (!move) return element("td", { class: "moved" });
  const { opening, closing, low, high } = move;
  return element(
    "td",
    { class: "moved" },
    element("b", {}, fromTo(formats.price(opening), formats.price(closing))),
    " ",
    element("span", { class: "share" }, formats.changeInPercent(opening, closing)),
    element("span", { class: "range" }, `${formats.price(low)} – ${formats.price(high)}`),
  );
}

/** The times of the sections of a race, of the race and of each runner; `null` if none is known. */
export function sectionalsTable(race, result) {
  const timed = [...result.runners, ...result.unplaced].filter(({ sectionals }) => sectionals);
  const rows = timed.map((runner) => [formats.runner(runner), runner.sectionals]);
  if (result.sectionals) rows.unshift(["The race", result.sectionals]);
  if (rows.length === 0) return null;
  const count = Math.max(...rows.map(([, times]) => times.length));
  const head = Array.from({ length: count }, (_, index) =>
    element("th", { scope: "col", class: "number" }, `${index + 1}`),
  );
  const name = `Sectional times of ${race.title}`;
  const table = element(
    "table",
    { class: "runners sectionals" },
    element("caption", { class: "unseen" }, name),
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Section"), ...head)),
    element(
      "tbody",
      {},
      ...rows.map(([whose, times]) =>
        element(
          "tr",
          {},
          element("th", { scope: "row" }, whose),
          ...head.map((_, index) => element("td", { class: "number" }, times[index])),
        ),
      ),
    ),
  );
  return wide(name, table);
}

/** What the pools of a race paid. */
export function dividendsTable(race, { currency, dividends }) {
  const column = (name, kind = "") => element("th", { scope: "col", class: kind }, name);
  const head = [column("Pool"), column("Combination"), column(`Dividend, ${currency}`, "number")];
  const row = ({ pool, combination, unit, dividend, state }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, formats.capitalized(pool)),
      element("td", {}, combination.join(" - ")),
      element(
        "td",
        { class: "number" },
        [dividend !== undefined && formats.amount(dividend), state && formats.capitalized(state)]
          .filter(Boolean)
          .join(", "),
        dividend !== undefined && " ",
        dividend !== undefined && element("span", { class: "note" }, `for ${formats.amount(unit)}`),
      ),
    );
  return element(
    "table",
    { class: "runners dividends" },
    element("caption", { class: "unseen" }, `Dividends of ${race.title}`),
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...dividends.map(row)),
  );
}
