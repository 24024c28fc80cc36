// The address of what is shown, in the fragment: it works under any path, and no server sees it.
//
//     #/2026-11-22            a day
//     #/2026-11-22/RB/3       a race
//     #/horses/RB_014         a horse; `?against=RB_021` compares it with another one
//     #/jockeys/KEY           a jockey; also trainers, owners and venues, `?from=&to=&by=` of their figures
//     #/jockeys?name=A+Quill  the jockey of a name
//     #/search/TEXT           all that a search finds
//     #/following             what the visitor follows
//     #/2026-11-22?at=...     a day or a race in a replay: at a moment, or from the `start` of the day
//     #/horses/RB_014?day=2026-11-22&at=...

const DATE = /^\d{4}-\d{2}-\d{2}$/;
/** The kinds of people and venues, as in the paths of the API. */
const PEOPLE = ["jockeys", "trainers", "owners", "venues"];

/**
 * Reads an address: `{ view: "day", date, at }`, `{ view: "race", date, venue, number, at }`,
 * `{ view: "horse", horse, against, date, at }` with the day of a replay, `{ view: "person", kind, key, name, figures }`,
 * `{ view: "search", text }` or `{ view: "following" }`.
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
    const horse = { view: "horse", horse: second, against: parameters.get("against") ?? "" };
    return DATE.test(day) ? { ...horse, date: day, at } : { ...horse, at: "" };
  }
  const name = parameters.get("name") ?? "";
  if (PEOPLE.includes(first) && (second || name)) {
    const figures = Object.fromEntries(["from", "to", "by"].map((name) => [name, parameters.get(name) ?? ""]));
    return { view: "person", kind: first, key: second, name, figures, at: "" };
  }
  if (first === "search" && second !== "") return { view: "search", text: second, at: "" };
  if (first === "following") return { view: "following", at: "" };
  if (!DATE.test(first)) return { view: "day", date: "", at: "" };
  const number = Number(third);
  if (second !== "" && Number.isInteger(number) && number > 0) {
    return { view: "race", date: first, venue: second, number, at };
  }
  return { view: "day", date: first, at };
}

export const ofDay = (date) => `#/${date}`;
export const ofRace = (date, venue, number) => `#/${date}/${encodeURIComponent(venue)}/${number}`;
export const ofHorse = (horse) => `#/horses/${encodeURIComponent(horse)}`;
export const ofPair = (horse, other) => `${ofHorse(horse)}?against=${encodeURIComponent(other)}`;
export const ofPerson = (kind, key) => `#/${kind}/${encodeURIComponent(key)}`;
export const ofName = (kind, name) => `#/${kind}?${new URLSearchParams({ name })}`;
export const ofSearch = (text) => `#/search/${encodeURIComponent(text)}`;
export const FOLLOWING = "#/following";

/** An address in the replay of a day, at a moment. That of another day is no part of it, and stays as it is. */
export function asOf(fragment, day, moment) {
  const [path] = fragment.split("?");
  const { view, against, date } = parse(fragment);
  if (view === "horse") return `${path}?${against && `against=${encodeURIComponent(against)}&`}day=${day}&at=${moment}`;
  return date === day ? `${path}?at=${moment}` : fragment;
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}
