// A jockey, a trainer, an owner or a venue: figures of a period, by groups, and the latest rides.

import * as address from "../board/address.js";
import { element } from "../board/dom.js";
import { star } from "../board/following.js";
import * as formats from "../board/formats.js";
import { FORM_ROWS, FormTable } from "./formtable.js";
import { GroupTable } from "./grouptable.js";
import { KINDS, find } from "./search.js";
import { SearchView } from "./searchview.js";

const WORDS = { jockeys: "Jockey", trainers: "Trainer", owners: "Owner", venues: "Venue" };
/** What figures can be grouped by. */
const GROUPS = ["season", "venue", "distance", "going", "class", "draw", "jockey", "trainer"];
/** What a venue is about: all are shown. */
const GROUPS_OF_VENUE = ["jockey", "trainer", "draw"];
/** Rows of a search for a name, the most of a page: one of them has exactly this name. */
const NAMES_MAX = 1000;
/** Seasons that can be chosen. */
const SEASONS = 6;

/** Reads the person of a key, or of a name. */
export async function load(board, { kind, key, name, figures }) {
  if (!key) {
    const path = `${kind}?${new URLSearchParams({ name, limit: NAMES_MAX })}`;
    const { rows } = await find(board, kind, name, { path });
    const named = rows.filter((row) => row.name.toLowerCase() === name.toLowerCase());
    if (named.length !== 1) {
      const group = { title: KINDS[kind], kind, rows: named.length > 1 ? named : rows, next: "" };
      return new SearchView(board, name, group.rows.length > 0 ? [group] : []);
    }
    key = named[0].key;
    history.replaceState(history.state, "", address.ofPerson(kind, key));
  }
  const [documents, { document: rides }] = await Promise.all([
    readFigures(board, kind, key, figures),
    board.api.get(`${pathOf(kind, key)}/rides?limit=${FORM_ROWS}`),
  ]);
  return new PersonView(board, { kind, key, figures, documents, rides });
}

const pathOf = (kind, key) => `${kind}/${encodeURIComponent(key)}`;

/** The figures of a period, by each of the groups that are shown. */
function readFigures(board, kind, key, { from, to, by }) {
  const groups = kind === "venues" ? GROUPS_OF_VENUE : [by || "season"];
  const read = async (by) => {
    const period = Object.entries({ from, to }).filter(([, date]) => date !== "");
    return (await board.api.get(`${pathOf(kind, key)}?${new URLSearchParams([...period, ["by", by]])}`)).document;
  };
  return Promise.all(groups.map(read));
}

class PersonView {
  #board;
  #kind;
  #key;
  #name;
  #choice;
  #figures = element("div", { class: "figures-of" });

  constructor(board, { kind, key, figures, documents, rides }) {
    this.#board = board;
    this.#kind = kind;
    this.#key = key;
    this.#choice = figures;
    const [{ area, ...identity }] = documents;
    this.#name = this.title = identity[kind.slice(0, -1)];
    const where = kind === "venues" ? key : formats.zoneName(area);
    const table = new FormTable(
      board,
      `${formats.capitalized(this.#rides)} of ${this.title}`,
      kind,
      ({ rides }) => rides,
    );
    table.add(rides);
    this.element = element(
      "article",
      { class: "person-view" },
      element("div", { class: "titled" }, element("h1", { tabindex: "-1" }, this.title), star(kind, key, this.title)),
      element("p", { class: "lead" }, [WORDS[kind], where].filter(Boolean).join(", ")),
      element("p", { class: "choices" }, this.#periods(area), kind !== "venues" && this.#groups()),
      this.#figures,
      element("h2", {}, `Latest ${this.#rides}`),
      table.element,
    );
    this.#write(documents);
  }

  /** Jockeys alone have rides. */
  get #rides() {
    return this.#kind === "jockeys" ? "rides" : "runners";
  }

  /** A choice of the period: all, or one of the latest seasons. */
  #periods(area) {
    const { from, to } = this.#choice;
    const chosen = from || to ? `${from}/${to}` : "";
    const seasons = latestSeasons(this.#board.today, area);
    const options = [["", "All seasons"], ...seasons];
    // An address may have any period.
    if (!options.some(([value]) => value === chosen)) options.push([chosen, `${from || "…"} to ${to || "…"}`]);
    return this.#select("Period", options, chosen, (value) => {
      const [from = "", to = ""] = value.split("/");
      this.#choose({ from, to });
    });
  }

  #groups() {
    const options = GROUPS.filter((by) => `${by}s` !== this.#kind).map((by) => [by, `By ${by}`]);
    return this.#select("Groups", options, this.#choice.by || "season", (by) => this.#choose({ by }));
  }

  #select(label, options, chosen, take) {
    const select = element(
      "select",
      { "aria-label": label, class: "odds-choice" },
      ...options.map(([value, name]) => element("option", { value, selected: value === chosen }, name)),
    );
    select.addEventListener("change", () => take(select.value));
    return select;
  }

  async #choose(change) {
    this.#choice = { ...this.#choice, ...change };
    const choice = this.#choice;
    const parameters = Object.entries(choice).filter(([, value]) => value !== "");
    const query = parameters.length > 0 ? `?${new URLSearchParams(parameters)}` : "";
    history.replaceState(history.state, "", address.ofPerson(this.#kind, this.#key) + query);
    try {
      const documents = await readFigures(this.#board, this.#kind, this.#key, choice);
      if (choice === this.#choice) this.#write(documents);
    } catch (error) {
      this.#board.report(error);
    }
  }

  #write(documents) {
    const [{ totals, complete, from, to }] = documents;
    const rides = this.#rides;
    const span = from ? `${formats.capitalized(rides)} from ${from} to ${to}` : `No ${rides} in this period`;
    const note = complete ? span : `${span}: the newest 5,000 are counted`;
    const tables = documents.map((document) => new GroupTable(this.#board, document, this.#name).element);
    this.#figures.replaceChildren(
      element("dl", { class: "totals" }, ...totalsOf(totals)),
      element("p", { class: "hint", role: "status" }, note),
      element("div", { class: "groups" }, ...tables),
    );
  }

  changed() {}
  tick() {}
  close() {}
}

function totalsOf({ starts, wins, places, strike_rate, priced_starts, profit }) {
  const profitName = priced_starts === starts ? "Profit at starting prices" : `Profit, ${priced_starts} with a price`;
  return [
    ["Starts", formats.whole(starts)],
    ["Wins", formats.whole(wins)],
    ["Second and third", formats.whole(places)],
    ["Strike rate", formats.percent(100 * strike_rate)],
    [profitName, priced_starts > 0 ? formats.signed(profit) : "–"],
  ].map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
}

/** The month in which a season begins where the time zone is, as the API counts. */
function seasonMonth(zone) {
  if (/^Asia\/(Hong_Kong|Shanghai)/.test(zone)) return 9;
  return /^(Australia\/|Pacific\/Auckland)/.test(zone) ? 8 : 1;
}

/** The latest seasons: the dates as a value, and the name. */
function latestSeasons(today, zone) {
  const first = seasonMonth(zone);
  const [year, month] = today.split("-").map(Number);
  const latest = month < first ? year - 1 : year;
  const date = (...parts) => new Date(Date.UTC(...parts)).toISOString().slice(0, 10);
  return Array.from({ length: SEASONS }, (_, ago) => {
    const begins = latest - ago;
    const name = first === 1 ? `${begins}` : `${begins}/${`${begins + 1}`.slice(2)}`;
    return [`${date(begins, first - 1, 1)}/${date(begins + 1, first - 1, 0)}`, `Season ${name}`];
  });
}
