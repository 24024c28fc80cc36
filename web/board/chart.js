// The chart of a race: the win prices of all runners since its market opened.
//
// It is read with the pointer or the keyboard: left and right go from change to change of a runner, up and down from
// runner to runner.

import { element, setText, svg } from "./dom.js";
import { clock, price, whole, zoneNote } from "./formats.js";
import { toDecimal } from "./odds.js";
import { logScale, oddsTicks, priceRange, stepAt, stepPath, timeScale, timeTicks } from "./steps.js";

const MARGIN = { top: 12, right: 86, bottom: 28, left: 54 };
const HEIGHT = { wide: 380, narrow: 300 };
const NARROW = 560;
/** The chart follows the prices at this distance. */
const INTERVAL_MS = 250;
/** How long after the last price the off may be to be in the chart. */
const OFF_AFTER_MS_MAX = 1_800_000;
/** The height of a label at the end of a line. */
const LABEL = 15;
/** Lines differ in colour and, from one group of so many runners to the next, in dash. */
const COLOURS = 6;

export class PriceChart {
  #race;
  #clock;
  #painter;
  #plot = svg("svg", { class: "plot", "aria-hidden": "true", focusable: "false" });
  #slider;
  #readout = element("ul", { class: "readout" });
  #when = element("p", { class: "when" });
  #note = element("p", { class: "hint" });
  #width = 0;
  #paintedAt = -Infinity;
  #timer;
  #observer;
  /** The horse that is read, and the time at which; `null` is now. */
  #horse = null;
  #time = null;
  #scales = null;

