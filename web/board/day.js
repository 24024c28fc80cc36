// A day: its meetings, and their races in the order of the card. A race is a line that opens to its runners.

import * as address from "./address.js";
import { element, setAttribute, setText } from "./dom.js";
import * as formats from "./formats.js";
import { RunnersTable, resultTable } from "./runners.js";

/** A race of the day: a line with its state, and, once opened, its runners. */
class RaceLine {
  #parts = {
    status: element("span", { class: "status" }),
    time: element("span", { class: "time" }),
    name: element("span", { class: "name" }),
    detail: element("span", { class: "detail" }),
    outlook: element("span", { class: "outlook" }),
  };
  #body = element("div", { class: "race-body" });
  #table = null;
  #resultVersion = -1;
  #market = element("p", { class: "market" });
  #isInView = true;

  constructor(board, race) {
    this.board = board;
    this.race = race;
    const { status, time, name, detail, outlook } = this.#parts;
    this.element = element(
      "details",
      { class: "race", id: `race-${race.venueCode}-${race.number}` },
      element("summary", {}, element("b", { class: "label" }, race.label), time, name, detail, status, outlook),
      this.#body,
    );
    this.element.addEventListener("toggle", () => this.#toggle());
    this.element.addEventListener("contentvisibilityautostatechange", ({ skipped }) => {
      this.#isInView = !skipped;
      this.#toggle();
    });
  }

  get #hasResult() {
    return this.race.result !== null && this.race.result.runners.length > 0;
  }

  open() {
    this.element.open = true;
  }

  #toggle() {
    if (this.element.open) this.board.painter.mark(this);
  }

  /** Writes the countdown, and has the price lines drawn that lack the latest prices. */
  tick(now) {
    setText(this.#parts.outlook, outlookOf(this.race, now));
    if (this.element.open && this.#isInView && this.#table?.isBehind) this.board.painter.mark(this);
  }

  paint(isEmphasized) {
    const { race } = this;
    const { time, name, detail, status, outlook } = this.#parts;
    setText(time, race.offTime ? formats.clock(race.offTime, { zone: race.zone }) : "");
    setText(name, race.name);
    setText(detail, formats.conditions(race));
    showStatus(status, race);
    setText(outlook, outlookOf(race, this.board.now()));
    if (this.element.open) this.#paintBody(isEmphasized);
  }

  #paintBody(isEmphasized) {
    const { race } = this;
    if (this.#hasResult) {
      if (this.#resultVersion !== race.version) {
        this.#resultVersion = race.version;
        this.#table = null;
        this.#body.replaceChildren(this.#links(), resultTable(race, race.result));
      }
      return;
    }
    this.board.loadPrices(race);
    if (this.#table === null || this.#resultVersion !== -1) {
      this.#resultVersion = -1;
      this.#table = new RunnersTable(race, this.board);
      this.#body.replaceChildren(this.#market, this.#table.element, this.#links());
    }
    setText(this.#market, marketText(race));
    this.#table.paint(isEmphasized, this.#isInView);
  }

  #links() {
    const { race } = this;
    const to = address.ofRace(race.date, race.venueCode, race.number);
    return element("p", { class: "links" }, element("a", { href: to }, `${race.label}: chart, result and sources`));
  }
}

/** Writes the status of a race, with that of its result. */
export function showStatus(node, race) {
  const word = race.resultWord || formats.statusWord(race.status);
  setText(node, word);
  setAttribute(node, "data-status", word.toLowerCase());
}

/** The market percentage in words, and the time of the prices. */
export function marketText(race) {
  const { percentage, priced, running } = race.market;
  if (priced === 0) {
    const isKnown = race.board !== null || race.history?.isComplete;
    return race.statusReason || (isKnown ? "No price is known." : "Prices are being read.");
  }
  const of = priced < running ? `, ${priced} of ${running} priced` : "";
  return `Market ${formats.percent(percentage)}${of} · prices of ${formats.moment(race.board.recorded_at, race.zone, race.date)}`;
}

/** What is next in a race, or what came out. */
function outlookOf(race, now) {
  if (race.status === "abandoned") return race.statusReason || race.result?.reason || "";
  if (race.result?.status === "void") return race.result.reason;
  if (race.result !== null) {
    return formats.order(race.result.runners.filter(({ position }) => position <= 3));
  }
  if (race.isOver || !race.offTime) return race.statusReason;
  const left = Date.parse(race.offTime) - now;
  if (race.status === "off") return "running";
  return formats.countdown(left);
}

