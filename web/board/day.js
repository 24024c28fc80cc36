// A day: its meetings, and their races in the order of the card. A race is a row that opens to its runners.

import * as address from "./address.js";
import { DayGrid } from "./daygrid.js";
import { arrange, element, onDemand, setAttribute, setText } from "./dom.js";
import * as formats from "./formats.js";
import { nextRaces } from "./nextraces.js";
import { oddsChoice } from "./odds.js";
import { RunnersTable, resultTable } from "./runners.js";

/** A race of the day: a line with its state, and, once opened, its runners. */
class RaceLine {
  #parts = {
    status: element("span", { class: "status" }),
    time: element("b", { class: "time" }),
    name: element("span", { class: "name" }),
    detail: element("span", { class: "detail" }),
    left: element("span", { class: "left" }),
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
    const { status, time, name, detail, left, outlook } = this.#parts;
    const label = element("span", { class: "label" }, race.label);
    this.element = element(
      "details",
      { class: "race", id: `race-${race.venueCode}-${race.number}` },
      element("summary", {}, time, label, name, detail, status, left, outlook),
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

  /** Opens it with the page: what is below must not move once the browser knows its height. */
  open() {
    this.element.open = true;
    this.element.classList.add("at-once");
    this.#toggle();
  }

  #toggle() {
    if (this.element.open) this.board.painter.mark(this);
  }

