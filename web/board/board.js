// The board: wires the channel, the API, the store and the views.

import { LiveOdds } from "../railbird.js";
import * as address from "./address.js";
import { Api, ApiError } from "./api.js";
import { ChannelBar } from "./channelbar.js";
import { DayView } from "./day.js";
import { element, setText } from "./dom.js";
import { age, dateIn, day, whole } from "./formats.js";
import { PriceHistory } from "./history.js";
import { load } from "./load.js";
import { News, NextRaces } from "./nextraces.js";
import { Painter } from "./painter.js";
import * as places from "./places.js";
import { RaceView } from "./raceview.js";
import { ReplayBar } from "./replay.js";
import { Store } from "./store.js";
import { Tools } from "./tools.js";

/** A short interval, so that a lost connection is noticed within seconds. */
const HEARTBEAT_MS = 2_000;
const TICK_MS = 1_000;
const DAY_MS = 86_400_000;
/** What could not be read is read again at this distance. */
const READ_AGAIN_MS = 10_000;
/** Without the channel, changes are read at this distance: a free plan lasts for the day. */
const CHANGES_MS = 60_000;
/** Messages without the names in the visitor's language are gathered for as long. */
const TRANSLATE_AFTER_MS = 2_000;
/** A view that is slower says what is being read, also where the one before is still shown. */
const SLOW_MS = 1_500;
/** News of the same moment are announced together, so that a screen reader is not flooded. */
const ANNOUNCE_AFTER_MS = 1_000;

const NOT_INCLUDED =
  "Your plan has no live odds: cards, results and form are read each minute. The plans are under Pricing.";

/** The modules of views that are loaded when they are needed, and what they read. */
const VIEWS = {
  horse: { module: "horse", what: "The horse is being read." },
  person: { module: "person", what: "The figures are being read." },
  search: { module: "searchview", what: "The search is running." },
  following: { module: "following", what: "The races of the coming days are being read." },
};
/** Days ahead of which cards are read: few races are declared sooner. */
const DAYS_AHEAD = 7;

/** Why the channel could not resume. */
const LOST = {
  too_far_behind: "more was missed than the service keeps",
  unproven: "the place in the log could not be proven",
};
const ANOTHER_LOG = "the log is another one";

export class Board {
  store;
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
  #meetingsReadAt = -Infinity;
  /** What is being read for a view, and since when; `null` once it is shown. */
  #reading = null;
  #progressTitle = element("h1", {}, "The live board");
  #progressText = element("p");
  #progress = element("div", { class: "progress", hidden: true }, this.#progressTitle, this.#progressText);
  /** The log sequence up to which the documents of the day are known, and when changes were last read. */
  #readSeq = 0;
  #changesReadAt = -Infinity;
  /** When the channel was last known to be there before it was lost, and the `welcome` after that. */
  #lostAt = null;
  #welcome = null;
  /** The venues of which names have to be read. */
  #translating = new Set();
  /** The same as that of the API, but to the millisecond; `null` until the channel has sent it. */
  #clockOffset = null;
  #announcements = [];
  #loadedDates = new Set();
  /** The days of which the cards alone are known. */
  #aheadDates = new Set();
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

  /**
   * `reject` is called with a text once the key is no longer accepted, `again` when another board has to replace it, and
   * `forget` to forget the key, unless the visitor is signed in.
   */
  constructor(root, announcer, key, { reject, again, forget }) {
    this.#root = root;
    this.#announcer = announcer;
    this.#key = key;
    this.#onRejectedKey = reject;
    this.#again = again;
    this.store = new Store(root.dataset.timeZone);
    const { date, at } = address.parse(location.hash);
    /** The [`ReplayBar`] of a board that shows the past; nothing of it is live. */
    this.replay = at ? new ReplayBar(this, key, date, at) : null;
    this.api = new Api(key, this.replay ? () => this.replay.asOf : undefined);
    this.live = this.replay?.live ?? new LiveOdds("ws/live/odds", { apiKey: key, heartbeatMs: HEARTBEAT_MS });
    this.#bar = this.replay ?? new ChannelBar(this);
    this.#next = new NextRaces(this);
    this.#news = new News(this);
    this.#tools = new Tools(this, forget);
    this.#listen();
  }

