// A race, made of its card, its result, its board and the messages about it.
//
// Answers of the API and messages of the channel come in any order. Each has the log sequence that it reflects, and a
// part of the race is replaced only by what is not older.

import { clock } from "./formats.js";

const OVER = ["finished", "result", "abandoned"];

/**
 * @typedef {object} Runner as a card or a message describes it; `isWithdrawn` with its `reason`
 * @typedef {object} Prices of a runner: `win`, `place`, `opening`, `previous`, `state`
 */

export const keyOf = ({ date, venue_code, race_number }) => `${date}/${venue_code}/${race_number}`;

export class Race {
  name = "";
  distance = 0;
  class = "";
  going = "";
  offTime = "";
  /** The time zone that the card states: identifiers of people count within it. */
  area = "";
  status = "scheduled";
  statusReason = "";
  /** When the log stored that it was off, if the channel has said so. */
  offAt = "";
  /** Whether a card or a result is known, or only prices. */
  isDeclared = false;
  /** @type {Map<string, Runner>} by horse */
  runners = new Map();
  /** @type {Map<string, Prices>} by horse */
  prices = new Map();
  /** The `seq`, `prev_seq` and `recorded_at` of the prices. */
  board = null;
  /** The result in force, with `seq` and `recorded_at` if it came by the channel. */
  result = null;
  /** The dividends in force, once they are asked for or came by the channel. */
  dividends = null;
  /** The [`PriceHistory`], once it is asked for. */
  history = null;
  /** Raised with each change of the runners, so that views know when to make their rows again. */
  version = 0;
  #seqs = { card: 0, status: 0, board: 0, result: 0, dividends: 0 };
  #runnerSeqs = new Map();

  /** `zone` is that of the times until a card states the racecourse's. */
  constructor({ date, venue, venue_code, race_number }, zone) {
    this.zone = zone;
    this.date = date;
    this.venue = venue;
    this.venueCode = venue_code;
    this.number = race_number;
    this.key = keyOf({ date, venue_code, race_number });
  }

  /** As people call it, `19:55 Hamilton`; without an off time, `Hamilton race 3`. */
  get title() {
    if (!this.offTime) return `${this.venue} race ${this.number}`;
    return `${clock(this.offTime, { zone: this.zone })} ${this.venue}`;
  }

  /** As feeds and the API call it: `HAM 3`. */
  get label() {
    return `${this.venueCode} ${this.number}`;
  }

  get isOver() {
    return OVER.includes(this.status);
  }

  /** Whether people can still bet, so that prices may move. */
  get isOpen() {
    return this.status === "scheduled" || this.status === "open";
  }

  /** Forgets what it knows by sequence: they are of another log. */
  reset() {
    this.#seqs = { card: 0, status: 0, board: 0, result: 0, dividends: 0 };
    this.#runnerSeqs.clear();
    this.prices = new Map();
    this.board = null;
    this.offAt = "";
    this.dividends = null;
    this.history = null;
    this.version++;
  }

