// A calendar of the days that have meetings. It is a dialog: Escape closes it, and the focus goes back.

import * as address from "../board/address.js";
import { element, setText } from "../board/dom.js";
import * as formats from "../board/formats.js";

const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const DAY_MS = 86_400_000;
const months = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });

const time = (date) => Date.parse(`${date}T00:00:00Z`);
const dateOf = (time) => new Date(time).toISOString().slice(0, 10);
const later = (date, days) => dateOf(time(date) + days * DAY_MS);

/** The same day of another month, or its last one. */
function laterMonth(date, months) {
  const [year, month, day] = date.split("-").map(Number);
  const last = new Date(Date.UTC(year, month + months, 0)).getUTCDate();
  return dateOf(Date.UTC(year, month - 1 + months, Math.min(day, last)));
}

/** Where the keys lead from a day. */
const MOVES = {
  ArrowLeft: (date) => later(date, -1),
  ArrowRight: (date) => later(date, 1),
  ArrowUp: (date) => later(date, -7),
  ArrowDown: (date) => later(date, 7),
  PageUp: (date) => laterMonth(date, -1),
  PageDown: (date) => laterMonth(date, 1),
};

class Calendar {
  /** The venues of each day. */
  #venues = new Map();
  #date;
  #shown;
  #today;
  #title = element("h2", { id: "calendar-title", "aria-live": "polite" });
  #body = element("tbody");

  constructor(meetings, shown, today) {
    for (const { date, venue } of meetings) this.#venues.set(date, [...(this.#venues.get(date) ?? []), venue]);
    this.#shown = this.#date = shown;
    this.#today = today;
    const head = WEEKDAYS.map((day) => element("th", { scope: "col", abbr: day }, day.slice(0, 3)));
    const table = element(
      "table",
      { "aria-labelledby": "calendar-title" },
      element("thead", {}, element("tr", {}, ...head)),
      this.#body,
    );
    const close = element("button", { type: "button", class: "quiet" }, "Close");
    close.addEventListener("click", () => this.element.close());
    this.element = element(
      "dialog",
      { class: "calendar", "aria-labelledby": "calendar-title" },
      element(
        "div",
        { class: "days" },
        this.#button("earlier", "The month before", -1),
        this.#title,
        this.#button("later", "The month after", 1),
      ),
      table,
      element("p", { class: "hint" }, "Each day has its number of meetings. The arrow keys move by days and weeks."),
      close,
    );
    table.addEventListener("keydown", (event) => this.#key(event));
    // Its links lead to another day.
    this.element.addEventListener("click", ({ target }) => target.closest("a") && this.element.close());
    this.element.addEventListener("close", () => this.element.remove());
    this.#write();
  }

  #button(side, label, months) {
    const button = element("button", { type: "button", class: `arrow ${side}`, "aria-label": label, title: label });
    button.addEventListener("click", () => {
      this.#date = laterMonth(this.#date, months);
      this.#write();
    });
    return button;
  }

  #key(event) {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    this.#date = move(this.#date);
    this.#write();
    this.focus();
  }

  focus() {
    this.#body.querySelector("[tabindex='0']").focus();
  }

  #write() {
    const first = `${this.#date.slice(0, 8)}01`;
    setText(this.#title, months.format(time(first)));
    // A week begins on Monday, and six hold any month: the calendar does not change its height.
    const begin = later(first, -((new Date(time(first)).getUTCDay() + 6) % 7));
    const week = (index) => Array.from({ length: 7 }, (_, day) => this.#cell(later(begin, 7 * index + day)));
    this.#body.replaceChildren(...Array.from({ length: 6 }, (_, index) => element("tr", {}, ...week(index))));
  }

  #cell(date) {
    const venues = this.#venues.get(date) ?? [];
    const number = `${Number(date.slice(8))}`;
    // All of it is the name of the link, and two numbers are seen.
    const name = formats.day(date);
    const at = name.indexOf(number);
    const rest =
      venues.length === 0 ? "no meeting" : `${venues.length === 1 ? "meeting" : "meetings"}: ${venues.join(", ")}`;
    const unseen = (text) => element("span", { class: "unseen" }, text);
    const day = element(
      "a",
      {
        href: address.ofDay(date),
        tabindex: date === this.#date ? "0" : "-1",
        class: venues.length === 0 && "none",
        "aria-current": date === this.#shown && "date",
        title: venues.join(", ") || false,
      },
      unseen(name.slice(0, at)),
      element("b", {}, number),
      unseen(`${name.slice(at + number.length)}, `),
      venues.length > 0 && element("span", { class: "count" }, `${venues.length}`),
      unseen(` ${rest}`),
    );
    const kinds = [date.slice(0, 7) !== this.#date.slice(0, 7) && "beside", date === this.#today && "today"];
    return element("td", { class: kinds.filter(Boolean).join(" ") || false }, day);
  }
}

/** Shows the month of a day, with the focus on the day. */
export function openCalendar(meetings, shown, today) {
  const calendar = new Calendar(meetings, shown, today);
  document.body.append(calendar.element);
  calendar.element.showModal();
  calendar.focus();
}