  #bar;
  #next;
  #news;
  #tools;

  #listen() {
    this.live.addEventListener("message", ({ detail }) => this.#receive(detail));
    this.live.addEventListener("state", ({ detail }) => this.#stateChanged(detail));
    this.store.addEventListener("change", ({ detail: race }) => this.#view?.changed(race));
    this.store.addEventListener("races", ({ detail: race }) => this.#view?.racesChanged?.(race));
    this.store.addEventListener("news", ({ detail }) => this.#announce(`${detail.race.title}: ${detail.text}`));
    this.api.addEventListener("limited", ({ detail }) => {
      this.limited = detail;
      this.#bar.tick();
      this.#showProgress();
    });
  }

  /** Shows the board, once the key is known to be valid. Throws an `ApiError` otherwise. */
  async start(isByVisitor) {
    this.#root.replaceChildren(
      element("div", { class: "top" }, this.#bar.element, this.#next.element),
      this.#progress,
      element("div", { class: "columns" }, this.#main, this.#news.element),
    );
    this.#tools.open();
    this.#timers = [setInterval(() => this.#tick(), TICK_MS), setInterval(() => this.#readAgain(), READ_AGAIN_MS)];
    this.#bar.tick();
    addEventListener("online", this.reconnect);
    addEventListener("pagehide", this.#keepPlace);
    await this.#begin(isByVisitor);
  }

  async #begin(isByVisitor) {
    const visit = ++this.#visit;
    try {
      this.#reads("The list of meetings is being read.");
      if (!this.replay) await this.#readMeetings();
    } catch (error) {
      if (error.status === 401) throw error;
      return this.report(error, () => this.#begin(true).catch((error) => this.report(error)));
    }
    // It was closed meanwhile.
    if (visit !== this.#visit) return;
    addEventListener("hashchange", this.#navigate);
    this.live.connect();
    this.#reads("The replay is being opened.");
    const place = places.arrive();
    // A replay shows its first moment once the channel is there.
    if (!this.replay) await this.#show(isByVisitor, place);
  }

  close() {
    this.#visit++;
    removeEventListener("hashchange", this.#navigate);
    removeEventListener("online", this.reconnect);
    removeEventListener("pagehide", this.#keepPlace);
    for (const timer of this.#timers) clearInterval(timer);
    this.live.close();
    this.#tools.close();
    this.#view?.close();
    this.#root.classList.remove("loading", "old");
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

  /** Connects at once, instead of after the pause. */
  reconnect = () => {
    if (this.live.state.phase === "waiting") this.live.connect();
  };

  /** Writes all prices again: the visitor reads them in another format. */
  rewritePrices() {
    this.#view?.rewrite?.();
    this.painter.paintAll();
  }

  #keepPlace = () => {
    if (this.#view) places.keep(this.#view);
  };

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
    this.#meetingsReadAt = performance.now();
  }

  #meetingsOf(date) {
    return this.#meetings.filter((meeting) => meeting.date === date);
  }

  /** All meetings, oldest first; in a replay, those of its day. */
  get meetings() {
    return this.#meetings;
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
    // Before the view is there, the page is at none of its places.
    if (this.#view && !this.#reading) places.leave(this.#view);
    const place = places.arrive();
    const { view, date, at } = address.parse(location.hash);
    if (this.replay ? view !== "horse" && date !== this.replay.date : at) return this.restart();
    if (at && at !== "start") this.replay.seek(Date.parse(at));
    return this.#show(true, place);
  };

  /** Has another board shown that is live or a replay, as the address has it. */
  restart(fragment = location.hash) {
    this.close();
    // What the replay wrote there meanwhile is no part of it.
    history.replaceState(history.state, "", fragment);
    this.#again();
  }

  /** Shows what the address names, at the place where the visitor left it. */
  async #show(isByVisitor, place = null) {
    const visit = ++this.#visit;
    const to = address.parse(location.hash);
    this.#reads(VIEWS[to.view]?.what ?? `Cards and results of ${day(to.date || this.#nextDay())} are being read.`);
    try {
      const view = await this.#open(to);
      if (visit !== this.#visit) return view?.close();
      this.#replace(view, isByVisitor, place);
    } catch (error) {
      if (visit === this.#visit) this.report(error);
    }
  }

  #reads(what) {
    this.#reading = { what, since: performance.now() };
    // It has an error, if anything.
    if (this.#view === null) this.#main.replaceChildren();
    this.#showProgress();
  }

  /** Says what is being read, and for how long. Nothing is blank meanwhile; the bar says why it has to wait. */
  #showProgress() {
    const { what, since } = this.#reading ?? {};
    const ms = performance.now() - since;
    const isShown = this.#reading !== null && (this.#view === null || ms > SLOW_MS);
    this.#root.classList.toggle("loading", this.#reading !== null);
    this.#progress.hidden = !isShown;
    this.#progress.classList.toggle("over", this.#view !== null);
    this.#progressTitle.hidden = this.#view !== null;
    if (!isShown) return;
    const slowly = ms > SLOW_MS ? ` (${age(ms)})` : "";
    setText(this.#progressText, `${what}${slowly}`);
  }

  async #open(to) {
    if (this.refused && Number.isNaN(this.replay?.now())) throw new ApiError(403, "", this.refused.replace(/\.$/, ""));
    if (to.view in VIEWS) return (await load(VIEWS[to.view].module)).load(this, to);
    const date = to.date || this.#nextDay();
    this.date = date;
    if (this.replay) await this.#opened.promise;
    // It may have been declared since.
    const isOld = performance.now() - this.#meetingsReadAt > READ_AGAIN_MS;
    if (isOld && this.#meetingsOf(date).length === 0) await this.#readMeetings();
    await this.#loadDay(date);
    if (to.view === "day") return new DayView(this, date, to.date === "" && date !== this.today);
    return new RaceView(this, this.store.find(date, to.venue, to.number) ?? (await this.#loadBoard(to)));
  }

  #replace(view, isByVisitor, place) {
    const opened = this.#view?.title === view.title ? this.#openedNow() : place?.opened;
    this.#view?.close();
    this.#view = view;
    this.#reading = null;
    this.#showProgress();
    this.#main.replaceChildren(view.element);
    this.#news.element.hidden = false;
    this.store.keep(this.date);
    document.title = `${view.title} – Railbird`;
    view.loaded?.(opened);
    this.painter.paintAll();
    this.#tick();
    if (place) places.restore(place, view);
    else if (isByVisitor) {
      scrollTo(0, 0);
      view.element.querySelector("h1")?.focus({ preventScroll: true });
    }
    this.painter.quieten();
  }

  /** The races that are open, and stay so. In a replay, another race may be next. */
  #openedNow() {
    const { opened } = this.#view;
    return this.replay && opened?.length === 0 ? undefined : opened;
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

  /**
   * Reads the cards and the results of all meetings of a day, or of one, once. From then on the channel keeps them up
   * to date.
   */
  async #loadDay(date, { isAgain = false, venue = "" } = {}) {
    if (this.#loadedDates.has(date) && !isAgain) return;
    // The channel sends what changes after its snapshots.
    await this.#opened.promise;
    const days = `?from=${date}&to=${date}${venue && `&venue=${encodeURIComponent(venue)}`}`;
    const options = { minSeq: this.replay ? null : this.live.state.seq };
    const cards = [];
    const results = [];
    const take = (pages) => (races, _, seq) => pages.push({ races, seq });
    await Promise.all([
      this.api.pages(`racecards${days}`, "races", take(cards), options),
      this.api.pages(`results${days}`, "races", take(results), options),
    ]);
    for (const { races, seq } of cards) this.store.applyCards(races, seq);
    for (const { races, seq } of results) this.store.applyResults(races, seq);
    this.#readSeq = Math.min(...[...cards, ...results].map(({ seq }) => seq));
    this.#loadedDates.add(date);
  }

  /** Reads the cards of today and of the coming days that are not known yet. The channel keeps them up to date. */
  async loadAhead() {
    if (this.replay) return;
    await this.#opened.promise;
    const { today } = this;
    this.date ||= this.#nextDay();
    const last = dateIn("UTC", Date.parse(today) + DAYS_AHEAD * DAY_MS);
    const isUnknown = (date) =>
      date >= today && date <= last && !this.#loadedDates.has(date) && !this.#aheadDates.has(date);
    const dates = this.#meetings.map(({ date }) => date).filter(isUnknown);
    if (dates.length === 0) return;
    const days = `from=${dates[0]}&to=${dates.at(-1)}`;
    const options = { minSeq: this.live.state.seq };
    await this.api.pages(`racecards?${days}`, "races", (races, _, seq) => this.store.applyCards(races, seq), options);
    for (const date of dates) this.#aheadDates.add(date);
  }

  /** The name of a racecourse, or its code. */
  venueName(code) {
    return this.#meetings.find(({ venue_code }) => venue_code === code)?.venue ?? code;
  }

  /** Reads the prices of a race that is on no card and has no result. Throws an `ApiError` if it is not known at all. */
  async #loadBoard({ date, venue, number }) {
    const path = `odds/${date}/${number}?venue=${encodeURIComponent(venue)}`;
    return this.store.applyBoard((await this.api.get(path)).document);
  }

  /** Reads what could not be read. Without the channel, what has changed. */
  async #readAgain() {
    if (document.hidden || this.date === "" || this.limited) return;
    const { date } = this;
    for (const race of this.store.races.values()) {
      if (!race.history?.isFailed) continue;
      race.history = null;
      this.#view?.changed(race);
    }
    try {
      const { phase } = this.live.state;
      if (phase === "live" && this.#isReset) await this.#readAfterReset();
      // It is refused, or nothing lets it through.
      if (["closed", "waiting"].includes(phase) && !this.replay) await this.#readChanges(date);
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Reads the day again if the log has anything new about it. */
  async #readChanges(date) {
    if (performance.now() - this.#changesReadAt < CHANGES_MS || !this.#loadedDates.has(date)) return;
    this.#changesReadAt = performance.now();
    const { document } = await this.api.get(`changes?after=${this.#readSeq}`);
    this.#readSeq = document.after;
    if (document.more || document.changes.some((change) => change.date === date)) {
      await this.#loadDay(date, { isAgain: true });
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
    const isFollowed = () => this.live.state.phase === "live" && race.board !== null;
    await this.#opened.promise;
    if (this.#wasNeverQuoted(race)) {
      history.isComplete = true;
      return;
    }
    const query = `?venue=${encodeURIComponent(race.venueCode)}`;
    try {
      await history.load(this.api, `odds/${race.date}/${race.number}/history${query}`);
      // The channel has the board of an open race.
      if (!isFollowed()) await this.#loadBoard({ date: race.date, venue: race.venueCode, number: race.number });
    } catch (error) {
      // The plan has no odds, or the log has another history by now.
      if ([403, 404].includes(error.status)) history.isComplete = true;
      else history.isFailed = true;
      if (error.status === 403) history.problem = "Prices are not in your plan.";
      else if (history.isFailed) history.problem = `${error.message}. Prices are read again.`;
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
    if (message.event === "resync") {
      this.#startAgain();
      this.say(`Started again: ${message.reason}. All prices are sent again.`);
    }
    this.store.apply(message);
    const hasNames = ["result_update", "runner_update", "card_update"].includes(message.event);
    if (hasNames && this.api.isTranslated && message.date === this.date) this.#translate(message.venue_code);
    if (message.event !== "snapshot_complete") return;
    this.#opened.resolve();
    this.#completed(message);
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

  /** Reads the documents of a venue again for the names in the visitor's language, which messages do not have. */
  #translate(venue) {
    this.#translating.add(venue);
    if (this.#translating.size === 1) setTimeout(() => this.#readTranslated(), TRANSLATE_AFTER_MS);
  }

  async #readTranslated() {
    const venues = [...this.#translating];
    this.#translating.clear();
    try {
      for (const venue of venues) await this.#loadDay(this.date, { isAgain: true, venue });
    } catch (error) {
      this.#failed(error);
    }
  }

  #welcomed(message) {
    this.#welcome = message;
    if (!message.recovered && (this.#hasBeenLive || this.#loadedDates.size > 0)) this.#startAgain();
    this.#hasBeenLive = true;
    this.painter.quieten();
  }

  /** Says what was missed while the channel was lost. */
  #completed({ replayed }) {
    if (this.#lostAt === null) return;
    const { recovered, reason } = this.#welcome;
    const lost = `after ${age(Date.now() - this.#lostAt)} without a connection`;
    const missed = replayed === 1 ? "1 message was" : `${whole(replayed)} messages were`;
    this.#lostAt = null;
    if (recovered) this.#bar.resumed?.();
    const text = recovered
      ? `Resumed ${lost}: ${replayed === 0 ? "nothing was missed" : `${missed} missed, and now followed`}.`
      : `Started again ${lost}: ${LOST[reason] ?? ANOTHER_LOG}. All prices were sent again.`;
    this.say(text);
  }

  /** Says something that the visitor should know. */
  say(text) {
    this.#bar.missed?.(text);
    this.#announce(text);
  }

  /** What was known does not hold any more. Snapshots follow, and the documents are read again. */
  #startAgain() {
    this.#loadedDates.clear();
    this.#aheadDates.clear();
    if (this.replay) {
      this.#meetings = [];
      this.store.clear();
      return this.painter.mark(this.#news);
    }
    this.store.reset();
    this.#isReset = true;
    this.painter.quieten();
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
    this.refused = phase === "closed" && (code === 403 || code === 4403) ? NOT_INCLUDED : "";
    if (phase !== "connecting") this.#opened.resolve();
    if (phase === "waiting") {
      if (this.#hasBeenLive) this.#lostAt ??= this.live.state.lastMessageAt;
      this.#announce("The live channel is lost.");
    }
    if (phase === "stale" || phase === "down") this.#announce("Prices may be old.");
    this.#tick();
  }

  #failed(error) {
    if (error.status === 401) this.#onRejectedKey(error.message);
    else if (error.status !== 0) this.#announce(error.message);
  }

  /** Shows an error instead of the view, with a button that does it again, unless it is that nothing is there. */
  report(error, tryAgain = () => this.#show(true)) {
    if (error.status === 401) return this.#onRejectedKey(error.message);
    this.#view?.close();
    this.#view = null;
    this.#reading = null;
    this.#showProgress();
    const again = element("button", { type: "button" }, "Try again");
    again.addEventListener("click", () => tryAgain());
    this.#main.replaceChildren(
      element("h1", { tabindex: "-1" }, "This cannot be shown"),
      element("p", { class: "lead" }, `${error.message}.`),
      error.status === 404 ? element("p", {}, "Look for it with the search above.") : element("p", {}, again),
      // Without the meetings, no day can be shown.
      element("p", { hidden: this.#meetings.length === 0 }, element("a", { href: "#/" }, "Today")),
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
    this.#showProgress();
    if (this.painter.isPaused) return;
    this.#next.tick();
    this.#view?.tick();
  }
}