  /** The race of a race card that reflects `seq`. */
  applyCard(card, seq) {
    if (seq < this.#seqs.card) return;
    this.#seqs.card = seq;
    this.isDeclared = true;
    this.name = card.race_name;
    this.distance = card.distance;
    this.class = card.class;
    this.going = card.going;
    this.offTime = card.off_time;
    this.area = card.time_zone;
    this.zone = card.time_zone || this.zone;
    this.#setStatus(card.status, card.status_reason, seq);
    const runners = new Map();
    const add = (runner, isWithdrawn) => {
      const known = this.runners.get(runner.horse_no);
      const isNewer = known && (this.#runnerSeqs.get(runner.horse_no) ?? 0) > seq;
      runners.set(runner.horse_no, isNewer ? known : { reason: "", ...runner, isWithdrawn });
    };
    for (const runner of card.runners) add(runner, false);
    for (const runner of card.withdrawn) add(runner, true);
    if (JSON.stringify([...runners]) === JSON.stringify([...this.runners])) return;
    this.runners = runners;
    this.version++;
  }

  /** The race of a result document, or a `result_update`. */
  applyResult(result, seq) {
    if (seq < this.#seqs.result) return false;
    this.#seqs.result = seq;
    this.isDeclared = true;
    const before = this.result;
    // A document does not have the sequence of the result; a message about the same revision did.
    const isSame = before?.revision === result.revision && before.status === result.status;
    this.result = isSame && !result.seq ? { ...result, seq: before.seq, recorded_at: before.recorded_at } : result;
    this.name = result.race_name || this.name;
    this.distance ||= result.distance;
    this.class ||= result.class;
    this.going = result.going || this.going;
    if (result.status !== "abandoned") this.#setStatus("result", "", seq);
    this.version++;
    return !isSame || result.reason !== before.reason;
  }

  /** The dividends of the race, from the API or a message. */
  applyDividends(dividends, seq) {
    if (seq < this.#seqs.dividends) return;
    this.#seqs.dividends = seq;
    this.dividends = dividends;
  }

  /** A board, from the API or a message. Returns whether its prices are new. */
  applyBoard(board) {
    if (board.seq < this.#seqs.board) return false;
    if (!this.isDeclared) this.#setStatus(board.status, "", board.seq);
    // It was never quoted.
    if (board.seq === 0) return false;
    this.#seqs.board = board.seq;
    this.board = { seq: board.seq, prev_seq: board.prev_seq, recorded_at: board.recorded_at };
    const isSame = board.runners.length === this.prices.size && board.runners.every((r) => this.prices.has(r.horse_no));
    if (!isSame) this.version++;
    this.prices = new Map(board.runners.map((runner) => [runner.horse_no, runner]));
    return true;
  }

  /** Returns whether it is a change. */
  applyStatus({ status, reason, seq, recorded_at }) {
    const before = this.status;
    if (status === "off") this.offAt ||= recorded_at;
    return this.#setStatus(status, reason, seq) && before !== this.status;
  }

  /** A withdrawal, a reinstatement or another rider. Returns whether it is news. */
  applyRunner({ change, horse_no, horse_name, number, jockey, weight, reason, seq }) {
    if (seq <= Math.max(this.#seqs.card, this.#runnerSeqs.get(horse_no) ?? 0)) return false;
    this.#runnerSeqs.set(horse_no, seq);
    const before = this.runners.get(horse_no);
    const isWithdrawn = change === "rider_changed" ? (before?.isWithdrawn ?? false) : change === "withdrawn";
    const about = isWithdrawn && change === "rider_changed" ? before.reason : reason;
    const jockey_id = jockey === before?.jockey ? before.jockey_id : undefined;
    const changed = { horse_no, horse_name, number, jockey, jockey_id, weight, isWithdrawn, reason: about };
    this.runners.set(horse_no, { ...before, ...changed });
    this.version++;
    return true;
  }

  #setStatus(status, reason, seq) {
    if (seq < this.#seqs.status) return false;
    this.#seqs.status = seq;
    this.status = status;
    this.statusReason = reason;
    return true;
  }

  /** All runners by number, also those that only the board has. Withdrawn ones keep their place. */
  get rows() {
    const rows = new Map(this.runners);
    for (const [horse, runner] of this.prices) {
      if (!rows.has(horse)) rows.set(horse, { ...runner, isWithdrawn: false, reason: "" });
    }
    const named = [...rows.values()].map((runner) => ({ ...runner, horse_name: runner.horse_name || runner.horse_no }));
    return named.sort(
      (a, b) => (a.number || Infinity) - (b.number || Infinity) || a.horse_no.localeCompare(b.horse_no),
    );
  }

  /** Whether a runner takes part, as far as is known. */
  #isRunning(horse) {
    return !this.runners.get(horse)?.isWithdrawn && this.prices.get(horse)?.state !== "scratched";
  }

  get hasPlacePrices() {
    return [...this.prices.values()].some(({ place }) => place !== null);
  }

  /** The horses by win price, those without one by number. */
  get byPrice() {
    const win = ({ horse_no }) => this.prices.get(horse_no)?.win ?? Infinity;
    const rows = this.rows.sort((a, b) => (win(a) === win(b) ? 0 : win(a) - win(b)));
    return rows.map(({ horse_no }) => horse_no);
  }

  /** The horses at the lowest win price, once enough runners have one. */
  get favourites() {
    const { priced, isWhole } = this.market;
    const lowest = Math.min(...priced.map(({ win }) => win));
    return new Set(priced.filter(({ win }) => isWhole && win === lowest).map(({ horse_no }) => horse_no));
  }

  /**
   * The market percentage, the sum of 100 / win price, and the runners with a price of those that run, also of those
   * that only the card has. `isWhole` is whether it says something: at most a tenth of them has no price.
   */
  get market() {
    const horses = new Set([...this.runners.keys(), ...this.prices.keys()]);
    const running = [...horses].filter((horse) => this.#isRunning(horse));
    const priced = running.map((horse) => this.prices.get(horse)).filter((prices) => (prices?.win ?? null) !== null);
    return {
      percentage: priced.reduce((sum, { win }) => sum + 100 / win, 0),
      priced,
      running: running.length,
      isWhole: priced.length > 0 && 10 * (running.length - priced.length) <= running.length,
    };
  }

  /** Whether the result in force corrects an earlier official one: amendments state their reason. */
  get isAmended() {
    return this.result?.status === "official" && this.result.reason !== "";
  }

  /** The status as people say it, with that of the result. */
  get resultWord() {
    if (this.result === null || this.result.status === "abandoned") return "";
    if (this.isAmended) return "Amended";
    return { provisional: "Provisional", official: "Official", void: "Void" }[this.result.status] ?? "";
  }
}
