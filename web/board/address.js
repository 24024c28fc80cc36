// The address of what is shown, in the fragment: it works under any path, and no server sees it.
//
//     #/2026-11-22            a day
//     #/2026-11-22/RB/3       a race
//     #/horses/RB_014         a horse
//     #/2026-11-22?at=...     a day or a race in a replay: at a moment, or from the `start` of the day
//     #/horses/RB_014?day=2026-11-22&at=...

const DATE = /^\d{4}-\d{2}-\d{2}$/;

/**
 * Reads an address: `{ view: "day", date, at }`, `{ view: "race", date, venue, number, at }` or
 * `{ view: "horse", horse, date, at }` with the day of a replay.
 */
export function parse(fragment) {
  const [path, query] = fragment.split("?");
  const parameters = new URLSearchParams(query);
  const moment = parameters.get("at") ?? "";
  const at = moment === "start" || Date.parse(moment) ? moment : "";
  const [first = "", second = "", third = ""] = path
    .replace(/^#?\/?/, "")
    .split("/")
    .map(decode);
  if (first === "horses" && second !== "") {
    const day = parameters.get("day") ?? "";
    return DATE.test(day) ? { view: "horse", horse: second, date: day, at } : { view: "horse", horse: second, at: "" };
  }
  if (!DATE.test(first)) return { view: "day", date: "", at: "" };
  const number = Number(third);
  if (second !== "" && Number.isInteger(number) && number > 0) {
    return { view: "race", date: first, venue: second, number, at };
  }
  return { view: "day", date: first, at };
}

export const ofDay = (date) => `#/${date}`;
export const ofRace = (date, venue, number) => `#/${date}/${encodeURIComponent(venue)}/${number}`;

/** An address in the replay of a day, at a moment. The address of today stays as it is. */
export function asOf(fragment, day, moment) {
  const [path] = fragment.split("?");
  const { view, date } = parse(path);
  if (view === "horse") return `${path}?day=${day}&at=${moment}`;
  return date ? `${path}?at=${moment}` : fragment;
}

export const ofHorse = (horse) => `#/horses/${encodeURIComponent(horse)}`;

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}