export class DayView {
  #board;
  #date;
  #lines = new Map();
  #hasOpened = false;
  #meetings = element("div", { class: "meetings" });
  #empty = element("p", { class: "lead" }, "No meeting is known for this day.");

  /** `isInstead` says that it is shown because today has no meeting. */
  constructor(board, date, isInstead) {
    this.#board = board;
    this.#date = date;
    this.title = formats.day(date);
    const pick = element("input", {
      type: "date",
      value: date,
      "aria-label": "Another day",
      min: "1700-01-01",
      max: "2999-12-31",
    });
    pick.addEventListener("change", () => {
      if (pick.value !== "") location.hash = address.ofDay(pick.value);
    });
    const all = element("button", { type: "button", class: "quiet" }, "Open all races");
    all.addEventListener("click", () => {
      const isOpening = this.#isAnyClosed();
      for (const line of this.#lines.values()) line.element.open = isOpening;
      setText(all, isOpening ? "Close all races" : "Open all races");
    });
    const { before, after } = board.daysBeside(date);
    const start = address.asOf(address.ofDay(date), date, "start");
    const replay = element("a", { class: "button", href: start }, "Replay this day");
    this.element = element(
      "section",
      { class: "day" },
      element("h1", { tabindex: "-1" }, formats.day(date)),
      element(
        "nav",
        { class: "days", "aria-label": "Days" },
        arrow(before, "before", "The race day before"),
        pick,
        arrow(after, "after", "The race day after"),
        !board.replay && date <= board.today && board.store.meetings(date).size > 0 && replay,
        all,
      ),
      isInstead && element("p", { class: "lead" }, "No meeting is known for today. This is the nearest race day."),
      this.#empty,
      this.#meetings,
    );
    this.#arrange();
    this.tick();
  }

  #isAnyClosed() {
    return [...this.#lines.values()].some((line) => !line.element.open);
  }

  /** Makes the lines of the races that are known. They stay in the order of the card. */
  #arrange() {
    const meetings = this.#board.store.meetings(this.#date);
    const sections = this.#board.orderedVenues(this.#date, meetings).map((venue) => {
      const races = meetings.get(venue);
      const lines = races.map((race) => {
        if (!this.#lines.has(race.key)) {
          this.#lines.set(race.key, new RaceLine(this.#board, race));
          this.#board.painter.mark(this.#lines.get(race.key));
        }
        return this.#lines.get(race.key).element;
      });
      const name = races[0].venue === venue ? venue : `${races[0].venue} (${venue})`;
      const heading = element("h2", { id: `meeting-${venue}` }, name, zoneOf(races));
      return element("section", { class: "meeting", "aria-labelledby": `meeting-${venue}` }, heading, ...lines);
    });
    this.#meetings.replaceChildren(...sections);
    this.#empty.hidden = sections.length > 0;
  }

  /** The races whose runners are shown. */
  get opened() {
    return [...this.#lines].filter(([, line]) => line.element.open).map(([race]) => race);
  }

  /** Opens the next race of each meeting, or those that were opened, once the documents are there. */
  loaded(opened) {
    this.#arrange();
    for (const race of opened ?? []) this.#lines.get(race)?.open();
    if (this.#hasOpened || opened) return;
    for (const races of this.#board.store.meetings(this.#date).values()) {
      const next = races.find((race) => !race.isOver) ?? races[0];
      if (next.prices.size > 0 || next.runners.size > 0) this.#lines.get(next.key).open();
      this.#hasOpened = true;
    }
  }

  racesChanged(date) {
    if (date === this.#date) this.#arrange();
  }

  changed(race) {
    const line = this.#lines.get(race.key);
    if (line) this.#board.painter.mark(line);
  }

  tick() {
    for (const line of this.#lines.values()) line.tick(this.#board.now());
  }

  close() {
    for (const line of this.#lines.values()) this.#board.painter.drop(line);
  }
}

/** Whose times the off times of a meeting are, if they are not the visitor's. */
function zoneOf(races) {
  const race = races.find(({ offTime }) => offTime);
  const note = race && formats.zoneNote(race.zone, Date.parse(race.offTime));
  return note && element("span", { class: "zone" }, note);
}

function arrow(date, side, name) {
  if (!date) return element("span", { class: `arrow ${side} none`, "aria-hidden": "true" });
  const label = `${name}, ${formats.day(date)}`;
  return element("a", { class: `arrow ${side}`, href: address.ofDay(date), "aria-label": label, title: label });
}
