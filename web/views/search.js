// Searches horses, people and venues in the API, and races and runners among those that the page has.

import * as address from "../board/address.js";
import * as formats from "../board/formats.js";
import { racesAhead } from "./ahead.js";

/** Rows of a kind that are asked for at a time. */
const ROWS = 20;
/** Answers that are kept, and for how long: each costs a request. */
const KEPT_MAX = 100;
const KEPT_MS = 5 * 60_000;
const LETTERS_MIN = 2;
/** A character of these is a word or a syllable. */
const SYLLABLES = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;

/** The kinds that the API searches, in the order in which they are shown. */
export const KINDS = { horses: "Horses", jockeys: "Jockeys", trainers: "Trainers", owners: "Owners", venues: "Venues" };

const NOTHING = { rows: [], next: "" };

/** The lists of rows by their paths, each with its kind, text and age. */
const kept = new Map();

/** Whether a text is long enough to find little enough. */
export function isSearchable(text) {
  return [...text].length >= LETTERS_MIN || SYLLABLES.test(text);
}

/** Case and accents do not count. */
const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/**
 * Those of a kind whose name has a text: `{ rows, next }`, of each `{ kind, key, name, about, href }`. `next` is the path
 * of the next page, if there is one.
 */
export async function find(board, kind, text, { signal, path } = {}) {
  path ||= `${kind}?${new URLSearchParams({ name: text, limit: ROWS })}`;
  for (const [path, { at }] of kept) if (performance.now() - at > KEPT_MS) kept.delete(path);
  if (kept.has(path)) return kept.get(path);
  if (isNowhere(kind, text)) return NOTHING;
  const { document } = await board.api.get(path, { signal });
  const rows = document[kind].map((row) => (kind === "horses" ? horseRow(row) : personRow(kind, row)));
  const next = document.next.replace(/^\/?api\/v1\//, "");
  const found = { kind, text, rows, next, at: performance.now() };
  kept.set(path, found);
  if (kept.size > KEPT_MAX) kept.delete(kept.keys().next().value);
  return found;
}

/** Whether no name has the beginning of a text: then none has all of it. */
function isNowhere(kind, text) {
  const isEmpty = (one) => one.kind === kind && one.rows.length === 0 && one.next === "" && text.startsWith(one.text);
  return [...kept.values()].some(isEmpty);
}

/** What a search finds of each kind: `{ title, kind, rows, next }`, without kinds of which there is nothing. */
export async function findAll(board, text, { kinds = Object.keys(KINDS), signal } = {}) {
  const found = await Promise.all([
    ...kinds.map((kind) => find(board, kind, text, { signal })),
    // Once, for the races.
    board.loadAhead(),
  ]);
  const groups = kinds.map((kind, index) => ({ title: KINDS[kind], kind, ...found[index] }));
  const horses = groups.find(({ kind }) => kind === "horses");
  const runners = runnersNamed(board, text);
  horses.rows = [...runners, ...horses.rows.filter(({ key }) => !runners.some((runner) => runner.key === key))];
  if (kinds.length > 1) groups.splice(1, 0, { title: "Races", kind: "races", rows: racesNamed(board, text), next: "" });
  return groups.filter(({ rows }) => rows.length > 0);
}

function horseRow({ horse_no, horse_name, age, country_of_origin, trainer }) {
  const about = [age > 0 && `${age} years`, country_of_origin, trainer].filter(Boolean).join(" · ");
  const href = address.ofHorse(horse_no);
  return { kind: "horses", key: horse_no, name: horse_name || horse_no, about, href };
}

function personRow(kind, row) {
  const name = row[kind.slice(0, -1)];
  const where = kind === "venues" ? row.key : formats.zoneName(row.area);
  const about = [where, row.last_on && `last race ${row.last_on}`].filter(Boolean).join(" · ");
  return { kind, key: row.key, name, about, href: address.ofPerson(kind, row.key) };
}

/** The races of the day that is shown, or of coming days, whose names have all words of a text. */
function racesNamed(board, text) {
  const words = plain(text).split(/\s+/);
  const named = (race) => {
    const name = plain(`${race.title} ${race.name} ${race.label} race ${race.number}`);
    return words.every((word) => name.includes(word));
  };
  const shown = [...board.store.races.values()].filter(({ date }) => date === board.date);
  return [...new Set([...racesAhead(board), ...shown])]
    .filter(named)
    .slice(0, ROWS)
    .map((race) => ({
      kind: "races",
      key: race.key,
      name: `${race.title} ${race.name}`.trim(),
      about: race.date === board.date ? formats.conditions(race) : formats.day(race.date),
      href: address.ofRace(race.date, race.venueCode, race.number),
    }));
}

/** The runners of races ahead whose names have a text. The page may have them in the visitor's language. */
function runnersNamed(board, text) {
  const part = plain(text);
  const rows = [];
  for (const race of racesAhead(board)) {
    for (const { horse_no, horse_name, isWithdrawn } of race.runners.values()) {
      if (isWithdrawn || rows.length === ROWS || !plain(horse_name).includes(part)) continue;
      const href = address.ofHorse(horse_no);
      rows.push({ kind: "horses", key: horse_no, name: horse_name, about: `runs ${race.title}`, href });
    }
  }
  return rows;
}
