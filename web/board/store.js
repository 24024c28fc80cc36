// The races of the page, and what changes them. Views listen to `change` (`detail` is the race) and `news`.

import { order, statusWord } from "./formats.js";
import { Race, keyOf } from "./race.js";

/** News that are kept. */
const NEWS_MAX = 50;

export class Store extends EventTarget {
  /** @type {Map<string, Race>} */
  races = new Map();
  /** What happened while the page was open, newest first: `{ text, race, seq, at }`. */
  news = [];
  /** When prices last changed, by the clock of this browser. */
  priceChangedAt = null;

  /** The races of a day by venue, each by number. */
  meetings(date) {
    const meetings = new Map();
    for (const race of this.races.values()) {
      if (race.date !== date) continue;
      if (!meetings.has(race.venueCode)) meetings.set(race.venueCode, []);
      meetings.get(race.venueCode).push(race);
    }
    for (const races of meetings.values()) races.sort((a, b) => a.number - b.number);
    return meetings;
  }

  find(date, venue, number) {
    return this.races.get(keyOf({ date, venue_code: venue, race_number: number }));
  }

  /** The race that a document or a message is about. */
  race(about) {
    const key = keyOf(about);
    if (!this.races.has(key)) {
      this.races.set(key, new Race(about));
      this.dispatchEvent(new CustomEvent("races", { detail: about.date }));
    }
    return this.races.get(key);
  }

  /** The races of a race card document. */
  applyCards({ races, ...meeting }, seq) {
    for (const card of races) {
      const race = this.race({ ...meeting, race_number: card.race_number });
      this.#card(race, { time_zone: meeting.time_zone, ...card, seq, recorded_at: null });
      this.#changed(race);
    }
  }

  /** The races of a results document. */
  applyResults({ races, ...meeting }, seq) {
    for (const result of races) {
      const race = this.race({ ...meeting, race_number: result.race_number });
      race.applyResult({ ...result, seq: null, recorded_at: "" }, seq);
      this.#changed(race);
    }
  }

  /** An odds board document. Returns its race. */
  applyBoard(board) {
    const race = this.race(board);
    race.applyBoard(board);
    this.#changed(race);
    return race;
  }

  /** A message of the live channel. */
  apply(message) {
    const kinds = {
      odds_update: () => this.#odds(race, message),
      status_update: () => this.#status(race, message),
      runner_update: () => this.#runner(race, message),
      result_update: () => this.#result(race, message),
      dividends_update: () => race.applyDividends(message, message.seq),
      card_update: () => this.#card(race, message),
    };
    if (!(message.event in kinds)) return;
    const race = this.race(message);
    kinds[message.event]();
    this.#changed(race);
  }

  /** Everything is of another log, or of an earlier part of it: documents and snapshots follow. */
  reset() {
    for (const race of this.races.values()) {
      race.reset();
      this.#changed(race);
    }
  }

  /** Forgets all races: what is shown is another moment. */
  clear() {
    this.races.clear();
    this.news = [];
  }

  /** Drops the races that are over and on no shown day. */
  keep(date) {
    for (const [key, race] of this.races) if (race.date !== date && race.isOver) this.races.delete(key);
  }

  #card(race, card) {
    const going = race.going;
    race.applyCard(card, card.seq);
    if (going !== "" && race.going !== going) this.#report(race, `going is now ${race.going}, was ${going}`, card);
  }

  #odds(race, message) {
    const states = new Map([...race.prices].map(([horse, { state }]) => [horse, state]));
    if (!race.applyBoard(message)) return;
    if (!message.snapshot) this.priceChangedAt = Date.now();
    race.history?.apply(message);
    for (const { horse_no, horse_name, number, state } of message.runners) {
      if (states.has(horse_no) && state === "suspended" && states.get(horse_no) !== state) {
        this.#report(race, `betting on ${number} ${horse_name} is suspended`, message);
      }
    }
  }

  #status(race, message) {
    if (!race.applyStatus(message)) return;
    const reason = message.reason ? `: ${message.reason}` : "";
    this.#report(race, `${statusWord(race.status).toLowerCase()}${reason}`, message);
  }

  #runner(race, message) {
    if (!race.applyRunner(message)) return;
    const { change, number, horse_name, jockey, reason } = message;
    const runner = `${number || ""} ${horse_name}`.trim();
    const text = {
      withdrawn: `${runner} is withdrawn${reason ? `: ${reason}` : ""}`,
      reinstated: `${runner} runs after all${reason ? `: ${reason}` : ""}`,
      rider_changed: `${jockey} rides ${runner}`,
    };
    this.#report(race, text[change] ?? `${runner}: ${change}`, message);
  }

  #result(race, message) {
    if (!race.applyResult(message, message.seq)) return;
    const first = message.runners.filter(({ position }) => position <= 3);
    const word = race.resultWord.toLowerCase();
    const parts = [`${word} result`, order(first), message.reason].filter((part) => part !== "");
    this.#report(race, parts.join(": "), message);
  }

  #changed(race) {
    this.dispatchEvent(new CustomEvent("change", { detail: race }));
  }

  #report(race, text, { seq, recorded_at }) {
    const news = { race, text, seq, at: recorded_at };
    this.news.unshift(news);
    this.news.length = Math.min(this.news.length, NEWS_MAX);
    this.dispatchEvent(new CustomEvent("news", { detail: news }));
  }
}
