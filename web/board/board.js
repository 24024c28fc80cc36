// The board: wires the channel, the API, the store and the views.

import { LiveOdds } from "../railbird.js";
import * as address from "./address.js";
import { Api, ApiError } from "./api.js";
import { ChannelBar } from "./channelbar.js";
import { DayView } from "./day.js";
import { element } from "./dom.js";
import { dateIn } from "./formats.js";
import { HorseView } from "./horse.js";
import { PriceHistory } from "./history.js";
import { News, NextRaces } from "./nextraces.js";
import { Painter } from "./painter.js";
import { RaceView } from "./raceview.js";
import { ReplayBar } from "./replay.js";
import { Store } from "./store.js";

/** A short interval, so that a lost connection is noticed within seconds. */
const HEARTBEAT_MS = 2_000;
const TICK_MS = 1_000;
const DAY_MS = 86_400_000;
/** What could not be read is read again at this distance, and everything without the channel. */
const READ_AGAIN_MS = 10_000;
/** News of the same moment are announced together, so that a screen reader is not flooded. */
const ANNOUNCE_AFTER_MS = 1_000;

const NOT_INCLUDED =
  "Your plan has no live odds: cards, results and form are up to date, and prices do not move. The plans are under Pricing.";

export class Board {
  store = new Store();
  painter = new Painter();
  /** The day that is shown, or that the shown race is of. */
  date = "";
  /** Why the key has no live channel, and the [`ApiError`] that puts requests off. */
  refused = "";
  limited = null;
  silent = []; // The sources that are down.
  #root;
  #announcer;
  #main = element("div", { class: "view" });
  #view = null;
  #meetings = [];
  /** The same as that of the API, but to the millisecond; `null` until the channel has sent it. */
  #clockOffset = null;
  #announcements = [];
  #loadedDates = new Set();
  #hasBeenLive = false;
  /** Whether the documents must be read again once the snapshots are there. */
  #isReset = false;
  #key;
  #onRejectedKey;
  #again;
  #timers = [];
  /** Raised with each address, so that what was read for an earlier one is dropped. */
  #visit = 0;
  /** Resolved once the channel has sent its snapshots, or is refused. */
  #opened = Promise.withResolvers();

  /** `reject` is called with a text once the key is no longer accepted, `again` when another board has to replace it. */
  constructor(root, announcer, key, reject, again) {
    this.#root = root;
    this.#announcer = announcer;
    this.#key = key;
    this.#onRejectedKey = reject;
    this.#again = again;
    const { date, at } = address.parse(location.hash);
    /** The [`ReplayBar`] of a board that shows the past; nothing of it is live. */
    this.replay = at ? new ReplayBar(this, key, date, at) : null;
    this.api = new Api(key, this.replay ? () => this.replay.asOf : undefined);
    this.live = this.replay?.live ?? new LiveOdds("ws/live/odds", { apiKey: key, heartbeatMs: HEARTBEAT_MS });
    this.#bar = this.replay ?? new ChannelBar(this);
    this.#next = new NextRaces(this);
    this.#news = new News(this);
    this.#listen();
  }

  #bar;
  #next;
  #news;

