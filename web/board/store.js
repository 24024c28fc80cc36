// The races of the page, and what changes them. Views listen to `change` (`detail` is the race) and `news`.

import { FollowedNews } from "./following.js";
import { order, statusWord } from "./formats.js";
import { Race, keyOf } from "./race.js";

/** News that are kept. */
const NEWS_MAX = 50;

export class Store extends EventTarget {
  #zone;
  #followed = new FollowedNews();
  /** @type {Map<string, Race>} */
  races = new Map();
  /** What happened while the page was open, newest first: `{ text, race, seq, at }`. */
  news = [];
  /** When prices last changed, by the clock of this browser. */
  priceChangedAt = null;

  /** `zone` is that of racecourses of which none is known. */
  constructor(zone) {
    super();
    this.#zone = zone;
  }

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
      this.races.set(key, new Race(about, this.#zone));
      this.dispatchEvent(new CustomEvent("races", { detail: about }));
    }
    const race = this.races.get(key);
    // A quote may come before the card with the name of the venue.
    if (race.venue === race.venueCode) race.venue = about.venue;
    return race;
  }

  /** The rows of a list of race cards. */
  applyCards(cards, seq) {
    for (const card of cards) {
      const race = this.race(card);
      this.#card(race, { ...card, seq, recorded_at: null });
      this.#changed(race);
    }
  }

  /** The rows of a list of results. */
  applyResults(results, seq) {
    for (const result of results) {
      const race = this.race(result);
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
    this.#followed.clear();
  }

  /** Drops the races that are over and on no shown day. */
  keep(date) {
    for (const [key, race] of this.races) if (race.date !== date && race.isOver) this.races.delete(key);
  }

  #card(race, card) {
    const going = race.going;
    race.applyCard(card, card.seq);
    // A result may state another going than the card.
    if (going === "" || race.going === going || race.result !== null) return;
    this.#report(race, `going is now ${race.going}, was ${going}`, card);
  }

  #odds(race, message) {
    const before = race.prices;
    if (!race.applyBoard(message)) return;
    if (!message.snapshot) this.priceChangedAt = Date.now();
    // Another source has become the primary one.
    if (race.history?.isComplete && ![message.source, ""].includes(race.history.source)) race.history = null;
    race.history?.apply(message);
    for (const { horse_no, horse_name, number, state } of message.runners) {
      if (before.has(horse_no) && state === "suspended" && before.get(horse_no).state !== state) {
        this.#report(race, `betting on ${number} ${horse_name} is suspended`, message);
      }
    }
    for (const text of this.#followed.moves(race, before)) this.#report(race, text, message);
  }

  #status(race, message) {
    if (!race.applyStatus(message)) return;
    const followed = race.status === "off" ? this.#followed.off(race) : "";
    const parts = [statusWord(race.status).toLowerCase(), message.reason, followed].filter(Boolean);
    this.#report(race, parts.join(": "), message);
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
