// The prices of a race since its market opened.

/** Points that are kept of a runner. Beyond, every second one of the older half is dropped. */
export const POINTS_MAX = 512;
/** Messages that are held back while the history is read. */
const WAITING_MAX = 2_000;
/** A history that was recorded within less is an import: its quotes are shown at the times that their feeders state. */
const RECORDED_MS_MIN = 60_000;

/** A time with its microseconds as a fraction: several prices come within a millisecond. */
function milliseconds(time) {
  const [, microseconds = "0"] = /\.\d{3}(\d{1,3})Z$/.exec(time) ?? [];
  return Date.parse(time) + Number(`0.${microseconds}`);
}

/**
 * The win prices of a runner: steps, each with the log sequence that made it. No price is NaN.
 *
 * The columns have their size from the start. Those of hundreds of runners, growing and shrinking, would take more and
 * more memory for a while.
 */
class Series {
  isThinned = false;
  #length = 0;
  #recorded = new Float64Array(POINTS_MAX);
  #stated = new Float64Array(POINTS_MAX);
  #prices = new Float64Array(POINTS_MAX);
  #seqs = new Float64Array(POINTS_MAX);

  get recorded() {
    return this.#recorded.subarray(0, this.#length);
  }

  get stated() {
    return this.#stated.subarray(0, this.#length);
  }

  get prices() {
    return this.#prices.subarray(0, this.#length);
  }

  get seqs() {
    return this.#seqs.subarray(0, this.#length);
  }

  push(recorded, stated, price, seq) {
    const value = price ?? NaN;
    if (this.#length > 0 && Object.is(this.#prices[this.#length - 1], value)) return;
    if (this.#length === POINTS_MAX) this.#thin();
    this.#recorded[this.#length] = recorded;
    this.#stated[this.#length] = stated;
    this.#prices[this.#length] = value;
    this.#seqs[this.#length] = seq;
    this.#length++;
  }

  #thin() {
    const isKept = (index) => index === 0 || index >= POINTS_MAX / 2 || index % 2 === 1;
    let kept = 0;
    for (let index = 0; index < POINTS_MAX; index++) {
      if (!isKept(index)) continue;
      for (const column of [this.#recorded, this.#stated, this.#prices, this.#seqs]) column[kept] = column[index];
      kept++;
    }
    this.#length = kept;
    this.isThinned = true;
  }
}

export class PriceHistory {
  /** The series by horse. */
  series = new Map();
  isComplete = false;
  /** Whether it could not be read. */
  isFailed = false;
  /** Whether the history was longer than the page reads. */
  isCut = false;
  lastSeq = 0;
  /** The source of all prices: books are never mixed. */
  source;
  /** When the latest prices were quoted, as their source states; of live messages, when the log stored them. */
  quotedAt = "";
  /** Why there are no prices, as a sentence. */
  problem = "";
  /** When it was recorded: the first and the latest change. */
  first = Infinity;
  last = 0;
  #waiting = [];
  #stated = { first: Infinity, last: 0 };

  /** `source` is the primary one of the race if it is empty. */
  constructor(source = "") {
    this.source = source;
  }

  /** Reads the quotes of the log, then those that came meanwhile. */
  async load(api, path) {
    const isWhole = await api.pages(path, "history", (quotes, primary) => {
      this.source ||= primary.source;
      for (const quote of quotes) if (!quote.stale && quote.source === this.source) this.#quote(quote);
    });
    this.isCut = !isWhole;
    this.isComplete = true;
    for (const message of this.#waiting.splice(0)) this.apply(message);
  }

  /** Adds the prices of a live message. Of another source, they belong to another history. */
  apply(message) {
    if (this.isComplete) this.source ||= message.source;
    if (!this.isComplete) {
      if (this.#waiting.length === WAITING_MAX) this.#waiting.shift();
      this.#waiting.push(message);
    } else if (message.seq > this.lastSeq && message.source === this.source) {
      this.#quote({ ...message, time: message.recorded_at });
    }
  }

  #quote({ seq, time, recorded_at, runners }) {
    const [recorded, stated] = [milliseconds(recorded_at), milliseconds(time)];
    for (const { horse_no, win } of runners) {
      if (!this.series.has(horse_no)) this.series.set(horse_no, new Series());
      this.series.get(horse_no).push(recorded, stated, win, seq);
    }
    this.lastSeq = seq;
    this.quotedAt = time;
    this.first = Math.min(this.first, recorded);
    this.last = Math.max(this.last, recorded);
    this.#stated.first = Math.min(this.#stated.first, stated);
    this.#stated.last = Math.max(this.#stated.last, stated);
  }

  /** Whether its times are those that the feeders state. */
  get isImport() {
    const span = ({ first, last }) => last - first;
    return span(this) < RECORDED_MS_MIN && span(this.#stated) > span(this) + RECORDED_MS_MIN;
  }

  /** The times of a series: when the log recorded the prices, or, of an import, when they were quoted. */
  times(series) {
    return this.isImport ? series.stated : series.recorded;
  }

  /** The first and the last time. */
  get span() {
    return this.isImport ? this.#stated : { first: this.first, last: this.last };
  }

  /** Where the lines end: now while prices may move, else a little after the last change, so that it can be seen. */
  end(isOpen, now) {
    const { first, last } = this.span;
    return isOpen && !this.isImport ? Math.max(now, last) : last + Math.max(1000, (last - first) / 50);
  }
}
