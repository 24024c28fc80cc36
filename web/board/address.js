// The address of what is shown, in the fragment: it works under any path, and no server sees it.
//
//     #/2026-11-22            a day
//     #/2026-11-22/RB/3       a race
//     #/horses/RB_014         a horse
//     #/2026-11-22?at=...     a day or a race in a replay: at a moment, or from the `start` of the day

const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** Reads an address: `{ view: "day", date, at }`, `{ view: "race", date, venue, number, at }` or `{ view: "horse", horse }`. */
export function parse(fragment) {
  const [path, query] = fragment.split("?");
  const moment = new URLSearchParams(query).get("at") ?? "";
  const at = moment === "start" || Date.parse(moment) ? moment : "";
  const [first = "", second = "", third = ""] = path
    .replace(/^#?\/?/, "")
    .split("/")
    .map(decode);
  if (first === "horses" && second !== "") return { view: "horse", horse: second };
  if (!DATE.test(first)) return { view: "day", date: "", at: "" };
  const number = Number(third);
  if (second !== "" && Number.isInteger(number) && number > 0) {
    return { view: "race", date: first, venue: second, number, at };
  }
  return { view: "day", date: first, at };
}

export const ofDay = (date) => `#/${date}`;
export const ofRace = (date, venue, number) => `#/${date}/${encodeURIComponent(venue)}/${number}`;
/** An address of a replay at a moment; one that has none stays as it is. */
export const asOf = (fragment, moment) => (parse(fragment).date ? `${fragment.split("?")[0]}?at=${moment}` : fragment);
export const ofHorse = (horse) => `#/horses/${encodeURIComponent(horse)}`;

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}
