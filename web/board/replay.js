// A replay of a day: where it is, and the bar that moves it. Its channel is the live one at another address.

import { LiveOdds } from "../railbird.js";
import * as address from "./address.js";
import { waitText } from "./api.js";
import { element, setAttribute, setText } from "./dom.js";
import * as formats from "./formats.js";

const HEARTBEAT_MS = 2_000;
const SPEEDS = [1, 10, 60, 300];
/** A slider that is dragged seeks no more often: each moment takes some requests. */
const SEEK_MS = 700;
/** A step of the slider is a minute, or less where all is over sooner. */
const STEP_MS_MAX = 60_000;
const STEPS_MIN = 500;
/** From the midnight before the races until all bets are settled. Cards come days before. */
const DAY_MS = 30 * 3_600_000;

/** The end of the millisecond of a time: what was stored then is included. */
const upTo = (time) => Date.parse(time) + 1;

/** A date without its weekday. */
const dayOf = (date) => formats.day(date).replace(/^\S+ /, "");

/** The time of a midnight. */
function midnight(date, zone) {
  const utc = Date.parse(date);
  const there = new Date(utc).toLocaleString("sv-SE", { timeZone: zone }).replace(" ", "T");
  return 2 * utc - Date.parse(`${there}Z`);
}

export class ReplayBar {
  #board;
  /** Where the replay was at `#since`, since when it plays; it stands still if that is `null`. */
  #at;
  #since = null;
  #first = -Infinity;
  #last = Infinity;
  #isPlaying;
  #speed = 60;
  /** Whether it was moved and the page may be moved no further yet, and the moment that is wanted next. */
  #isMoving = false;
  #wanted = null;
  #movedAt = 0;
  /** Whether the page shows the moment. */
  #isShown = false;
  /** Whether messages are of the moment that is shown, and not of the one before. */
  #isThere = false;
  #moment;
  #begin = element("span");
  #end = element("span");
  #play = element("button", { type: "button", class: "quiet" });
  #slider = element("input", { type: "range", "aria-label": "Time of the replay" });
  #problem = element("p", { class: "banner", hidden: true });

