// Searches the docs of a service as readers do, without a browser.
//
//     node docs_search.mjs http://127.0.0.1:8080
//
// Each completed query is printed as a line of JSON.

import assert from "node:assert/strict";
import { buildIndex, search, stem } from "../../web/docs-search.js";

const [service] = process.argv.slice(2);

/** What readers ask, and the pages or sections of which one is among the first three results. */
const QUERIES = [
  // In the words of readers.
  ["pagination", "docs/api#pages"],
  ["fractional odds", "docs/board#", "docs/board"],
  ["cancel subscription", "docs/keys#your-account"],
  ["price over time", "docs/reference/odds#how-did-the-odds-of-a-race-move-over-time", "docs/past#how-prices-moved"],
  ["non runner", "docs/api#runners-without-a-placing"],
  ["which countries", "docs/reference/venues#which-racecourses-are-there-and-in-which-time-zones"],
  [
    "starting price",
    "docs/reference/odds#what-were-the-first-and-the-last-prices-before-the-off",
    "docs/past#the-prices-at-the-off",
  ],
  [
    "SP",
    "docs/reference/odds#what-were-the-first-and-the-last-prices-before-the-off",
    "docs/past#the-prices-at-the-off",
  ],
  ["too many requests", "docs/api#rate-limits", "docs/errors#rate_limit_exceeded"],
  ["rate limit", "docs/api#rate-limits"],
  ["websocket", "docs/live-odds"],
  ["api key", "docs/keys#using-a-key", "docs/keys#getting-a-key"],
  ["how do I get a key?", "docs/keys#getting-a-key"],
  ["authentication", "docs/api#authentication"],
  ["bearer token", "docs/keys#using-a-key", "docs/api#authentication"],
  ["jockey strike rate", "docs/reference/people#how-often-does-a-jockey-win-and-where"],
  ["which jockey wins most", "docs/reference/venues#which-jockey-trainer-or-draw-wins-most-at-a-course"],
  ["fixtures calendar", "docs/reference/days#on-which-days-is-there-racing-and-where"],
  ["backtest", "docs/past"],
  ["download csv", "docs/api#csv-and-ndjson", "docs/past#export", "docs/reference/exports"],
  ["payout", "docs/reference/results#what-did-a-race-pay"],
  ["who won", "docs/reference/results#who-won-a-race"],
  ["past performances of a horse", "docs/reference/horses#how-has-a-horse-run-in-its-last-races"],
  ["two horses head to head", "docs/reference/horses#which-of-two-horses-was-ahead"],
  ["market movers", "docs/reference/odds#which-runners-shortened-or-drifted-most"],
  ["reconnecting", "docs/live-odds#resume"],
  ["CORS", "docs/api#web-pages"],
  ["chinese names", "docs/api#languages"],
  ["time zone", "docs/api#today", "docs/api#conventions"],
  ["python client", "docs/live-odds#clients"],
  ["next race", "docs/reference/days#which-races-are-next"],
  ["draw bias at Happy Valley", "docs/reference/venues#which-jockey-trainer-or-draw-wins-most-at-a-course"],
  ["last-modified caching", "docs/api#caching"],
  ["mirror all the data", "docs/reference/changes"],
  // In those of the docs.
  ["dead heat", "docs/reference/results"],
  ["invalid_date", "docs/errors#invalid_date"],
  ["as_of", "docs/past"],
  ["conflate_ms", "docs/live-odds#conflation"],
  ["4408", "docs/errors#4408"],
  ["resume", "docs/live-odds#resume"],
  ["railbird log accept", "docs/commands#railbird-log-accept"],
  ["caddy", "docs/production"],
];

const response = await fetch(`${service}/docs/search.json`);
const index = buildIndex(await response.json());
const wrong = [];
for (const [query, ...wanted] of QUERIES) {
  const found = search(index, query).results.map(({ path }) => path);
  const isWanted = (path) => wanted.some((start) => path === start || path.startsWith(`${start}#`));
  const rank = found.findIndex(isWanted);
  if (rank < 0 || rank > 2) wrong.push({ query, wanted, found: found.slice(0, 5) });
}
assert.deepEqual(wrong, []);

for (const forms of [
  "race races raced racing",
  "cancel cancels cancelled",
  "price prices pricing",
  "country countries",
]) {
  assert.equal(new Set(forms.split(" ").map(stem)).size, 1, forms);
}
// A word that is being typed, and one that no page has.
assert.ok(search(index, "heartb").count > 0);
assert.deepEqual(search(index, "qzxqzx"), { results: [], count: 0 });
assert.deepEqual(search(index, "  "), { results: [], count: 0 });
// The words are marked where they are.
const [{ excerpt }] = search(index, "quinella").results;
assert.ok(
  excerpt.some(([part, isWanted]) => isWanted && /^quinella/i.test(part)),
  JSON.stringify(excerpt),
);
// Pages of readers come before those of operators; types that several pages have are found once.
const page = (group, path, text) => ({
  group,
  path,
  title: path,
  sections: [{ title: "Limits", anchor: "limits", text }],
});
const two = buildIndex([page("Operators", "docs/scaling", "A limit"), page("Start", "docs/api", "Their limit")]);
assert.deepEqual(
  search(two, "limits").results.map(({ path }) => path),
  ["docs/api#limits", "docs/scaling#limits"],
);
assert.equal(buildIndex([page("", "a", "Same"), page("", "b", "Same")]).entries.length, 1);
console.log(JSON.stringify({ searched: QUERIES.length }));
