// The address of what is shown, in the fragment: it works under any path, and no server sees it.
//
//     #/2026-11-22            a day
//     #/2026-11-22/RB/3       a race
//     #/horses/RB_014         a horse

const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** Reads an address: `{ view: "day", date }`, `{ view: "race", date, venue, number }` or `{ view: "horse", horse }`. */
export function parse(fragment) {
  const [first = "", second = "", third = ""] = fragment
    .replace(/^#?\/?/, "")
    .split("/")
    .map(decode);
  if (first === "horses" && second !== "") return { view: "horse", horse: second };
  if (!DATE.test(first)) return { view: "day", date: "" };
  const number = Number(third);
  if (second !== "" && Number.isInteger(number) && number > 0) {
    return { view: "race", date: first, venue: second, number };
  }
  return { view: "day", date: first };
}

export const ofDay = (date) => `#/${date}`;
export const ofRace = (date, venue, number) => `#/${date}/${encodeURIComponent(venue)}/${number}`;
export const ofHorse = (horse) => `#/horses/${encodeURIComponent(horse)}`;

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}
