// The search of the docs: pure, so that it can be tested without a browser. It ranks sections by BM25.

/** The number of results shown: more are not read, but refined. */
const RESULTS_MAX = 12;
/** Characters of text around the first word that was found. */
const EXCERPT_BEFORE = 40;
const EXCERPT_LENGTH = 140;
/** BM25: how soon a repeated word adds no more, and how much a long section loses. */
const SATURATION = 1.2;
const LENGTH_SHARE = 0.6;
/** A word in the title of a section, or of its page, counts as so many in the text. */
const TITLE_WEIGHT = 6;
const PAGE_TITLE_WEIGHT = 2;
/** What a synonym counts for, a word that only begins like the last one of the query, and a pair or a part of words. */
const SYNONYM_WEIGHT = 0.9;
const PREFIX_WEIGHT = 0.5;
const PAIR_WEIGHT = 0.6;
/** Most readers call the API. The groups for others come last; questions before their list, messages and limits. */
const WEIGHTS = new Map([
  ["Feeders", 0.5],
  ["Operators", 0.4],
  ["docs/reference", 0.5],
  ["docs/messages", 0.8],
  ["docs/limits", 0.5],
]);
/** The sections of a reference below this title are types, which come after what has them. */
const TYPES_TITLE = "Types";
const TYPE_WEIGHT = 0.4;

/** Words that questions are made of. */
const STOP_WORDS = new Set(
  (
    "a an and are as at be by can did do does for from has have how i if in is it its me my of on or s that the " +
    "their there this to was were what when where which who why will with you your"
  ).split(" "),
);

/** What readers search for, and the words that the docs have for it. */
const SYNONYMS = [
  ["non runner, nonrunner, scratching, scratched, nr", "withdrawn withdrawal scratched without placing"],
  ["pagination, paginate, paging, cursor, offset, next page", "pages limit next after"],
  [
    "price over time, odds over time, odds history, price movement, time series, candle, ohlc",
    "prices moved history steps",
  ],
  ["cancel, unsubscribe, cancel subscription, delete account, close account", "leave end plan erased account"],
  ["country, nation, region", "racecourses venues"],
  ["track, course, racecourse", "venue racecourses"],
  ["fractional, american, moneyline, decimal, odds format", "formats odds decimal"],
  ["sp, starting price, closing price", "off prices last"],
  ["bsp, exchange", "betfair"],
  ["token, credential, login, authentication, auth, bearer", "key"],
  ["websocket, streaming, stream, push, real time, realtime", "live odds channel"],
  ["sse, eventsource", "server sent events"],
  ["throttle, throttling, quota, too many requests", "rate limits 429"],
  ["rate limit", "429 quota plan"],
  ["cost, subscription, billing, payment, tier", "plan"],
  ["payout, pool, tote", "dividends pay"],
  ["entries, declaration", "race card"],
  ["fixture, calendar, schedule", "racing days meetings"],
  ["past performance, pp, previous run, last run", "form run last races"],
  ["steamer, drifter, mover, market mover", "moved shortened drifted"],
  ["backtest, historical, point in time, snapshot", "past as_of"],
  ["download, dump, bulk, parquet, spreadsheet, excel", "export csv"],
  ["webhook, poll, polling, notification", "changes live"],
  ["reconnect, disconnect", "resume lost connection"],
  ["cors, browser", "origins pages"],
  ["cache, caching, 304", "etag"],
  ["translation, language, chinese, locale, i18n", "lang languages"],
  ["timezone, time zone, utc", "times today"],
  ["sdk, library, package", "clients"],
  ["swagger, openapi", "openapi.json"],
  ["statistics, stats, strike rate, win rate", "figures wins totals"],
  ["postal, post position, barrier, gate, stall", "draw"],
  ["dq, disqualified, did not finish, pulled up, fell", "outcome unplaced"],
  ["down, outage, uptime", "status incident"],
];

/**
 * @typedef {{ title: string, anchor: string, text: string }} Section
 * @typedef {{ path: string, group: string, title: string, sections: Section[] }} Page
 * @typedef {{ page: Page, section: Section, weight: number, counts: Map<string, number>, length: number }} Entry
 * @typedef {{ entries: Entry[], found: Map<string, number>, length: number }} Index
 * @typedef {{ path: string, page: string, title: string, excerpt: [string, boolean][], score: number }} Result
 */

/** @param {string} text */
function words(text) {
  return text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
}

/**
 * A word without its ending, so that `racing`, `races` and `raced` are one.
 *
 * @param {string} word
 */
export function stem(word) {
  if (word.length < 4 || /[\d_]/.test(word)) return word;
  // Else it would be a rate.
  if (word.startsWith("rating")) return "rating";
  let root = word.replace(/ies$/, "y").replace(/(?<=[^sui])s$/, "");
  root = root.replace(/(?<=[aeiouy].*[^e])(?:ing|ed)$|(?<=[aeiouy].*[st])ion$/, "");
  if (root.length < 3) return word;
  return root.replace(/([^aeiou])\1$/, "$1").replace(/(?<=..[^e])e$/, "");
}

/** The parts of words such as `race_number`. */
function parts(roots) {
  return roots.filter((word) => word.includes("_")).flatMap((word) => word.split("_").filter(Boolean).map(stem));
}

