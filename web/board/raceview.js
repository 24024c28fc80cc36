// One race: its runners, the chart of their prices, its result with the revisions, and where the figures are from.

import * as address from "./address.js";
import { PriceChart } from "./chart.js";
import { marketText, showStatus } from "./day.js";
import { arrange, element, onDemand, setText } from "./dom.js";
import * as formats from "./formats.js";
import { oddsChoice } from "./odds.js";
import { RunnersTable, dividendsTable, resultTable, sectionalsTable } from "./runners.js";
import { SourcePrices } from "./sourceprices.js";

/** Runners of a revision that are said to have moved: after a disqualification, all behind have. */
const MOVES_MAX = 5;

export class RaceView {
  #board;
  #race;
  /** The race with the prices of the chosen source. */
  #priced;
  #source = null;
  #table;
  #chart;
  #ladder;
  #name = element("span", { class: "name" });
  #heading = element("span");
  #runners;
  #runnersTitle = element("h2");
  #sourcePrices;
  #status = element("span", { class: "status" });
  #facts = element("p", { class: "facts" });
  #market = element("p", { class: "market" });
  #sourceChoice = element(
    "select",
    { "aria-label": "Prices of", disabled: true },
    element("option", { value: "" }, "Primary source"),
  );
  #result = element("section", { class: "result-section", hidden: true });
  #resultBody = element("div");
  #revisions = element("ol", { class: "revisions" });
  #revisionsTitle = element("summary");
  #history = element("details", { class: "result-history" }, this.#revisionsTitle, this.#revisions);
  #hasRevisions = false;
  #sources = element("dl");
  #dividends = element("section", { class: "dividends", hidden: true });
  #shownResult = null;
  /** How the prices moved until the off, by horse, once it is read. */
  #moves = null;
  #shownDividends = null;

  constructor(board, race) {
    this.#board = board;
    this.#race = this.#priced = race;
    this.title = `${race.title} ${race.name}`.trim();
    this.#table = new RunnersTable(race, board);
    this.#chart = new PriceChart(race, board);
    this.#sourcePrices = new SourcePrices(race, board);
    this.#ladder = onDemand("ladder", "Price by price", async () => {
      const { PriceLadder } = await import("../views/ladder.js");
      return new PriceLadder(this.#priced);
    });
    // Open until there is a result, which has the runners too.
    this.#runners = element(
      "details",
      { class: "all-runners", open: true },
      element("summary", {}, this.#runnersTitle),
      this.#market,
      this.#table.element,
    );
    this.#result.append(element("h2", {}, "Result"), this.#resultBody, this.#history);
    this.#history.addEventListener("toggle", () => this.#loadRevisions());
    this.element = element(
      "article",
      { class: "race-view" },
      element(
        "p",
        { class: "back" },
        element("a", { href: address.ofDay(race.date) }, formats.day(race.date)),
        element(
          "span",
          {},
          !board.replay && this.#sourceChoice,
          " ",
          oddsChoice(() => board.rewritePrices()),
        ),
      ),
      element("h1", { tabindex: "-1" }, this.#heading, " ", this.#name),
      element("p", { class: "line" }, element("span", { class: "label" }, race.label), " ", this.#status),
      this.#facts,
      this.#result,
      this.#dividends,
      this.#runners,
      this.#chart.element,
      this.#ladder.element,
      this.#sourcePrices.element,
      element(
        "details",
        { class: "sources" },
        element("summary", {}, "Where these figures are from"),
        element(
          "p",
          {},
          "Each event of the log has a sequence, seq. It is the same in the API, in the live channel and on every server, so each figure can be looked up.",
        ),
        this.#sources,
      ),
    );
    board.painter.mark(this);
  }

  paint(isEmphasized) {
    const race = this.#race;
    this.#board.loadPrices(race);
    this.#offerSources();
    this.#source?.follow();
    showStatus(this.#status, race);
    setText(this.#heading, race.title);
    setText(this.#name, race.name);
    setText(this.#market, marketText(this.#priced));
    // The result has everything about the runners but their prices, and why others are withdrawn.
    const hasResult = race.result?.runners.length > 0;
    const isInResult = hasResult && race.prices.size === 0;
    setText(this.#runnersTitle, hasResult ? "Runners before the race, with their last prices" : "Runners");
    this.#runners.hidden = race.rows.length === 0 || (isInResult && race.rows.every(({ isWithdrawn }) => !isWithdrawn));
    this.#table.paint(isEmphasized, true);
    this.#chart.paint();
    this.#ladder.view?.paint();
    this.#paintResult();
    this.#loadMoves();
    this.#paintDividends();
    this.#paintSources();
    this.#paintFacts();
  }

  /** Writes the countdown, and has the price lines drawn that lack the latest prices. */
  tick() {
    this.#paintFacts();
    if (this.#table.isBehind) this.#board.painter.mark(this);
  }

  #paintFacts() {
    const race = this.#race;
    const elsewhere = race.offTime && formats.zoneNote(race.zone, Date.parse(race.offTime));
    const here = elsewhere && ` (${elsewhere}; ${formats.clock(race.offTime)} where you are)`;
    const off = race.offTime && `off at ${formats.clock(race.offTime, { zone: race.zone })}${here}`;
    const isAhead = race.offTime && !race.isOver && race.status !== "off";
    const left = isAhead && formats.countdown(Date.parse(race.offTime) - this.#board.now());
    // The result says it, too.
    const reason = race.result?.reason ? "" : race.statusReason;
    const facts = [formats.conditions(race, race.going && `going ${race.going}`), off, left, reason];
    setText(this.#facts, facts.filter(Boolean).join(" · "));
  }

  #paintResult() {
    const { result } = this.#race;
    if (result === this.#shownResult) return;
    const before = this.#shownResult;
    this.#shownResult = result;
    this.#result.hidden = result === null;
    if (result === null) return;
    const isRead = this.#runners.contains(document.activeElement);
    // The runners are shown once.
    if (before === null && result.runners.length > 0 && !isRead) this.#runners.open = false;
    this.#writeResult();
    if (before?.revision === result.revision && before.status === result.status) return;
    const count = result.revision > 1 ? `, ${result.revision} revisions` : "";
    setText(this.#revisionsTitle, `History of the result${count}`);
    this.#hasRevisions = false;
    this.#loadRevisions();
    this.#board.loadDividends(this.#race);
  }

  #writeResult() {
    const { result } = this.#race;
    const sectionals = sectionalsTable(this.#race, result);
    const revision = result.revision > 0 ? `, revision ${result.revision}` : "";
    arrange(
      this.#resultBody,
      element("p", {}, `${this.#race.resultWord || "Abandoned"}${revision}`),
      ...(result.reason ? [element("p", { class: "reason" }, result.reason)] : []),
      ...(result.runners.length > 0 ? [resultTable(this.#race, result, this.#moves ?? undefined)] : []),
      ...(sectionals ? [element("h3", {}, "Sectional times"), sectionals] : []),
    );
  }

  #paintDividends() {
    const { dividends } = this.#race;
    if (dividends === this.#shownDividends) return;
    this.#shownDividends = dividends;
    this.#dividends.hidden = dividends === null || dividends.status === "pending";
    if (this.#dividends.hidden) return;
    const { status, revision, reason } = dividends;
    this.#dividends.replaceChildren(
      element("h2", {}, "Dividends"),
      element("p", {}, `${formats.capitalized(status)}, revision ${revision}`),
      ...(reason ? [element("p", { class: "reason" }, reason)] : []),
      ...(dividends.dividends.length > 0 ? [dividendsTable(this.#race, dividends)] : []),
    );
  }

  /** Offers the sources, once a race has prices. A replay shows those of the primary one. */
  async #offerSources() {
    if (this.#source || this.#board.replay || this.#race.prices.size === 0) return;
    this.#source = { follow() {}, close() {} };
    try {
      const { SourceChoice } = await import("../views/sourcebook.js");
      const show = (race) => this.#showPrices(race);
      this.#source = new SourceChoice(this.#race, this.#board, this.#sourceChoice, show);
      await this.#source.open();
    } catch {
      // The prices of the primary source are there.
    }
  }

  #showPrices(race) {
    if (race !== this.#priced) {
      this.#priced = race;
      this.#moves = null;
      for (const part of [this.#table, this.#chart, this.#ladder.view]) part?.show(race);
    }
    this.#board.painter.mark(this);
  }

  /** Reads how the prices moved, once the race is run. Without prices, there are none. */
  async #loadMoves() {
    const { date, number, venueCode, prices, result } = this.#priced;
    if (this.#moves || prices.size === 0 || !(result?.runners.length > 0)) return;
    const moves = (this.#moves = new Map());
    const source = this.#source?.source ? `&source=${encodeURIComponent(this.#source.source)}` : "";
    const path = `odds/${date}/${number}/moves?venue=${encodeURIComponent(venueCode)}${source}`;
    try {
      await this.#board.api.pages(path, "moves", (rows) => {
        for (const move of rows) moves.set(move.horse_no, move);
      });
    } catch {
      // The result is there without them.
    }
    if (moves === this.#moves) this.#writeResult();
  }

  /** Reads the revisions, once somebody wants to know them. */
  async #loadRevisions() {
    if (!this.#history.open || this.#hasRevisions) return;
    this.#hasRevisions = true;
    if (this.#revisions.children.length === 0) this.#revisions.append(element("li", {}, "They are being read."));
    const { date, venueCode, number } = this.#race;
    const path = `results/${date}/${number}/revisions?venue=${encodeURIComponent(venueCode)}`;
    const rows = [];
    try {
      await this.#board.api.pages(path, "revisions", (revisions) => rows.push(...revisions));
    } catch (error) {
      this.#hasRevisions = false;
      this.#revisions.replaceChildren(element("li", {}, error.message));
      return;
    }
    const isResult = ({ stale, runners }) => !stale && runners.length > 0;
    const before = (row, index) => isResult(row) && rows.slice(0, index).findLast(isResult);
    this.#revisions.replaceChildren(...rows.map((row, index) => this.#revision(row, before(row, index))));
    if (rows.length === 0) this.#revisions.replaceChildren(element("li", {}, "No result was declared."));
  }

  #revision({ statement, revision, status, reason, time, stale, runners }, before) {
    const race = this.#race;
    const placed = runners.filter(({ position }) => position > 0).sort((a, b) => a.position - b.position);
    const named = (row) => {
      const { runners = [], unplaced = [] } = race.result ?? {};
      const inResult = [...runners, ...unplaced].find(({ horse_no }) => horse_no === row.horse_no);
      const known = race.runners.get(row.horse_no) ?? inResult;
      return { number: 0, horse_name: row.horse_no, ...known, ...row };
    };
    const unplaced = runners
      .filter(({ outcome }) => outcome)
      .map((row) => `${formats.outcome(row.outcome)}: ${named(row).horse_name}`);
    const order = [formats.order(placed.map(named)), ...unplaced].filter(Boolean).join(", ");
    const moves = before && movesOf(runners, before.runners, named);
    const when = formats.moment(time, race.zone, race.date);
    const what = statement === "voided" ? "void" : status;
    return element(
      "li",
      { class: stale ? "stale-row" : false },
      element("b", {}, `Revision ${revision}, ${what}`),
      ` · ${when}${stale ? " (not in force: a higher revision was known)" : ""}`,
      reason && element("span", { class: "reason" }, reason),
      moves && element("span", { class: "moves" }, moves),
      element("span", { class: "order" }, moves === "" ? "No place has changed" : order),
    );
  }

  #paintSources() {
    const { board, date, number, venueCode, history, result } = this.#race;
    const { replay } = this.#board;
    const query = `?venue=${encodeURIComponent(venueCode)}${replay ? `&as_of=${replay.asOf}` : ""}`;
    const at = (path) => `api/v1/${path}${query}`;
    const rows = [];
    if (board) {
      const { seq, prev_seq, recorded_at } = board;
      rows.push([
        "Prices",
        `seq ${formats.whole(seq)}, after seq ${formats.whole(prev_seq)}, recorded at ${recorded_at}`,
      ]);
      rows.push(["Prices in the API", at(`odds/${date}/${number}`)]);
    }
    if (history?.isComplete) rows.push(["Every quote", at(`odds/${date}/${number}/history`)]);
    if (result) rows.push(["Result in the API", at(`results/${date}/${number}`)]);
    if (result?.seq) rows.push(["Result", `seq ${formats.whole(result.seq)}, recorded at ${result.recorded_at}`]);
    rows.push(["Card in the API", at(`racecards/${date}`)]);
    const { gaps } = this.#board.live.state;
    rows.push(["Gaps in the live channel", `${gaps}`]);
    const text = rows.flat().join("\n");
    if (this.#sources.dataset.text === text) return;
    this.#sources.dataset.text = text;
    this.#sources.replaceChildren(
      ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
    );
  }

  /** Has all prices written again. */
  rewrite() {
    this.#race.version++;
    if (this.#shownResult) this.#writeResult();
    this.#chart.rewrite();
    this.#ladder.view?.rewrite();
    this.#board.painter.mark(this.#sourcePrices);
    this.#board.painter.mark(this);
  }

  changed(race) {
    if (race === this.#race) this.#board.painter.mark(this);
  }

  close() {
    this.#chart.close();
    this.#sourcePrices.close();
    this.#source?.close();
    this.#board.painter.drop(this);
  }
}

/** What a revision changed against the one before: `2nd to 1st: AMBER WHISTLE`. */
function movesOf(runners, runnersBefore, named) {
  const [is, was] = [formats.standings(runners), formats.standings(runnersBefore)];
  const horses = [...new Set([...is.keys(), ...was.keys()])].filter((horse) => is.get(horse) !== was.get(horse));
  const moves = horses.slice(0, MOVES_MAX).map((horse) => {
    const [to, from] = [is, was].map((standings) => standings.get(horse) ?? "no place");
    return `${from} to ${to}: ${named({ horse_no: horse }).horse_name}`;
  });
  if (horses.length > MOVES_MAX) moves.push(`and ${horses.length - MOVES_MAX} more`);
  return moves.join(", ");
}