  /** `board` has the painter, and the time of the service. */
  constructor(race, board) {
    this.#race = race;
    this.#clock = board;
    this.#painter = board.painter;
    this.#slider = element(
      "div",
      { class: "chart", role: "slider", tabindex: "0", "aria-label": "Prices over time", "aria-valuemin": "0" },
      this.#plot,
    );
    this.#slider.addEventListener("pointermove", (event) => this.#point(event));
    this.#slider.addEventListener("pointerleave", () => this.#read(null));
    this.#slider.addEventListener("keydown", (event) => this.#key(event));
    this.#observer = new ResizeObserver(() => this.#paintSoon(0));
    this.#observer.observe(this.#slider);
    this.element = element(
      "section",
      { class: "prices", "aria-labelledby": "prices-title", hidden: true },
      element("h2", { id: "prices-title" }, "Prices since the market opened"),
      element(
        "p",
        { class: "hint" },
        "Win prices, on a logarithmic axis. Point at the chart, or focus it and use the arrow keys: left and right for the changes of a runner, up and down for the runners.",
      ),
      this.#slider,
      this.#when,
      this.#readout,
      this.#note,
    );
  }

  close() {
    this.#observer.disconnect();
    clearTimeout(this.#timer);
    this.#painter.drop(this);
  }

  /** Shows the prices of another source. */
  show(race) {
    this.#race = race;
    this.rewrite();
  }

  /** Has the prices written again. */
  rewrite() {
    this.#paintedAt = -Infinity;
  }

  /** The runners with a price, by number. */
  #runners() {
    const series = this.#race.history?.series ?? new Map();
    return this.#race.rows.filter(({ horse_no }) => series.has(horse_no));
  }

  paint() {
    const wait = this.#paintedAt + INTERVAL_MS - performance.now();
    if (wait > 0) return this.#paintSoon(wait);
    this.#paintedAt = performance.now();
    const { history } = this.#race;
    if (!history?.isComplete) return;
    const runners = this.#runners();
    const range = priceRange(runners.map(({ horse_no }) => history.series.get(horse_no)));
    this.element.hidden = range === null;
    this.#width = this.#slider.clientWidth;
    if (range === null || this.#width === 0) return;
    const height = this.#width < NARROW ? HEIGHT.narrow : HEIGHT.wide;
    const [lowest, highest] = [Math.max(1, range.lowest / 1.08), range.highest * 1.08];
    const { first } = history.span;
    const last = history.end(this.#race.isOpen, this.#clock.now());
    const off = this.#off(first, last);
    const end = Math.max(last, off ? off.time + (last - first) / 50 : 0);
    this.#scales = {
      height,
      first,
      end,
      off,
      x: timeScale(first, end, MARGIN.left, this.#width - MARGIN.right),
      y: logScale(lowest, highest, MARGIN.top, height - MARGIN.bottom),
    };
    this.#plot.setAttribute("viewBox", `0 0 ${this.#width} ${height}`);
    this.#plot.setAttribute("height", height);
    this.#plot.replaceChildren(
      ...this.#axes(lowest, highest),
      ...this.#lines(runners),
      ...this.#offMark(),
      ...this.#cursor(runners),
    );
    this.#describe(runners);
    const elsewhere = zoneNote(this.#race.zone, end);
    const notes = [
      elsewhere && `Times are ${elsewhere}.`,
      history.isCut && "The history is longer than this page reads: the end is missing.",
      runners.some(({ horse_no }) => history.series.get(horse_no).isThinned) && "Older changes are thinned out.",
    ];
    setText(this.#note, notes.filter(Boolean).join(" "));
  }

  #paintSoon(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#painter.mark(this), ms);
  }

  #axes(lowest, highest) {
    const { x, y, height, first, end } = this.#scales;
    const right = this.#width - MARGIN.right;
    const odds = oddsTicks(lowest, highest, y, 24, toDecimal).map((tick) =>
      svg(
        "g",
        { class: "tick" },
        svg("path", { d: `M${MARGIN.left} ${y(tick)}H${right}` }),
        svg("text", { x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }, price(tick)),
      ),
    );
    const seconds = end - first < 10 * 60_000;
    const times = timeTicks(first, end, Math.floor((right - MARGIN.left) / 90)).map((tick) =>
      svg(
        "g",
        { class: "tick" },
        svg("path", { d: `M${x(tick)} ${MARGIN.top}V${height - MARGIN.bottom}` }),
        svg(
          "text",
          { x: x(tick), y: height - 8, "text-anchor": "middle" },
          clock(tick, { seconds, zone: this.#race.zone }),
        ),
      ),
    );
    return [...odds, ...times];
  }

  /** When the race was off, or was to be off, if that is known and near the prices. */
  #off(first, last) {
    const { history, offAt, offTime, isOpen, status } = this.#race;
    if (isOpen || status === "abandoned") return null;
    // The quotes of an import have another clock than the log.
    const known = history.isImport ? NaN : Date.parse(offAt);
    const time = known || Date.parse(offTime);
    // Betting may close before the off.
    if (!known && time > this.#clock.now()) return null;
    if (!(time >= first && time <= last + OFF_AFTER_MS_MAX)) return null;
    return { time, name: known ? "off" : "scheduled off" };
  }

  /** The off: a line, behind which the prices are dimmed. */
  #offMark() {
    const { x, height, off } = this.#scales;
    if (!off) return [];
    const [at, top, bottom] = [x(off.time), MARGIN.top, height - MARGIN.bottom];
    const width = this.#width - MARGIN.right - at;
    return [
      svg("rect", { class: "after-off", x: at, y: top, width, height: bottom - top }),
      svg("path", { class: "off", d: `M${at} ${top}V${bottom}` }),
      svg("text", { class: "off", x: at - 5, y: top + 10, "text-anchor": "end" }, off.name),
    ];
  }

  #lines(runners) {
    const { x, y, height, end } = this.#scales;
    const { history } = this.#race;
    const selected = this.#selected(runners);
    const labels = [];
    const lines = runners.map((runner, index) => {
      const series = history.series.get(runner.horse_no);
      const kind = `series-${index % COLOURS} dash-${Math.floor(index / COLOURS) % 4}`;
      const isSelected = runner === selected;
      const times = history.times(series);
      const last = series.prices.at(-1);
      // A withdrawn runner has no price any more.
      const isLabelled = !runner.isWithdrawn && !Number.isNaN(last);
      if (isLabelled) labels.push({ runner, kind, isSelected, last, y: y(last) });
      const path = stepPath(times, series.prices, x, y, runner.isWithdrawn ? times.at(-1) : end);
      return svg("path", { d: path, class: `${kind}${isSelected ? " selected" : ""}` });
    });
    labels.sort((a, b) => a.y - b.y);
    // From the bottom up, then from the top down: no label covers another one.
    spread(labels, MARGIN.top + 4, height - MARGIN.bottom);
    const texts = labels.map(({ runner, kind, isSelected, last, y }) =>
      svg(
        "text",
        { x: this.#width - MARGIN.right + 6, y: y + 4, class: `label ${kind}${isSelected ? " selected" : ""}` },
        `${runner.number || runner.horse_name.slice(0, 4)}  ${price(last)}`,
      ),
    );
    // The line that is read is on top.
    return [...lines.sort((a, b) => a.classList.contains("selected") - b.classList.contains("selected")), ...texts];
  }

  #selected(runners) {
    return runners.find(({ horse_no }) => horse_no === this.#horse) ?? favourite(this.#race, runners);
  }

  #cursor(runners) {
    if (this.#time === null) return [];
    const { x, y, height } = this.#scales;
    const { history } = this.#race;
    const at = x(this.#time);
    const series = history.series.get(this.#selected(runners).horse_no);
    const index = stepAt(history.times(series), this.#time);
    const dot = index >= 0 && !Number.isNaN(series.prices[index]);
    return [
      svg("path", { class: "cursor", d: `M${at} ${MARGIN.top}V${height - MARGIN.bottom}` }),
      ...(dot ? [svg("circle", { class: "cursor", cx: at, cy: y(series.prices[index]), r: 4 })] : []),
    ];
  }

  /** Writes the prices at the time that is read. */
  #describe(runners) {
    const { history, zone } = this.#race;
    const time = this.#time ?? this.#scales.end;
    const selected = this.#selected(runners);
    const rows = runners.map((runner, index) => {
      const series = history.series.get(runner.horse_no);
      const step = stepAt(history.times(series), time);
      const isOut = runner.isWithdrawn && this.#time === null;
      const odds = step >= 0 && !isOut ? series.prices[step] : NaN;
      return { runner, index, odds, seq: step >= 0 ? series.seqs[step] : 0 };
    });
    const of = rows.find(({ runner }) => runner === selected);
    const { off } = this.#scales;
    const relation = this.#time === null ? ", the latest" : off && time > off.time ? `, after the ${off.name}` : "";
    const when = `${clock(time, { seconds: true, zone })}${relation}`;
    const what = `${nameOf(of.runner)}: ${price(of.odds)} since seq ${whole(of.seq)}`;
    setText(this.#when, `${when} · ${what}`);
    const series = history.series.get(selected.horse_no);
    this.#slider.setAttribute("aria-valuemax", `${series.prices.length - 1}`);
    this.#slider.setAttribute("aria-valuenow", `${Math.max(0, stepAt(history.times(series), time))}`);
    this.#slider.setAttribute("aria-valuetext", this.#when.textContent);
    rows.sort((a, b) => (Number.isNaN(a.odds) ? 1e9 : a.odds) - (Number.isNaN(b.odds) ? 1e9 : b.odds));
    this.#readout.replaceChildren(
      ...rows.map(({ runner, index, odds, seq }) => {
        const kind = `series-${index % COLOURS} dash-${Math.floor(index / COLOURS) % 4}`;
        return element(
          "li",
          { class: runner === selected ? "selected" : false, title: `seq ${seq}` },
          svg("svg", { viewBox: "0 0 18 8", "aria-hidden": "true" }, svg("path", { d: "M0 4H18", class: kind })),
          element("span", {}, nameOf(runner)),
          element("b", {}, price(odds)),
        );
      }),
    );
  }

  #point({ offsetX, offsetY }) {
    if (!this.#scales) return;
    const { history } = this.#race;
    const { x, y, first, end } = this.#scales;
    const share = (offsetX - MARGIN.left) / Math.max(1, x(end) - x(first));
    const time = first + Math.min(1, Math.max(0, share)) * (end - first);
    // The nearest line.
    let nearest = Infinity;
    for (const { horse_no } of this.#runners()) {
      const series = history.series.get(horse_no);
      const odds = series.prices[stepAt(history.times(series), time)];
      const distance = Math.abs(y(odds) - offsetY);
      if (distance < nearest) [nearest, this.#horse] = [distance, horse_no];
    }
    this.#read(time);
  }

  #read(time) {
    this.#time = time;
    this.#paintedAt = -Infinity;
    this.#painter.mark(this);
  }

  #key(event) {
    const runners = this.#runners();
    const { history } = this.#race;
    if (runners.length === 0 || this.#scales === null) return;
    const selected = this.#selected(runners);
    const series = history.series.get(selected.horse_no);
    const times = history.times(series);
    const at = stepAt(times, this.#time ?? this.#scales.end);
    const index = runners.indexOf(selected);
    const moves = {
      ArrowLeft: () => this.#read(times[Math.max(0, at - 1)]),
      ArrowRight: () => this.#read(at + 1 < times.length ? times[at + 1] : null),
      Home: () => this.#read(times[0]),
      End: () => this.#read(null),
      Escape: () => this.#read(null),
      ArrowUp: () => this.#choose(runners[Math.max(0, index - 1)]),
      ArrowDown: () => this.#choose(runners[Math.min(runners.length - 1, index + 1)]),
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    moves[event.key]();
  }

  #choose({ horse_no }) {
    this.#horse = horse_no;
    this.#read(this.#time);
  }
}

const nameOf = ({ number, horse_name }) => (number > 0 ? `${number} ${horse_name}` : horse_name);

/** The favourite, or else the first runner. */
function favourite(race, runners) {
  const favourites = race.favourites;
  return runners.find(({ horse_no }) => favourites.has(horse_no)) ?? runners[0];
}

/** Moves labels apart, by their height, within bounds. */
function spread(labels, top, bottom) {
  for (let index = 1; index < labels.length; index++) {
    labels[index].y = Math.max(labels[index].y, labels[index - 1].y + LABEL);
  }
  let limit = bottom;
  for (let index = labels.length - 1; index >= 0; index--) {
    labels[index].y = Math.max(top, Math.min(labels[index].y, limit));
    limit = labels[index].y - LABEL;
  }
}
