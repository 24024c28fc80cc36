// Odds as the visitor reads them. The service has decimal odds of at most three decimals: conversions count in
// thousandths of the profit of a stake, so that none depends on what a floating-point number cannot hold.

import { element } from "./dom.js";

const STORED = "railbird-odds";
const DASH = "–";

const FORMATS = {
  decimal: { name: "Decimal", write: (profit) => decimal(profit + 1000) },
  fractional: { name: "Fractional", write: fractional },
  american: { name: "American", write: american },
  hong_kong: { name: "Hong Kong", write: decimal },
};

let format = stored();

/** A browser may forbid the page to keep anything. */
function stored() {
  try {
    const name = localStorage.getItem(STORED);
    return name in FORMATS ? name : "decimal";
  } catch {
    return "decimal";
  }
}

function store(name) {
  format = name;
  try {
    localStorage.setItem(STORED, name);
  } catch {
    // It holds until the page is closed.
  }
}

/** Decimal odds in the chosen format: `4.0`, `12.34`, `1.001`, or `3/1`, `+300`, `3.0`; a dash without a price. */
export function price(odds) {
  if (!odds) return DASH;
  return FORMATS[format].write(Math.round(odds * 1000) - 1000);
}

/** Whether prices of the chosen format may be long: `1039/100`, `−111.11`. */
export const isLong = () => format === "fractional" || format === "american";

/** Round odds of the chosen format in decimal odds, which alone have the stake in them. */
export const toDecimal = (round) => (format === "decimal" ? round : round + 1);

function decimal(thousandths) {
  const digits = [1, 2].find((digits) => thousandths % 10 ** (3 - digits) === 0) ?? 3;
  return (thousandths / 1000).toFixed(digits);
}

function fractional(profit) {
  const divisor = greatestDivisor(profit, 1000);
  return `${profit / divisor}/${1000 / divisor}`;
}

/** Odds-on prices are the stake for a profit of 100, which may have no end: it is cut to hundredths. */
function american(profit) {
  if (profit === 0) return DASH;
  return profit >= 1000 ? `+${profit / 10}` : `−${Number((100_000 / profit).toFixed(2))}`;
}

const greatestDivisor = (a, b) => (b === 0 ? a : greatestDivisor(b, a % b));

/**
 * A price against an earlier one: `−2.7 (−27 %)`, which breaks before the parenthesis alone. Fractions and American odds
 * have no difference, but a percentage.
 */
export function change(from, to) {
  const share = changeInPercent(from, to);
  if (to === from || format === "fractional" || format === "american") return share;
  return `${to < from ? "−" : "+"}${decimal(Math.round(1000 * Math.abs(to - from)))} (${share})`;
}

/** A price against an earlier one: `−27 %`. */
export function changeInPercent(from, to) {
  if (to === from) return "0\u00a0%";
  const share = Math.abs(to / from - 1);
  return `${to < from ? "−" : "+"}${(100 * share).toFixed(share < 0.1 ? 1 : 0)}\u00a0%`;
}

/** A choice of the format. `changed` is called once prices have to be written again. */
export function oddsChoice(changed) {
  const options = Object.entries(FORMATS).map(([value, { name }]) =>
    element("option", { value, selected: value === format }, name),
  );
  const select = element("select", { class: "odds-choice", "aria-label": "Odds as" }, ...options);
  select.addEventListener("change", () => {
    store(select.value);
    changed();
  });
  return select;
}