  #listen() {
    this.live.addEventListener("message", ({ detail }) => this.#receive(detail));
    this.live.addEventListener("state", ({ detail }) => this.#stateChanged(detail));
    this.store.addEventListener("change", ({ detail: race }) => this.#view?.changed(race));
    this.store.addEventListener("races", ({ detail: date }) => this.#view?.racesChanged?.(date));
    this.store.addEventListener("news", ({ detail }) => this.#announce(`${detail.race.label}: ${detail.text}`));
    this.api.addEventListener("limited", ({ detail }) => {
      this.limited = detail;
      this.#bar.tick();
    });
  }

  /** Shows the board, once the key is known to be valid. Throws an `ApiError` otherwise. */
  async start(isByVisitor) {
    if (!this.replay) await this.#readMeetings();
    this.#root.replaceChildren(
      element("div", { class: "top" }, this.#bar.element, this.#next.element),
      element("div", { class: "columns" }, this.#main, this.#news.element),
    );
    addEventListener("hashchange", this.#navigate);
    this.live.connect();
    this.#timers = [setInterval(() => this.#tick(), TICK_MS), setInterval(() => this.#readAgain(), READ_AGAIN_MS)];
    // A replay shows its first moment once the channel is there.
    if (this.replay) this.#bar.tick();
    else await this.#show(isByVisitor);
  }

  close() {
    this.#visit++;
    removeEventListener("hashchange", this.#navigate);
    for (const timer of this.#timers) clearInterval(timer);
    this.live.close();
    this.#view?.close();
  }

  /** The time of the service. */
  now() {
    if (this.replay) return this.replay.now();
    return Date.now() + (this.#clockOffset ?? this.api.clockOffset);
  }

  /** A channel of the win and place prices of a race, from each source. */
  quotesOf({ date, venueCode, number }) {
    const races = [{ date, venue: venueCode, race_number: number }];
    return new LiveOdds("ws/live/odds", { apiKey: this.#key, races, events: [], markets: ["win_place"] });
  }

  togglePause() {
    this.painter.isPaused = !this.painter.isPaused;
    this.#bar.tick();
  }

  async #readMeetings() {
    const meetings = [];
    // Of the past, an answer costs what its days have had.
    const days = this.replay ? `?from=${this.replay.date}&to=${this.replay.date}` : "";
    await this.api.pages(`meetings${days}`, "meetings", (rows) => meetings.push(...rows));
    this.#meetings = meetings;
  }

  #meetingsOf(date) {
    return this.#meetings.filter((meeting) => meeting.date === date);
  }

  /** The race days before and after a date. */
  daysBeside(date) {
    const dates = this.#meetings.map((meeting) => meeting.date);
    return {
      before: dates.findLast((other) => other < date),
      after: dates.find((other) => other > date),
    };
  }

  /** The venues of a day: in the order of the list of meetings, then those of which only prices are known. */
  orderedVenues(date, races) {
    const known = this.#meetingsOf(date).map(({ venue_code }) => venue_code);
    return [...new Set([...known, ...races.keys()])].filter((venue) => races.has(venue));
  }

  #navigate = () => {
    const { view, date, at } = address.parse(location.hash);
    if (this.replay ? view !== "horse" && date !== this.replay.date : at) return this.restart();
    if (at && at !== "start") this.replay.seek(Date.parse(at));
    return this.#show(true);
  };

  /** Has another board shown that is live or a replay, as the address has it. */
  restart(fragment = location.hash) {
    this.close();
    // What the replay wrote there meanwhile is no part of it.
    history.replaceState(null, "", fragment);
    this.#again();
  }

  /** Shows what the address names. */
  async #show(isByVisitor) {
    const visit = ++this.#visit;
    this.#root.classList.add("loading");
    try {
      const view = await this.#open(address.parse(location.hash));
      if (visit !== this.#visit) return view?.close();
      this.#replace(view, isByVisitor);
    } catch (error) {
      if (visit === this.#visit) this.report(error);
    } finally {
      if (visit === this.#visit) this.#root.classList.remove("loading");
    }
  }

  async #open(to) {
    if (this.refused && Number.isNaN(this.replay?.now())) throw new ApiError(403, "", this.refused.replace(/\.$/, ""));
    if (to.view === "horse") return HorseView.load(this, to.horse);
    const date = to.date || this.#nextDay();
    this.date = date;
    if (this.replay) await this.#opened.promise;
    // It may have been declared since.
    if (this.#meetingsOf(date).length === 0) await this.#readMeetings();
    await this.#loadDay(date);
    if (to.view === "day") return new DayView(this, date, to.date === "" && date !== this.today);
    return new RaceView(this, this.store.find(date, to.venue, to.number) ?? (await this.#loadBoard(to)));
  }

  #replace(view, isByVisitor) {
    const opened = this.#view?.title === view.title ? this.#view.opened : undefined;
    this.#view?.close();
    this.#view = view;
    this.#main.replaceChildren(view.element);
    this.store.keep(this.date);
    document.title = `${view.title} – Railbird`;
    view.loaded?.(opened);
    this.painter.paintAll();
    this.#tick();
    if (isByVisitor) {
      scrollTo(0, 0);
      view.element.querySelector("h1")?.focus({ preventScroll: true });
    }
    this.painter.quieten();
  }

  /** Today's date in the zone of the service. */
  get today() {
    return dateIn(this.#root.dataset.timeZone, this.now());
  }

  /** The zone of the first racecourse that has one, else that of the service. */
  get zone() {
    return [...this.store.races.values()].find(({ zone }) => zone)?.zone ?? this.#root.dataset.timeZone;
  }

  /** The first race day from today on, else the latest one. */
  #nextDay() {
    const { today } = this;
    const days = this.#meetings.map(({ date }) => date);
    return days.find((date) => date >= today) ?? days.at(-1) ?? today;
  }

  /** Reads the cards and the results of a day, once; from then on the channel keeps them up to date. */
  async #loadDay(date, { isAgain = false } = {}) {
    if (this.#loadedDates.has(date) && !isAgain) return;
    // The channel sends what changes after its snapshots.
    await this.#opened.promise;
    await Promise.all(
      this.#meetingsOf(date).map(async ({ venue_code }) => {
        const query = `?venue=${encodeURIComponent(venue_code)}`;
        const minSeq = { minSeq: this.replay ? null : this.live.state.seq };
        const [cards, results] = await Promise.all([
          this.api.get(`racecards/${date}${query}`, minSeq),
          this.api.get(`results/${date}${query}`, minSeq),
        ]);
        this.store.applyCards(cards.document, cards.seq);
        this.store.applyResults(results.document, results.seq);
      }),
    );
    this.#loadedDates.add(date);
  }

  /** Reads the prices of a race that is on no card and has no result. Throws an `ApiError` if it is not known at all. */
  async #loadBoard({ date, venue, number }) {
    const path = `odds/${date}/${number}?venue=${encodeURIComponent(venue)}`;
    return this.store.applyBoard((await this.api.get(path)).document);
  }

  /** Reads what could not be read. Without the channel, everything. */
  async #readAgain() {
    if (document.hidden || this.date === "" || this.limited) return;
    const { date } = this;
    for (const race of this.store.races.values()) {
      if (!race.history?.isFailed) continue;
      race.history = null;
      this.#view?.changed(race);
    }
    try {
      if (this.refused) return await this.#loadDay(date, { isAgain: true });
      if (this.live.state.phase !== "live") return;
      if (this.#isReset) return await this.#readAfterReset();
      if (this.#meetingsOf(date).length === 0) {
        await this.#readMeetings();
        await this.#loadDay(date, { isAgain: true });
      }
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Reads the dividends of a race that has a result. */
  async loadDividends(race) {
    const path = `results/${race.date}/${race.number}/dividends?venue=${encodeURIComponent(race.venueCode)}`;
    try {
      const { document, seq } = await this.api.get(path);
      race.applyDividends(document, seq);
    } catch (error) {
      this.#failed(error);
    }
    this.#view?.changed(race);
  }

  /** Reads the board and the history of a race, once. What failed is read again. */
  async loadPrices(race) {
    if (race.history !== null) return;
    race.history = new PriceHistory();
    const { history } = race;
    await this.#opened.promise;
    if (this.#wasNeverQuoted(race)) {
      history.isComplete = true;
      return;
    }
    const query = `?venue=${encodeURIComponent(race.venueCode)}`;
    try {
      await history.load(this.api, `odds/${race.date}/${race.number}/history${query}`);
      await this.#loadBoard({ date: race.date, venue: race.venueCode, number: race.number });
    } catch (error) {
      // The plan has no odds, or the log has another history by now.
      if ([403, 404].includes(error.status)) history.isComplete = true;
      else history.isFailed = true;
      this.#failed(error);
    }
    this.#view?.changed(race);
  }

  /** The channel has sent the board of every race that was quoted and is not over. */
  #wasNeverQuoted(race) {
    const isPast = Date.parse(race.date) < this.now() - 2 * DAY_MS;
    return this.live.state.phase === "live" && race.board === null && !race.isOver && !isPast;
  }

  #receive(message) {
    if (this.replay && !this.replay.receive(message)) return;
    if (message.server_time) this.#clockOffset = Date.parse(message.server_time) - Date.now();
    if (message.feed) this.silent = (message.feed.sources ?? []).filter(({ state }) => state === "down");
    if (message.event === "welcome") this.#welcomed(message);
    if (message.event === "resync") this.#startAgain();
    this.store.apply(message);
    const hasNames = ["result_update", "runner_update", "card_update"].includes(message.event);
    if (hasNames && this.api.isTranslated && message.date === this.date) this.#readTranslated();
    if (message.event !== "snapshot_complete") return;
    this.#opened.resolve();
    if (this.replay) this.#showMoment();
    else this.#readAfterReset();
  }

  async #showMoment() {
    await this.#show(false);
    this.replay.arrived();
  }

  /** Shows why there is no replay. */
  refuse(reason) {
    this.refused = reason;
    this.live.close();
    this.#opened.resolve();
    this.#show(false);
    this.#tick();
  }

  /** Reads the documents again for the names in the visitor's language, which messages do not have. */
  async #readTranslated() {
    try {
      await this.#loadDay(this.date, { isAgain: true });
    } catch (error) {
      this.#failed(error);
    }
  }

  #welcomed({ recovered }) {
    if (recovered) {
      this.#bar.resumed();
      this.#announce("The live channel was resumed. Nothing is missing.");
    } else if (this.#hasBeenLive || this.#loadedDates.size > 0) {
      this.#startAgain();
    }
    this.#hasBeenLive = true;
    this.painter.quieten();
  }

  /** What was known does not hold any more. Snapshots follow, and the documents are read again. */
  #startAgain() {
    this.#loadedDates.clear();
    if (this.replay) {
      this.#meetings = [];
      this.store.clear();
      return this.painter.mark(this.#news);
    }
    this.store.reset();
    this.#isReset = true;
    this.painter.quieten();
    this.#announce("The live channel started again.");
  }

  /** Reads the documents again, if they do not hold any more. */
  async #readAfterReset() {
    if (!this.#isReset || this.date === "") return;
    try {
      await this.#readMeetings();
      await this.#loadDay(this.date);
      this.#isReset = false;
      for (const race of this.store.races.values()) this.#view?.changed(race);
      if (this.#view instanceof RaceView) await this.#show(false);
    } catch (error) {
      this.#failed(error);
    }
  }

  #stateChanged({ phase, code, reason }) {
    if (phase === "closed" && (code === 401 || code === 4401)) return this.#onRejectedKey(reason);
    if (this.replay) return phase === "closed" && code ? this.refuse(`${reason}.`) : this.#tick();
    this.refused = phase === "closed" && (code === 403 || code === 4403) ? `${reason}. ${NOT_INCLUDED}` : "";
    if (phase !== "connecting") this.#opened.resolve();
    if (phase === "waiting") this.#announce("The live channel is lost.");
    if (phase === "stale" || phase === "down") this.#announce("Prices may be old.");
    this.#tick();
  }

  #failed(error) {
    if (error.status === 401) this.#onRejectedKey(error.message);
    else if (error.status !== 0) this.#announce(error.message);
  }

  /** Shows an error instead of the view. */
  report(error) {
    if (error.status === 401) return this.#onRejectedKey(error.message);
    this.#view?.close();
    this.#view = null;
    const again = element("button", { type: "button" }, "Try again");
    again.addEventListener("click", () => this.#show(true));
    this.#main.replaceChildren(
      element("h1", { tabindex: "-1" }, "This cannot be shown"),
      element("p", { class: "lead" }, `${error.message}.`),
      element("p", {}, again),
      element("p", {}, element("a", { href: "#/" }, "Today")),
    );
  }

  #announce(text) {
    if (this.#announcements.length === 0) {
      setTimeout(() => {
        this.#announcer.textContent = this.#announcements.splice(0).join(". ");
      }, ANNOUNCE_AFTER_MS);
    }
    this.#announcements.push(text);
    this.painter.mark(this.#news);
  }

  #tick() {
    this.#root.classList.toggle("old", !["live", "resumed"].includes(this.#bar.state));
    this.#bar.tick();
    if (this.painter.isPaused) return;
    this.#next.tick();
    this.#view?.tick();
  }
}