  /** Writes the countdown, and has the price lines drawn that lack the latest prices. */
  tick(now) {
    setText(this.#parts.left, leftOf(this.race, now));
    if (this.element.open && this.#isInView && this.#table?.isBehind) this.board.painter.mark(this);
  }

  paint(isEmphasized) {
    const { race } = this;
    const { time, name, detail, status, left, outlook } = this.#parts;
    setText(time, race.offTime ? formats.clock(race.offTime, { zone: race.zone }) : "");
    setText(name, race.name);
    setText(detail, formats.conditions(race));
    showStatus(status, race);
    setText(left, leftOf(race, this.board.now()));
    setText(outlook, outlookOf(race));
    setAttribute(this.element, "data-ahead", race.isOpen ? "" : null);
    if (this.element.open) this.#paintBody(isEmphasized);
  }

  #paintBody(isEmphasized) {
    const { race } = this;
    if (this.#hasResult) {
      if (this.#resultVersion !== race.version) {
        this.#resultVersion = race.version;
        this.#table = null;
        arrange(this.#body, this.#links(), resultTable(race, race.result));
      }
      return;
    }
    this.board.loadPrices(race);
    if (this.#table === null || this.#resultVersion !== -1) {
      this.#resultVersion = -1;
      this.#table = new RunnersTable(race, this.board);
      arrange(this.#body, this.#market, this.#table.element, this.#links());
    }
    setText(this.#market, marketText(race));
    this.#table.paint(isEmphasized, this.#isInView);
  }

  #links() {
    const { race } = this;
    const to = address.ofRace(race.date, race.venueCode, race.number);
    return element("p", { class: "links" }, element("a", { href: to }, `${race.title}: chart, result and sources`));
  }
}

/** Writes the status of a race, with that of its result. */
export function showStatus(node, race) {
  const word = race.resultWord || formats.statusWord(race.status);
  setText(node, word);
  setAttribute(node, "data-status", word.toLowerCase());
}

/** The market percentage in words, how many runners have a price, and the time of the prices. */
export function marketText(race) {
  const { history, board } = race;
  const { percentage, priced, running, isWhole } = race.market;
  const problem = history?.problem;
  if (priced.length === 0) {
    const isKnown = board !== null || history?.isComplete;
    return problem || (isKnown ? "No price is known." : "Prices are being read.");
  }
  // Of an import, the log knows another time than the source.
  const time = history?.isComplete && (history.quotedAt || board.recorded_at);
  const parts = [
    isWhole && `Market ${formats.percent(percentage)}`,
    priced.length < running && `${priced.length} of ${running} priced`,
    time && `prices of ${formats.moment(time, race.zone, race.date)}`,
    problem,
  ];
  return parts.filter(Boolean).join(" · ");
}

/** The time to the off of a race that has no result. */
function leftOf(race, now) {
  if (race.isOver || race.result !== null || !race.offTime) return "";
  return race.status === "off" ? "running" : formats.countdown(Date.parse(race.offTime) - now);
}

/** What came out of a race, or why nothing did. */
function outlookOf(race) {
  if (race.status === "abandoned") return race.statusReason || race.result?.reason || "";
  if (race.result?.status === "void") return race.result.reason;
  if (race.result !== null) {
    return formats.order(race.result.runners.filter(({ position }) => position <= 3));
  }
  return race.isOver || !race.offTime ? race.statusReason : "";
}

export class DayView {
  #board;
  #date;
  #lines = new Map();
  /** By venue. */
  #sections = new Map();
  /** The keys of the races that were over when the view was made, if any is still to be run. */
  #over;
  #grid;
  #movers;
  #meetings = element("div", { class: "meetings" });
  #empty = element("p", { class: "lead" }, "No meeting is known for this day.");
  #all = element("button", { type: "button", class: "quiet" }, "Open all races");

  /** `isInstead` says that it is shown because today has no meeting. */
  constructor(board, date, isInstead) {
    this.#board = board;
    this.#date = date;
    this.title = formats.day(date);
    const races = [...board.store.meetings(date).values()].flat();
    const over = races.filter(({ isOver }) => isOver).map(({ key }) => key);
    this.#over = new Set(nextRaces(board, board.now()).length > 0 ? over : []);
    this.#grid = new DayGrid(board);
    this.#movers = onDemand("movers", "Movers of the day", async () => {
      const { Movers } = await import("../views/movers.js");
      return new Movers(board, date);
    });
    this.element = element(
      "section",
      { class: "day" },
      element("h1", { tabindex: "-1" }, formats.day(date)),
      this.#days(),
      isInstead && element("p", { class: "lead" }, "No meeting is known for today. This is the nearest race day."),
      this.#empty,
      this.#grid.element,
      this.#movers.element,
      this.#meetings,
    );
    this.#all.addEventListener("click", () => this.#openAll());
    this.#arrange();
    this.tick();
  }

  /** The way to other days, and what is done with this one. */
  #days() {
    const [board, date] = [this.#board, this.#date];
    const { before, after } = board.daysBeside(date);
    const start = address.asOf(address.ofDay(date), date, "start");
    const replay = element("a", { class: "button", href: start }, "Replay this day");
    return element(
      "nav",
      { class: "days", "aria-label": "Days" },
      arrow(before, "earlier", "The race day before"),
      datePicker(date),
      arrow(after, "later", "The race day after"),
      // A replay knows the meetings of its day alone.
      !board.replay && calendarButton(board, date),
      oddsChoice(() => board.rewritePrices()),
      !board.replay && date <= board.today && board.store.meetings(date).size > 0 && replay,
      this.#all,
    );
  }

  #openAll() {
    const isOpening = this.#isAnyClosed();
    if (isOpening) this.#unfold();
    for (const line of this.#lines.values()) line.element.open = isOpening;
    setText(this.#all, isOpening ? "Close all races" : "Open all races");
  }

  #isAnyClosed() {
    return [...this.#lines.values()].some((line) => !line.element.open);
  }

  #unfold() {
    for (const fold of this.element.querySelectorAll(".fold")) setAttribute(fold, "aria-expanded", "true");
  }

  /**
   * Makes the lines of the races that are known. They stay in the order of the card. Meetings that were over are last:
   * the next race is near the top.
   */
  #arrange() {
    const meetings = this.#board.store.meetings(this.#date);
    const wasOver = (venue) => meetings.get(venue).every(({ key }) => this.#over.has(key));
    const known = this.#board.orderedVenues(this.#date, meetings);
    const venues = known.toSorted((one, other) => wasOver(one) - wasOver(other));
    arrange(this.#meetings, ...venues.map((venue) => this.#section(venue, meetings.get(venue))));
    this.#grid.arrange(venues.map((venue) => ({ venue, races: meetings.get(venue) })));
    this.#empty.hidden = venues.length > 0;
    this.#all.hidden = venues.length === 0;
  }

  #section(venue, races) {
    if (!this.#sections.has(venue)) {
      const id = `meeting-${venue}`;
      const over = races.filter(({ key }) => this.#over.has(key)).length;
      const parts = [element("h2", { id }), foldButton(over)];
      this.#sections.set(venue, element("section", { class: "meeting", "aria-labelledby": id }, ...parts));
    }
    const section = this.#sections.get(venue);
    const [heading, fold] = section.children;
    heading.replaceChildren(races[0].venue === venue ? venue : `${races[0].venue} (${venue})`, zoneOf(races) || "");
    arrange(section, heading, fold, ...races.map((race) => this.#line(race).element));
    return section;
  }

  #line(race) {
    if (!this.#lines.has(race.key)) {
      const line = new RaceLine(this.#board, race);
      line.element.classList.toggle("over", this.#over.has(race.key));
      this.#lines.set(race.key, line);
      this.#board.painter.mark(line);
    }
    return this.#lines.get(race.key);
  }

  /** The races whose runners are shown. */
  get opened() {
    return [...this.#lines].filter(([, line]) => line.element.open).map(([race]) => race);
  }

  /** Opens the next race, or those that were opened, once the documents are there. */
  loaded(opened) {
    this.#arrange();
    const races = [...this.#lines.values()].map(({ race }) => race);
    const ahead = nextRaces(this.#board, -Infinity);
    // One that is off is no choice any more. Without a card, a race has no off time.
    const next = ahead.find((race) => race.isOpen) ?? ahead[0] ?? races.find((race) => !race.isOver);
    const open = opened ?? [next?.key];
    for (const race of open) this.#lines.get(race)?.open();
    if (open.some((race) => this.#over.has(race))) this.#unfold();
    this.#grid.scrollToNext();
  }

  racesChanged({ date }) {
    if (date === this.#date) this.#arrange();
  }

  changed(race) {
    const line = this.#lines.get(race.key);
    if (line) this.#board.painter.mark(line);
    this.#grid.changed(race);
  }

  tick() {
    const now = this.#board.now();
    for (const line of this.#lines.values()) line.tick(now);
    this.#grid.tick(now);
    this.#movers.view?.tick(now);
    // The service has the movers of now alone, of races that are still to be run.
    this.#movers.element.hidden = this.#board.replay !== null || ![...this.#lines.values()].some(isAhead);
  }

  /** Has all prices written again. */
  rewrite() {
    for (const { race } of this.#lines.values()) {
      race.version++;
      this.changed(race);
    }
    this.#movers.view?.rewrite();
  }

  close() {
    for (const line of this.#lines.values()) this.#board.painter.drop(line);
    this.#grid.close();
  }
}

const isAhead = ({ race }) => !race.isOver;

/** Shows and hides the races of a meeting that were over, where the page is narrow. */
function foldButton(count) {
  const attributes = { type: "button", class: "fold quiet", "aria-expanded": "false", hidden: count === 0 };
  const fold = element("button", attributes, `Earlier races: ${count}`);
  const isExpanded = () => fold.getAttribute("aria-expanded") === "true";
  fold.addEventListener("click", () => setAttribute(fold, "aria-expanded", `${!isExpanded()}`));
  return fold;
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

function datePicker(date) {
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
  return pick;
}

function calendarButton(board, date) {
  const calendar = element("button", { type: "button", class: "quiet", "aria-haspopup": "dialog" }, "Calendar");
  calendar.addEventListener("click", async () => {
    const { openCalendar } = await import("../views/calendar.js");
    openCalendar(board.meetings, date, board.today);
  });
  return calendar;
}
