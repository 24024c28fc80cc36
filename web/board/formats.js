// Figures, times and codes as people read them.

const HALF_DAY_MS = 12 * 3_600_000;
const DASH = "–";

export { change, changeInPercent, price } from "./odds.js";

/** Formatters are expensive to make: each is made once. */
const numbers = new Intl.NumberFormat("en");
const clocks = new Map();
const dates = new Map();

function once(formatters, name, make) {
  if (!formatters.has(name)) formatters.set(name, make());
  return formatters.get(name);
}

/** A log sequence or another whole number: `48,210`. */
export function whole(number) {
  return numbers.format(number);
}

/** A percentage with one decimal. */
export function percent(share) {
  return `${share.toFixed(1)} %`;
}

/** A time of day, in the zone of the meeting if it is known, else in that of the visitor. */
export function clock(time, { seconds = false, zone } = {}) {
  const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone || undefined };
  if (seconds) options.second = "2-digit";
  const format = once(clocks, `${seconds} ${zone}`, () => new Intl.DateTimeFormat("en-GB", options));
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? DASH : format.format(date);
}

/** A time of day with seconds; with the date if that is not the date of the racing. */
export function moment(time, zone, date) {
  const on = dateIn(zone, Date.parse(time));
  return `${on === date ? "" : `${day(on)}, `}${clock(time, { seconds: true, zone })}`;
}

/** The difference to UTC in a zone at a time: `GMT+8`; in that of the visitor without one. */
function offset(time, zone) {
  const options = { timeZone: zone || undefined, timeZoneName: "shortOffset" };
  const parts = new Intl.DateTimeFormat("en-GB", options).formatToParts(time);
  return parts.find(({ type }) => type === "timeZoneName").value;
}

/** Whose times these are, `Hong Kong time, GMT+8`; nothing if the visitor's clock is the same at that time. */
export function zoneNote(zone, time) {
  const there = zone && offset(time, zone);
  if (!there || there === offset(time)) return "";
  return `${zoneName(zone)} time, ${there}`;
}

/** The city that a time zone is named after. */
export function zoneName(zone) {
  return zone.split("/").at(-1).replaceAll("_", " ");
}

/** The date in a zone, `2026-11-22`. */
export function dateIn(zone, time) {
  const format = once(dates, zone, () => new Intl.DateTimeFormat("sv-SE", { timeZone: zone || undefined }));
  return format.format(time);
}

const days = new Intl.DateTimeFormat("en-GB", {
  weekday: "long",
  day: "numeric",
  month: "long",
  year: "numeric",
  timeZone: "UTC",
});

/** A racing date, `2026-11-22`, in words. */
export function day(date) {
  return days.format(new Date(`${date}T00:00:00Z`));
}

/** A duration: `0:07`, `3:20`, `1:05:00`. */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (number) => String(number).padStart(2, "0");
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** How long ago something was: `0 s`, `12 s`, `3 min`. */
export function age(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7200 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
}

/** The time to the scheduled off in words. Half a day after it, the race will not be run any more. */
export function countdown(ms) {
  if (ms < -HALF_DAY_MS) return "no result is known";
  if (ms > HALF_DAY_MS) return "";
  return ms >= 0 ? `off\u00a0in\u00a0${duration(ms)}` : `${duration(-ms)} past the off time`;
}

const STATUSES = {
  scheduled: "Scheduled",
  open: "Open",
  closed: "Closed",
  off: "Off",
  finished: "Finished",
  result: "Result",
  abandoned: "Abandoned",
};

/** The status of a race in a word. */
export function statusWord(status) {
  return STATUSES[status] ?? status;
}

const OUTCOMES = {
  PU: "Pulled up",
  UR: "Unseated rider",
  FE: "Fell",
  BD: "Brought down",
  RO: "Ran out",
  REF: "Refused",
  DNF: "Did not finish",
  DISQ: "Disqualified",
  TNP: "Took no part",
  VOID: "Void",
};
const WITHDRAWN = /^(WV|WX|WR|SCR|NR)/;

/** Whether an outcome is that of a runner that did not run. */
export const isWithdrawn = (code) => WITHDRAWN.test(code ?? "");

/** The outcome of a runner without a placing, in words; a code that we do not know as it is. */
export function outcome(code) {
  return OUTCOMES[code] ?? (WITHDRAWN.test(code) ? "Withdrawn" : code);
}

/** The places of runners in order, with `=` where they are shared: `1`, `=2`, `=2`, `4`. */
export function places(runners) {
  const shared = new Map();
  for (const { position } of runners) shared.set(position, (shared.get(position) ?? 0) + 1);
  return runners.map(({ position }) => (shared.get(position) > 1 ? `=${position}` : `${position}`));
}

/** A place in words: `1st`, `=2nd`. */
export function ordinal(place) {
  const number = Number(place.replace("=", ""));
  const isTeen = number % 100 > 10 && number % 100 < 14;
  return place + ((isTeen ? undefined : { 1: "st", 2: "nd", 3: "rd" }[number % 10]) ?? "th");
}

/** The outcome of each horse of a result in words, then the places of the others. */
export function standings(runners) {
  const placed = runners.filter(({ position }) => position > 0);
  const words = places(placed);
  const others = runners.filter((runner) => runner.outcome);
  return new Map([
    ...others.map((runner) => [runner.horse_no, outcome(runner.outcome)]),
    ...placed.map(({ horse_no }, index) => [horse_no, ordinal(words[index])]),
  ]);
}

/** A runner by its number and name: `(6) STEADY JUNIPER`. */
export function runner({ number, horse_name, horse_no }) {
  return [number > 0 && `(${number})`, horse_name || horse_no].filter(Boolean).join(" ");
}

/** The first runners of a result: `1st (6) STEADY JUNIPER, =2nd (2) ...`. */
export function order(runners) {
  const words = places(runners);
  return runners.map((row, index) => `${ordinal(words[index])} ${runner(row)}`).join(", ");
}

/** What a race is: distance, class and going. */
export function conditions(race, going = race.going) {
  return [distance(race.distance), grade(race.class), going].filter(Boolean).join(" · ");
}

/** The class of a race. */
export function grade(name) {
  return /^\d+$/.test(name) ? `class ${name}` : name;
}

/** The distance of a race. */
export function distance(metres) {
  return metres > 0 ? `${whole(metres)} m` : "";
}

/** A whole amount of a currency: `HKD 1,230,000`. */
export function money(amount, currency) {
  return `${currency} ${whole(amount)}`.trim();
}

/** An amount of money as the API has it: `71.00`, `1,870.50`. */
export function amount(value) {
  return value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 3 });
}

/** A profit or a loss, in stakes: `+12.5`, `−3.0`. */
export function signed(value) {
  return `${value < 0 ? "−" : value > 0 ? "+" : ""}${Math.abs(value).toFixed(1)}`;
}

/** A code in words: `quinella_place` is `Quinella place`. */
export function capitalized(code) {
  return (code.charAt(0).toUpperCase() + code.slice(1)).replaceAll("_", " ");
}