/** Adjacent words, in any order: `next race` is in `Which races are next?`. */
function pairs(roots) {
  const kept = roots.filter((word) => !STOP_WORDS.has(word));
  return kept.slice(1).map((word, at) => [kept[at], word].sort().join(" "));
}

/**
 * Prepares the pages for searches.
 *
 * @param {Page[]} pages
 * @returns {Index}
 */
export function buildIndex(pages) {
  // Several pages of the reference have the same types.
  const seen = new Set();
  const isNew = ({ title, text }) => seen.size < seen.add(`${title}\n${text}`).size;
  const entries = pages.flatMap((page) => {
    const types = page.sections.findIndex(({ title }) => title === TYPES_TITLE);
    const ofPage = WEIGHTS.get(page.group) ?? WEIGHTS.get(page.path) ?? 1;
    const weight = (section) => (types >= 0 && page.sections.indexOf(section) > types ? TYPE_WEIGHT : 1) * ofPage;
    return page.sections.filter(isNew).map((section) => entry(page, section, weight(section)));
  });
  const found = new Map();
  for (const { counts } of entries) for (const term of counts.keys()) found.set(term, (found.get(term) ?? 0) + 1);
  const length = entries.reduce((sum, entry) => sum + entry.length, 0) / entries.length;
  return { entries, found, length };
}

/** @returns {Entry} */
function entry(page, section, weight) {
  const counts = new Map();
  const add = (text, weight) => {
    const roots = words(text).map(stem);
    for (const term of [...roots, ...parts(roots), ...pairs(roots)]) counts.set(term, (counts.get(term) ?? 0) + weight);
  };
  add(section.text, 1);
  add(section.title, TITLE_WEIGHT);
  add(page.title, PAGE_TITLE_WEIGHT);
  return { page, section, weight, counts, length: words(section.text).length };
}

/** The terms of a query, each with its weight. */
function weights({ found }, query) {
  const all = words(query);
  const asked = all.filter((word) => !STOP_WORDS.has(word));
  const roots = (asked.length > 0 ? asked : all).map(stem);
  const wanted = new Map();
  const add = (term, weight) => wanted.set(term, Math.max(weight, wanted.get(term) ?? 0));
  const text = ` ${all.map(stem).join(" ")} `;
  for (const [phrases, others] of SYNONYMS) {
    const isAsked = phrases.split(", ").some((phrase) => text.includes(` ${words(phrase).map(stem).join(" ")} `));
    if (isAsked) for (const word of words(others)) add(stem(word), SYNONYM_WEIGHT);
  }
  for (const pair of pairs(roots)) add(pair, PAIR_WEIGHT);
  for (const part of parts(roots)) add(part, PAIR_WEIGHT);
  for (const root of roots) add(root, 1);
  // The last word may not be complete.
  const last = all.at(-1) ?? "";
  if (last.length > 1 && !found.has(stem(last))) {
    for (const term of found.keys()) if (term.startsWith(last) && !term.includes(" ")) add(term, PREFIX_WEIGHT);
  }
  return wanted;
}

/**
 * The sections that have any of a query's words, best first, and how many there are.
 *
 * @param {Index} index
 * @param {string} query
 * @returns {{ results: Result[], count: number }}
 */
export function search(index, query) {
  const wanted = weights(index, query);
  const scored = index.entries.map((entry) => ({ entry, score: score(index, entry, wanted) }));
  const found = scored.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score);
  const results = found.slice(0, RESULTS_MAX).map(({ entry, score }) => {
    const { page, section } = entry;
    const path = section.anchor ? `${page.path}#${section.anchor}` : page.path;
    return { path, page: page.title, title: section.title, excerpt: excerpt(section.text, wanted), score };
  });
  return { results, count: found.length };
}

function score({ entries, found, length }, entry, wanted) {
  let sum = 0;
  const penalty = SATURATION * (1 - LENGTH_SHARE + (LENGTH_SHARE * entry.length) / length);
  for (const [term, weight] of wanted) {
    const count = entry.counts.get(term);
    if (!count) continue;
    const rarity = Math.log(1 + (entries.length - found.get(term) + 0.5) / (found.get(term) + 0.5));
    sum += (weight * rarity * count * (SATURATION + 1)) / (count + penalty);
  }
  return sum * entry.weight;
}

/** The text around the first word that is searched for, in parts: whether each is one of these words. */
function excerpt(text, wanted) {
  const isWanted = (word) => wanted.has(stem(word.toLowerCase()));
  const parts = text.split(/([\p{L}\p{N}_]+)/u);
  const first = parts.findIndex((part, at) => at % 2 === 1 && isWanted(part));
  const at = parts.slice(0, Math.max(first, 0)).join("").length;
  const start = at <= EXCERPT_BEFORE ? 0 : text.indexOf(" ", at - EXCERPT_BEFORE) + 1;
  const cut = text.length > start + EXCERPT_LENGTH;
  const end = cut ? text.lastIndexOf(" ", start + EXCERPT_LENGTH) : text.length;
  const shown = text.slice(start, end).trim() + (cut ? " …" : "");
  return shown.split(/([\p{L}\p{N}_]+)/u).map((part, at) => [part, at % 2 === 1 && isWanted(part)]);
}
