// One race: its runners, the chart of their prices, its result with the revisions, and where the figures are from.

import * as address from "./address.js";
import { PriceChart } from "./chart.js";
import { marketText, showStatus } from "./day.js";
import { element, setText } from "./dom.js";
import * as formats from "./formats.js";
import { RunnersTable, dividendsTable, resultTable, sectionalsTable } from "./runners.js";
import { SourcePrices } from "./sourceprices.js";

/** Runners of a revision that are said to have moved: after a disqualification, all behind have. */
const MOVES_MAX = 5;

export class RaceView {
  #board;
  #race;
  #table;
  #chart;
  #runners;
  #sourcePrices;
  #status = element("span", { class: "status" });
  #facts = element("p", { class: "facts" });
  #market = element("p", { class: "market" });
  #result = element("section", { class: "result-section", hidden: true });
  #revisions = element("ol", { class: "revisions" });
  #sources = element("dl");
  #dividends = element("section", { class: "dividends", hidden: true });
  #shownResult = null;
  #shownDividends = null;

  constructor(board, race) {
    this.#board = board;
    this.#race = race;
    this.title = `${race.label} ${race.name}`.trim();
    this.#table = new RunnersTable(race, board);
    this.#chart = new PriceChart(race, board);
    this.#sourcePrices = new SourcePrices(race, board);
    this.#runners = element("section", {}, element("h2", {}, "Runners"), this.#market, this.#table.element);
    this.element = element(
      "article",
      { class: "race-view" },
      element("p", { class: "back" }, element("a", { href: address.ofDay(race.date) }, formats.day(race.date))),
      element("h1", { tabindex: "-1" }, element("span", { class: "label" }, race.label), ` ${race.name}`),
      element("p", { class: "line" }, this.#status),
      this.#facts,
      this.#result,
      this.#dividends,
      this.#runners,
      this.#chart.element,
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
    showStatus(this.#status, race);
    setText(this.#market, marketText(race));
    // The result has everything about the runners but their prices, and why others are withdrawn.
    const isInResult = race.result?.runners.length > 0 && race.prices.size === 0;
    this.#runners.hidden = race.rows.length === 0 || (isInResult && race.rows.every(({ isWithdrawn }) => !isWithdrawn));
    this.#table.paint(isEmphasized, true);
    this.#chart.paint();
    this.#paintResult();
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
    const facts = [
      race.venue,
      formats.conditions(race, race.going && `going ${race.going}`),
      off,
      left,
      race.statusReason,
    ];
    setText(this.#facts, facts.filter(Boolean).join(" · "));
  }

  #paintResult() {
    const { result } = this.#race;
    if (result === this.#shownResult) return;
    this.#shownResult = result;
    this.#result.hidden = result === null;
    if (result === null) return;
    const sectionals = sectionalsTable(this.#race, result);
    const revision = result.revision > 0 ? `, revision ${result.revision}` : "";
    this.#result.replaceChildren(
      element("h2", {}, "Result"),
      element("p", {}, `${this.#race.resultWord || "Abandoned"}${revision}`),
      ...(result.reason ? [element("p", { class: "reason" }, result.reason)] : []),
      ...(result.runners.length > 0 ? [resultTable(this.#race, result)] : []),
      ...(sectionals ? [element("h3", {}, "Sectional times"), sectionals] : []),
      element("h3", {}, "History of the result"),
      this.#revisions,
    );
    this.#loadRevisions();
    this.#board.loadDividends(this.#race);
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
      dividendsTable(this.#race, dividends),
    );
  }

  async #loadRevisions() {
    const { date, venueCode, number } = this.#race;
    const path = `results/${date}/${number}/revisions?venue=${encodeURIComponent(venueCode)}`;
    const rows = [];
    try {
      await this.#board.api.pages(path, "revisions", (revisions) => rows.push(...revisions));
    } catch (error) {
      rows.length = 0;
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

  changed(race) {
    if (race === this.#race) this.#board.painter.mark(this);
  }

  close() {
    this.#chart.close();
    this.#sourcePrices.close();
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