  /** Begins at a moment, or with the first message of the day if `at` is `start`. */
  constructor(board, key, date, at) {
    this.#board = board;
    this.date = date;
    this.#moment = element("b", {}, `Replay of ${dayOf(date)}`);
    this.#at = Date.parse(at);
    this.#isPlaying = at === "start";
    this.live = new LiveOdds(`ws/replay/odds?date=${date}`, { apiKey: key, heartbeatMs: HEARTBEAT_MS });
    const back = element("button", { type: "button", class: "quiet" }, "Back to live");
    back.addEventListener("click", () => board.restart(location.hash.split("?")[0]));
    const speeds = SPEEDS.map((speed) =>
      element("option", { value: speed, selected: speed === this.#speed }, `${speed}×`),
    );
    const speed = element("select", { "aria-label": "Speed" }, ...speeds);
    speed.addEventListener("change", () => this.#change(this.#isPlaying, Number(speed.value)));
    this.#play.addEventListener("click", () => this.#toggle());
    this.#slider.addEventListener("input", () => this.seek(Number(this.#slider.value)));
    this.element = element(
      "section",
      { class: "replay", "aria-label": "Replay" },
      element("p", { class: "banner" }, this.#moment, back),
      element("p", { class: "figures" }, this.#play, speed, element("span", {}, this.#begin, this.#slider, this.#end)),
      this.#problem,
    );
  }

  /** The time of the log; NaN before it is known. */
  now() {
    const passed = this.#since === null ? 0 : (performance.now() - this.#since) * this.#speed;
    return Math.min(this.#at + passed, this.#last);
  }

  /** The moment as the API and addresses have it. */
  get asOf() {
    return new Date(this.now()).toISOString();
  }

  get state() {
    const { phase } = this.live.state;
    return ["waiting", "closed"].includes(phase) ? phase : "live";
  }

  /** Takes a message. Returns whether it is one of the moment that is shown. */
  receive(message) {
    const { event, recorded_at } = message;
    if (event === "welcome") this.#welcome(message.replay);
    if (event === "resync") this.#isThere = true;
    if (!this.#isThere) return false;
    if (event === "snapshot_complete") this.#run();
    if (upTo(recorded_at) > this.now()) {
      this.#at = upTo(recorded_at);
      this.#run();
    }
    return true;
  }

  #welcome(span) {
    this.#isMoving = false;
    this.#wanted = null;
    if (!span) return this.#board.refuse("The log has nothing of this day.");
    const [first, last] = [upTo(span.first_at), upTo(span.last_at)];
    const begin = midnight(this.date, this.#board.zone);
    const isOnDay = first < begin + DAY_MS && last > begin;
    [this.#first, this.#last] = isOnDay ? [Math.max(first, begin), Math.min(last, begin + DAY_MS)] : [first, last];
    if (Number.isNaN(this.#at)) this.#at = this.#first;
    // An address may have any moment.
    this.#at = Math.min(Math.max(this.#at, first), last);
    this.#first = Math.min(this.#first, this.#at);
    this.#last = Math.max(this.#last, this.#at);
    const range = this.#last - this.#first;
    const step = Math.max(1, Math.min(STEP_MS_MAX, Math.floor(range / STEPS_MIN)));
    const max = this.#first + Math.ceil(range / step) * step;
    for (const [name, value] of Object.entries({ min: this.#first, max, step }))
      setAttribute(this.#slider, name, `${value}`);
    this.seek(this.#at);
  }

  /** Moves to a moment. What is on the page follows, and then [`arrived`] is called. */
  seek(at) {
    const moment = Math.min(Math.max(at, this.#first), this.#last);
    if (this.#isMoving) this.#wanted = moment;
    else {
      this.#at = moment;
      this.#since = null;
      this.#isMoving = true;
      this.#isThere = this.#isShown = false;
      this.#movedAt = performance.now();
      // Messages before that time are played: those up to the moment, as in the answers of the API.
      this.live.play({ seek: this.asOf.replace("Z", "001Z"), paused: !this.#isPlaying, speed: this.#speed });
    }
    this.tick();
  }

  /** The page shows the moment that was sought. */
  arrived() {
    this.#isShown = true;
    this.tick();
    setTimeout(
      () => {
        this.#isMoving = false;
        if (this.#wanted !== null) this.seek(this.#wanted);
        this.#wanted = null;
      },
      this.#movedAt + SEEK_MS - performance.now(),
    );
  }

  /** Time passes from here on, if it is played. */
  #run() {
    this.#since = this.#isPlaying && this.#isThere ? performance.now() : null;
  }

  #change(isPlaying, speed) {
    this.#at = this.now();
    this.#isPlaying = isPlaying;
    this.#speed = speed;
    this.#run();
    this.live.play({ paused: !isPlaying, speed });
    this.tick();
  }

  #toggle() {
    const isOver = this.now() >= this.#last;
    this.#change(!this.#isPlaying, this.#speed);
    if (isOver && this.#isPlaying) this.seek(this.#first);
  }

  tick() {
    const now = this.now();
    const problem = this.#explain();
    setText(this.#problem, problem);
    this.#problem.hidden = problem === "";
    setText(this.#play, this.#isPlaying ? "Pause" : "Play");
    if (Number.isNaN(now)) return;
    // Without a connection it stands still.
    if (this.state !== "live") [this.#at, this.#since] = [now, null];
    if (now >= this.#last && this.#isPlaying && !this.#isMoving) return this.#change(false, this.#speed);
    const { zone } = this.#board;
    setText(this.#begin, formats.clock(this.#first, { zone }));
    setText(this.#end, formats.clock(this.#last, { zone }));
    this.#slider.value = this.#wanted ?? now;
    setAttribute(this.#slider, "aria-valuetext", this.#words(this.#wanted ?? now));
    if (!this.#isShown) return;
    const isOnDay = formats.dateIn(zone, now) === this.date;
    setText(this.#moment, `Replay of ${dayOf(this.date)}${isOnDay ? "," : " as of"} ${this.#words(now)}`);
    const here = address.asOf(location.hash, this.date, this.asOf);
    if (here !== location.hash && !this.#isMoving) history.replaceState(history.state, "", here);
  }

  /** A moment: the time at the racecourse, with the date if it is another one. */
  #words(time) {
    const { zone } = this.#board;
    const on = formats.dateIn(zone, time);
    const clock = formats.clock(time, { seconds: true, zone });
    return on === this.date ? clock : `${dayOf(on)}, ${clock}`;
  }

  #explain() {
    const { refused, limited } = this.#board;
    const { reason } = this.live.state;
    if (refused) return refused;
    if (this.state === "waiting") return `The replay stands still: ${reason}. It goes on by itself.`;
    return limited ? waitText(limited) : "";
  }
}
