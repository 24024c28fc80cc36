// The prices of one source alone, where the visitor chooses one for a race. The board has those of the primary source.

import { element } from "../board/dom.js";
import { PriceHistory } from "../board/history.js";
import { Race } from "../board/race.js";

const STORED = "railbird-source";

/** The source that was chosen on the page of a race; empty for the primary one of each race. */
function stored() {
  try {
    return localStorage.getItem(STORED) ?? "";
  } catch {
    return "";
  }
}

function store(source) {
  try {
    localStorage.setItem(STORED, source);
  } catch {
    // It holds for this race.
  }
}

/** Fills a choice of the source. `show` is called with the race that has its prices. */
export class SourceChoice {
  /** The chosen source; empty for the primary one. */
  source = "";
  #race;
  #board;
  #show;
  #book = null;
  #select;

  constructor(race, board, select, show) {
    this.#race = race;
    this.#board = board;
    this.#show = show;
    this.#select = select;
    this.#select.addEventListener("change", () => {
      store(this.#select.value);
      this.#choose(this.#select.value);
    });
  }

  /** Reads the sources, and chooses the one that was chosen before. Throws an `ApiError`. */
  async open() {
    const { date, number, venueCode } = this.#race;
    const path = `odds/${date}/${number}/sources?venue=${encodeURIComponent(venueCode)}`;
    const { document } = await this.#board.api.get(path);
    const names = document.sources.map(({ source }) => source).sort();
    this.#select.append(...names.map((name) => element("option", { value: name }, name)));
    this.#select.disabled = names.length < 2;
    if (!names.includes(stored())) return;
    this.#select.value = stored();
    await this.#choose(stored());
  }

  async #choose(source) {
    this.#book?.close();
    this.source = source;
    const shown = () => book === this.#book && this.#show(book.race);
    const book = source ? new SourceBook(this.#race, source, this.#board, shown) : null;
    this.#book = book;
    this.#show(book?.race ?? this.#race);
    await book?.open();
  }

  /** Takes what has changed in the race but the prices. */
  follow() {
    this.#book?.follow();
  }

  close() {
    this.#book?.close();
  }
}

/** A race with the prices of one source: those of an open race are from a channel of their own. */
class SourceBook {
  race;
  #board;
  #source;
  /** The race of the board, and its version that was taken. */
  #of;
  #version = -1;
  #channel = null;
  #isClosed = false;
  #changed;

  /** `changed` is called once its prices are other ones. */
  constructor(race, source, board, changed) {
    this.#of = race;
    this.#source = source;
    this.#board = board;
    this.#changed = changed;
    const about = { date: race.date, venue: race.venue, venue_code: race.venueCode, race_number: race.number };
    this.race = new Race(about, race.zone);
    this.race.history = new PriceHistory(source);
    this.follow();
  }

  /** Reads the prices, then follows those of an open race. */
  async open() {
    try {
      await this.#read();
    } catch (error) {
      this.race.history.problem = `${error.message}.`;
    }
    this.#changed();
  }

  async #read() {
    const { date, number, venueCode } = this.race;
    const venue = `venue=${encodeURIComponent(venueCode)}`;
    const path = `odds/${date}/${number}`;
    const { document } = await this.#board.api.get(`${path}?${venue}&source=${encodeURIComponent(this.#source)}`);
    this.race.applyBoard(document);
    const { replay, refused } = this.#board;
    if (this.race.isOpen && !replay && !refused && !this.#isClosed) this.#connect();
    await this.race.history.load(this.#board.api, `${path}/history?${venue}`);
  }

  #connect() {
    this.#channel = this.#board.quotesOf(this.race);
    this.#channel.addEventListener("message", ({ detail: message }) => {
      if (message.event === "quote" && message.source === this.#source) this.#apply(message);
    });
    this.#channel.connect();
  }

  /** Takes the quoted prices: a quote has neither the others nor those before. */
  #apply(message) {
    const { board, prices } = this.race;
    if (board && message.seq <= board.seq) return;
    const quoted = message.runners.map((runner) => {
      const before = prices.get(runner.horse_no);
      const previous = before?.win === runner.win ? before.previous : (before?.win ?? null);
      return { ...before, ...runner, opening: before?.opening ?? runner.win, previous };
    });
    const runners = new Map([...prices, ...quoted.map((runner) => [runner.horse_no, runner])]);
    const { seq, recorded_at } = message;
    this.race.applyBoard({ seq, prev_seq: board?.seq ?? 0, recorded_at, runners: [...runners.values()] });
    this.race.history.apply(message);
    this.#changed();
  }

  /** Takes all but the prices from the race. */
  follow() {
    const { prices, board, history, version } = this.race;
    const isOther = this.#of.version !== this.#version;
    this.#version = this.#of.version;
    Object.assign(this.race, this.#of, { prices, board, history, version: isOther ? version + 1 : version });
    for (const [horse, price] of prices) {
      if (this.race.runners.get(horse)?.isWithdrawn)
        Object.assign(price, { win: null, place: null, state: "scratched" });
    }
  }

  close() {
    this.#isClosed = true;
    this.#channel?.close();
  }
}
