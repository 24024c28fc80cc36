// Prices as lines: they are steps, on a logarithmic axis of decimal odds.

/** Odds at which the axis may have a line, as the visitor reads them. */
const ODDS = [
  0.1, 0.2, 0.5, 1, 1.1, 1.2, 1.5, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000,
  100000,
];
/** Seconds between the lines of the time axis. */
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 604800];

/** Maps a price to a height. A price that drifts goes up, as its arrow does. */
export function logScale(lowest, highest, top, bottom) {
  const [low, high] = [Math.log(lowest), Math.log(Math.max(highest, lowest * 1.05))];
  return (price) => bottom - ((Math.log(price) - low) / (high - low)) * (bottom - top);
}

export function timeScale(first, last, left, right) {
  const span = Math.max(1, last - first);
  return (time) => left + ((time - first) / span) * (right - left);
}

/**
 * The odds between two prices for the lines of an axis, at least `gap` apart on the scale. `toDecimal` makes odds as the
 * visitor reads them decimal.
 */
export function oddsTicks(lowest, highest, scale, gap, toDecimal) {
  const ticks = [];
  for (const odds of ODDS.map(toDecimal).filter((odds) => odds >= lowest && odds <= highest)) {
    if (ticks.length === 0 || scale(ticks.at(-1)) - scale(odds) >= gap) ticks.push(odds);
  }
  return ticks;
}

/** The times of round seconds for the lines of an axis, at most `count`. */
export function timeTicks(first, last, count) {
  const seconds = SECONDS.find((seconds) => (last - first) / (seconds * 1000) <= count) ?? SECONDS.at(-1);
  const ticks = [];
  for (let time = Math.ceil(first / (seconds * 1000)) * seconds * 1000; time <= last && ticks.length <= count;) {
    ticks.push(time);
    time += seconds * 1000;
  }
  return ticks;
}

/**
 * The path of a series up to a time. Of several steps within a pixel only the last is drawn; without a price, the line
 * is interrupted.
 */
export function stepPath(times, prices, x, y, end) {
  let path = "";
  let isDrawing = false;
  for (let index = 0; index < prices.length; index++) {
    const at = x(times[index]);
    const next = index + 1 < prices.length ? x(times[index + 1]) : x(end);
    if (index + 1 < prices.length && next - at < 1 && Math.floor(next) === Math.floor(at)) continue;
    if (Number.isNaN(prices[index])) {
      isDrawing = false;
      continue;
    }
    const height = y(prices[index]).toFixed(1);
    path += isDrawing ? `V${height}` : `M${at.toFixed(1)} ${height}`;
    path += `H${Math.max(at, next).toFixed(1)}`;
    isDrawing = true;
  }
  return path;
}

/** The lowest and the highest price of some series; `null` if there is none. */
export function priceRange(all) {
  let [lowest, highest] = [Infinity, 0];
  for (const { prices } of all) {
    for (const price of prices) {
      if (price < lowest) lowest = price;
      if (price > highest) highest = price;
    }
  }
  return highest > 0 ? { lowest, highest } : null;
}

/** The index of the step in force at a time; -1 before the first. */
export function stepAt(times, time) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
